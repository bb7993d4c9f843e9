"""The conversation with each guest, as plain text."""

from control import pb

SECRET, INPUT, TEXT = "env-value-that-must-not-show", b"input-that-must-not-show", "output-that-must-not-show"


def log_of(daemon, sandbox_id):
    return daemon.state / "sandboxes" / sandbox_id / "guest.log"


def test_what_was_said_is_kept_without_values_and_contents(daemon, client):
    """covers: AUDIT-4, AUDIT-3"""
    box = client.create(env={"NAME": SECRET + "-sandbox"}).sandbox_id
    done = client.run(box, "sh", "-c", "cat; echo output-that-must-not-show", env={"OTHER": SECRET}, stdin=INPUT, exec_id="told")
    assert TEXT.encode() in done.stdout_data
    held = client.exec(box, "cat", stdin_mode=pb.STDIN_MODE_PIPE).exec_id
    client.ask("WriteStdin", exec_id=held, data=INPUT)
    client.ask("CloseStdin", exec_id=held, offset=len(INPUT))
    client.wait(held)
    daemon.stop()                        # lines gather in memory until then
    text = log_of(daemon, box).read_text()
    assert '"hello"' in text and '"exec"' in text and "told" in text and "exited" in text
    assert SECRET not in text and INPUT.decode() not in text
    import base64
    assert base64.b64encode(INPUT).decode().rstrip("=") not in text
    assert all(line.isprintable() for line in text.splitlines())
    daemon.start()


def test_no_event_record_or_log_of_the_daemon_holds_values(daemon, client):
    """covers: AUDIT-3, RPC-29"""
    box = client.create(env={"NAME": SECRET}).sandbox_id
    client.run(box, "sh", "-c", "cat >/dev/null; echo " + TEXT, env={"OTHER": SECRET}, stdin=INPUT)
    for event in client.events():
        assert SECRET.encode() not in event.SerializeToString() and INPUT not in event.SerializeToString()
    daemon.stop()
    text = daemon.text()
    assert SECRET not in text and TEXT not in text and INPUT.decode() not in text
    daemon.start()


def test_it_is_bounded_and_ends_with_the_newest(make):
    """covers: AUDIT-4"""
    daemon = make("--set", "limits.guest.log=65536").start()
    client = daemon.client()
    box = client.create().sandbox_id
    for number in range(300):
        client.run(box, "true", exec_id=f"told-{number}")
        assert not log_of(daemon, box).exists() or log_of(daemon, box).stat().st_size <= 65536
    daemon.stop()
    text = log_of(daemon, box).read_text()
    assert 20000 < len(text) <= 65536 and "told-299" in text and "told-0\"" not in text
    first = text.splitlines()[0]
    assert first[:2].isdigit() and "{" in first, first     # whole lines: it begins with a time
    daemon.start()


def test_it_goes_with_its_sandbox(daemon, client, box):
    """covers: SBX-5"""
    client.run(box, "true")
    client.stop(box)
    assert log_of(daemon, box).parent.exists()
    client.delete(box)
    assert not log_of(daemon, box).parent.exists() or daemon.expect_nothing_left() is None
