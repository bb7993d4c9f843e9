"""A guest that means harm (hostile_guest.c): it can spoil its own sandbox, not the daemon."""

import time

import pytest

from control import BERMD, READY, pb, refused


@pytest.fixture
def daemon(make):
    return make("--set", f"guest={BERMD.parent / 'hostile-guest'}").start()


def still_serves(daemon, box):
    """Another client is answered, and can have the sandbox away."""
    other = daemon.client()
    assert other.info().version and other.get(box).state == READY
    other.delete(box)


def test_a_pipe_that_would_wait_keeps_nobody_waiting_who_reads_it(daemon, client, box):
    """Each turn takes what is there and looks for more, which is not."""
    stream = client.stream("DownloadTree", sandbox_id=box, path="/hostile/fifo")
    data = b""
    while len(data) < 100:
        data += next(stream).data
    assert set(data) == {ord("x")}
    still_serves(daemon, box)


def test_a_pipe_that_would_wait_keeps_nobody_waiting_who_writes_it(daemon, client, box):
    """It is filled little by little, and then there is more."""
    def parts():
        yield pb.UploadTreeRequest(header=pb.UploadTreeHeader(sandbox_id=box, path="/hostile/fifo"))
        for _ in range(100):
            yield pb.UploadTreeRequest(data=bytes(4096))
            time.sleep(.005)
    under_way = client.method("UploadTree").future(parts())
    with refused("FILE_DENIED") as full:
        client.ask("StatFile", sandbox_id=box, path="/hostile/fifo")
    assert "size 65536" in full.text
    still_serves(daemon, box)
    assert under_way.exception()


def test_a_file_that_no_limit_counts_is_not_written(daemon, client, box):
    """A file in memory of nobody's file system would grow as the daemon's; the guest may write it by itself."""
    with refused("FILE_DENIED") as size:
        client.write(box, "/hostile/memory", bytes(1 << 20))
    assert "size 0" in size.text
    still_serves(daemon, box)
