"""Files where no descriptor travels: their bytes go by the link, in chunks. The suite control-files-chunks runs all
tests of files and trees that way; here is what shows that it is another way."""

import base64
import random

import pytest

from control import refused
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
