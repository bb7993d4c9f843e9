"""Files where no descriptor travels: their bytes go by the link, in chunks. The suite control-files-chunks runs all
tests of files and trees that way; here is what shows that it is another way."""

import base64
import hashlib
import pathlib
import random
import tempfile

import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from control import FAILED, READY, refused
from files import download, read, tar, untar, upload, write

SECRET = b"contents-that-must-not-show!" * 3000


@pytest.fixture
def daemon(make):
    return make(env={"BERM_FILE_CHUNKS": "1"}).start()


def test_bytes_go_by_the_link_and_not_into_its_transcript(daemon, client, box):
    """covers: FILE-1, FILE-3, FILE-12, FILE-13, AUDIT-4"""
    tree = {f"d/{i}": random.Random(i).randbytes(i * 5000) for i in range(20)} | {"d/secret": SECRET}
    write(client, box, "one", SECRET)
    assert read(client, box, "one") == SECRET
    assert read(client, box, "one", offset=49151, max_bytes=3) == SECRET[49151:49154]
    upload(client, box, "tree", tar(*tree.items()))
    data, end = download(client, box, "tree")
    assert {name: data for name, data in untar(data).items() if data is not None} == tree and end.files == 21
    daemon.stop()
    said = (daemon.state / "sandboxes" / box / "guest.log").read_text()
    for method in "write_chunk", "read_chunk", "unpack", "pack", "file_chunks":
        assert f'"{method}"' in said
    assert SECRET[:27].decode() not in said and base64.b64encode(SECRET[:27]).decode() not in said
    daemon.start()


def test_a_tree_that_fails_half_way_says_why(client, box):
    """covers: FILE-12"""
    good, bad = [(f"f{i}", bytes(100000)) for i in range(20)], [("../out", b"x")]
    with refused("TREE_INVALID"):
        upload(client, box, "tree", tar(*bad, *good))
    with refused("TREE_INVALID"):
        upload(client, box, "tree", tar(*good, *bad))
    with refused("TREE_INVALID"):
        upload(client, box, "tree", tar(*good)[:-20000])
    with refused("FILE_NOT_FOUND"):
        download(client, box, "nowhere")
    assert upload(client, box, "tree", tar(*good)).files == 20


# ---- copies and credentials

@pytest.fixture
def home():
    """A folder that may go in, and root's home for the daemon."""
    with tempfile.TemporaryDirectory(prefix="berm-chunks-") as top:
        yield pathlib.Path(top)


@pytest.fixture
def at_home(make, home):
    passwd = home / "passwd"
    lines = [line for line in pathlib.Path("/etc/passwd").read_text().splitlines() if line.split(":")[2] != "0"]
    passwd.write_text("\n".join([f"root:x:0:0::{home}:/bin/sh", *lines]) + "\n")
    inside = ("unshare", "--mount", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh")
    return make("--set", f"mount_roots={home}", env={"BERM_FILE_CHUNKS": "1"}).start(prefix=inside)


def copy(source, target="/workspace/in", **more):
    return pb.Copy(source=str(source), target=target, **more)


def test_copies_go_by_the_link_and_credentials_not_into_its_transcript(at_home, home):
    """covers: SBX-22, SBX-23"""
    large = random.Random(1).randbytes(5 << 20)
    tree = {"large": large, "empty": b"", "deep/er/small": b"x", "left/out": b"y"}
    for name, data in tree.items():
        (home / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "src" / name).write_bytes(data)
    (home / ".git-credentials").write_bytes(SECRET)
    client = at_home.client()
    made = client.create(copies=[copy(home / "src", excludes=["left"]), copy(home / "src/large", "/workspace/alone")],
                         tools=[pb.Tool(name="git", credentials=True)])
    assert made.state == READY, made
    box = made.sandbox_id
    digest = hashlib.sha256(large).hexdigest()
    assert client.output_of(box, "find in -type f | sort; cat in/large alone | sha256sum; sha256sum < in/large; stat -c '%a %s' ~/.git-credentials") == (
        f"in/deep/er/small\nin/empty\nin/large\n{hashlib.sha256(large * 2).hexdigest()}  -\n{digest}  -\n600 {len(SECRET)}\n")
    at_home.stop()
    said = (at_home.state / "sandboxes" / box / "guest.log").read_text()
    assert '"write_chunk"' in said and '"unpack"' in said
    assert SECRET[:27].decode() not in said and base64.b64encode(SECRET[:27]).decode() not in said
    at_home.start()


def test_a_copy_that_fails_half_way_says_why(at_home, home):
    """covers: SBX-22"""
    client = at_home.client()
    source = home / "src"
    source.mkdir()
    for i in range(20):
        (source / f"f{i}").write_bytes(bytes(100000))
    (source / "z").symlink_to("../out")
    made = client.create(copies=[copy(source)])
    assert (made.state, made.reason.code) == (FAILED, "TREE_INVALID") and "spec.copies[0]" in made.reason.message, made
    (source / "z").unlink()
    # The guest takes no more: what it says counts, not that the pipe broke.
    made = client.create(copies=[copy(source, "/etc/in")])
    assert made.state == FAILED and made.reason.code != "GUEST_LOST" and "spec.copies[0]" in made.reason.message, made
    (source / "large").write_bytes(random.Random(2).randbytes(12 << 20))
    made = client.create(copies=[copy(source)], limits=pb.Limits(disk_bytes=8 << 20))
    assert (made.state, made.reason.code) == (FAILED, "DISK_FULL"), made
    made = client.create(copies=[copy(source)])
    assert made.state == READY and client.output_of(made.sandbox_id, "ls in | wc -l") == "21\n", made
