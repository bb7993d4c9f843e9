"""Archives that no honest guest packs. Every client that extracts archives must survive each of them: nothing outside
of the target changes. SECRET stands for a directory beside the target that holds one file, `kept`."""

import io
import tarfile

FILE, DIR, SYM, HARD, CHAR, FIFO = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE,
                                    tarfile.CHRTYPE, tarfile.FIFOTYPE)

# name: (member, type, target of a link)...
ARCHIVES = {
    "parent": [("../secret/x", FILE, "")],
    "absolute": [("/SECRET/x", FILE, "")],
    "parent behind a name": [("a/../../secret/x", FILE, "")],
    "file through an absolute link": [("way", SYM, "SECRET"), ("way/x", FILE, "")],
    "file through a relative link": [("way", SYM, "../secret"), ("way/sub/x", FILE, "")],
    "link that becomes a directory": [("way", SYM, "../secret"), ("way", DIR, ""), ("way/x", FILE, "")],
    "link through a link": [("one", SYM, "."), ("one/two", SYM, "../secret"), ("two/x", FILE, "")],
    "link that is moved under another": [("sub/deep/x", FILE, ""), ("b", SYM, "sub/deep"), ("a", SYM, "b/../../secret/kept"),
                                         ("b", SYM, "."), ("a", FILE, "")],
    "file over a link": [("kept", SYM, "SECRET/kept"), ("kept", FILE, "")],
    "hard link out": [("hard", HARD, "../secret/kept"), ("hard", FILE, "")],
    "hard link out by an absolute name": [("hard", HARD, "/SECRET/kept"), ("hard", FILE, "")],
    "hard link through a link": [("way", SYM, "SECRET"), ("hard", HARD, "way/kept"), ("hard", FILE, "")],
    "file over a hard link to a link": [("a", SYM, "SECRET/kept"), ("b", HARD, "a"), ("b", FILE, "")],
    "file over a relative hard link to a link": [("d/a", SYM, "../../secret/kept"), ("b", HARD, "d/a"), ("b", FILE, "")],
    "directory over a hard link to a link": [("a", SYM, "SECRET"), ("b", HARD, "a"), ("b", DIR, ""), ("b/x", FILE, "")],
    "device": [("device", CHAR, "")],
    "fifo": [("fifo", FIFO, "")],
    "the root as a file": [(".", FILE, "")],
    "the root as a link": [(".", SYM, "SECRET"), ("x", FILE, "")],
    "no name": [("", FILE, "")],
}


def pack(members, secret="SECRET"):
    """The archive's bytes; each file holds `evil`, with set-id bits and a foreign owner."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name.replace("/SECRET", secret))
            info.type, info.linkname = kind, target.replace("/SECRET", secret).replace("SECRET", secret)
            info.size = 4 if kind == FILE else 0
            info.mode, info.uid = 0o6755, 12345
            tar.addfile(info, io.BytesIO(b"evil"))
    return made.getvalue()
