"""A guest that means harm (hostile_guest.c): it can spoil its own sandbox, not the daemon."""

import time

import pytest

from control import BERMD, TIMEOUT_S, PAUSED, READY, STARTING, eventually, pb, refused


@pytest.fixture
def daemon(make):
    return make("--set", f"guest={BERMD.parent / 'hostile-guest'}", "--set", "limits.sandboxes.parked=0").start()


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


@pytest.mark.parametrize("policy", ["DROP_OLDEST", "BLOCK", "KILL"])
def test_output_that_the_guest_sends_beyond_its_cap_is_not_kept(daemon, client, policy):
    """Over a link without descriptors the daemon writes the output itself."""
    box = client.create("no-fds").sandbox_id
    done = client.exec(box, "/hostile/flood", output_limit_bytes=64 << 10,
                       output_policy=getattr(pb, f"OUTPUT_POLICY_{policy}")).exec_id
    client.wait(done)
    record = client.get_exec(done)
    kept = record.output[0].end_offset - record.output[0].first_offset
    assert 0 < kept <= (128 << 10 if policy == "DROP_OLDEST" else 9 << 20)
    assert record.exit.WhichOneof("how") == ("code" if policy == "DROP_OLDEST" else "lost")
    still_serves(daemon, box)


def test_start_that_the_guest_never_answers_returns_when_the_sandbox_pauses(daemon, client, box):
    """The guest of a paused sandbox cannot answer, so the call reports the exec as STARTING."""
    request = pb.StartExecRequest(sandbox_id=box, spec=pb.ExecSpec(argv=["/hostile/silent"]))
    under_way = client.method("StartExec").future(request, timeout=TIMEOUT_S)
    eventually(lambda: client.ask("ListExecs", sandbox_id=box).execs, "the exec is accepted")
    assert client.pause(box).state == PAUSED
    assert under_way.result().exec.state == STARTING
    client.delete(box)
