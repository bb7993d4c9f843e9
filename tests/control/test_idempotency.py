"""Repeating a call: the same request id acts once, whatever happens in between."""

import sqlite3

import pytest

from control import (DELETED, EXITED, PAUSED, READY, STDOUT, STOPPED, WAIT_MS, Lost, Refused, at_once, fresh, pairs, pb,
                     refused)

APPEND = "echo ran >>/workspace/ran; echo out"


def lines_of(client, box):
    return client.output_of(box, "cat /workspace/ran").count("\n")


def test_a_repeat_makes_nothing_new(client):
    """covers: IDEMP-1, IDEMP-6"""
    first = client.create(request_id="same")
    head = client.info().head_sequence
    second = client.create(request_id="same")
    assert second == first and client.info().head_sequence == head and len(client.list()) == 1
    client.stop(first.sandbox_id)
    assert client.create(request_id="same").state == STOPPED     # as it stands now


def test_a_repeat_of_each_change_acts_once(client, box):
    """covers: IDEMP-1, IDEMP-6"""
    for call, state, undo in ((client.pause, PAUSED, client.resume), (client.stop, STOPPED, client.start)):
        assert call(box, request_id=f"rq-{state}").state == state
        undo(box)
        head = client.info().head_sequence
        assert call(box, request_id=f"rq-{state}").state == READY       # it did not act again
        assert client.info().head_sequence == head
    labels = pb.LabelsUpdate(set=pairs({"a": "1"}))
    client.update(box, labels=labels, request_id="up")
    client.update(box, labels=pb.LabelsUpdate(remove=["a"]))
    assert not client.update(box, labels=labels, request_id="up").spec.labels
    client.delete(box, request_id="gone")
    assert client.delete(box, request_id="gone").state == DELETED
    deletes = [e for e in client.events() if e.request_id == "gone"]
    assert len(deletes) == 1, deletes


def test_a_command_never_runs_twice(client, box):
    """covers: IDEMP-6, IDEMP-1"""
    first = client.sh(box, APPEND, request_id="run")
    second = client.sh(box, APPEND, request_id="run")
    assert first.exec_id == second.exec_id
    assert client.wait(first.exec_id).exit.code == 0
    again = client.sh(box, APPEND, request_id="run")
    assert again.exec_id == first.exec_id and again.state == EXITED
    assert lines_of(client, box) == 1


def test_a_repeat_of_run_waits_for_the_same_program(client, box):
    """covers: IDEMP-2, IDEMP-6"""
    script = APPEND + "; read line; echo $line"
    results = at_once([lambda: client.run(box, "sh", "-c", script, stdin=b"text\n", request_id="run")] * 6)
    assert {r.stdout_data for r in results} == {b"out\ntext\n"}, results
    assert len({r.exec.exec_id for r in results}) == 1
    assert client.run(box, "sh", "-c", script, stdin=b"text\n", request_id="run").stdout_data == b"out\ntext\n"
    assert lines_of(client, box) == 1


def test_a_repeat_of_run_after_its_deadline(client, box):
    """covers: EXEC-10, EXEC-18, IDEMP-6"""
    script = APPEND + "; until [ -e go ]; do sleep 0.02; done"
    with pytest.raises((Lost, Refused)) as caught:
        client.run(box, "sh", "-c", script, request_id="run", timeout=1)
    if isinstance(caught.value, Refused):   # grpcio may end the call by its own clock first
        assert caught.value.reason == "DEADLINE_EXCEEDED" and caught.value.metadata["exec_id"]
    client.write(box, "go", b"")
    done = client.run(box, "sh", "-c", script, request_id="run")
    assert done.exec.exit.code == 0 and done.stdout_data == b"out\n"
    assert lines_of(client, box) == 1


def test_repeats_at_the_same_time_get_one_answer(client):
    """covers: IDEMP-2"""
    for round in range(3):
        results = at_once([lambda: client.create(request_id=f"same-{round}")] * 8)
        assert len({r.sandbox_id for r in results}) == 1 and {r.state for r in results} == {READY}, results
    assert len(client.list()) == 3


def test_a_repeat_that_waits_longer_is_the_same_request(client):
    """covers: IDEMP-3, RPC-12"""
    first = client.create(request_id="same", wait_ms=0)
    second = client.create(request_id="same", wait_ms=WAIT_MS)
    assert second.sandbox_id == first.sandbox_id and second.state == READY


def test_another_content_or_method_is_refused(client, box):
    """covers: IDEMP-3"""
    client.create("mine", request_id="same")
    with refused("REQUEST_ID_REUSED"):
        client.create("other", request_id="same")
    with refused("REQUEST_ID_REUSED"):
        client.create("mine", request_id="same", labels={"a": "b"})
    with refused("REQUEST_ID_REUSED"):
        client.stop("mine", request_id="same")
    with refused("REQUEST_ID_REUSED"):
        client.exec(box, "true", request_id="same")
    assert client.get("mine").state == READY


def test_start_and_run_are_different_methods(client, box):
    """covers: IDEMP-3"""
    client.exec(box, "true", request_id="same")
    with refused("REQUEST_ID_REUSED"):
        client.run(box, "true", request_id="same")


@pytest.mark.parametrize("bad", ["a b", "x" * 129, "tab\t", "ä", "\x7f"])
def test_request_ids_that_are_refused(client, bad):
    """covers: IDEMP-1"""
    with refused("INVALID_ARGUMENT", field="request_id"):
        client.create(request_id=bad)
    assert client.list() == []


def test_the_longest_request_id(client):
    """covers: IDEMP-1"""
    longest = "~" * 127 + "!"
    assert client.create(request_id=longest).sandbox_id == client.create(request_id=longest).sandbox_id


def test_a_refused_call_leaves_its_id_free(client, box):
    """covers: IDEMP-5"""
    with refused("INVALID_ARGUMENT"):
        client.create("Bad Name", request_id="same")
    with refused("SANDBOX_NOT_FOUND"):
        client.stop("nobody", request_id="same")
    with refused("SANDBOX_EXISTS"):
        client.create(box, request_id="same") if not box.startswith("sb-") else client.create(
            client.create("taken", wait_ms=0).sandbox_id, request_id="same")
    assert client.create("good", request_id="same").sandbox_id == "good"


def test_a_program_that_could_not_start_is_an_answer_too(client, box):
    """covers: IDEMP-6, EXEC-4"""
    for _ in range(2):
        with refused("PROGRAM_NOT_FOUND") as error:
            client.exec(box, "/no/such/program", request_id="same")
    assert len(client.list_execs(sandbox_id=box)) == 1
    assert error.metadata["exec_id"] == client.list_execs(sandbox_id=box)[0].exec_id


def test_request_ids_outlive_kills_and_deletions(daemon, client):
    """covers: IDEMP-4, STORE-1"""
    box = client.create(request_id="make").sandbox_id
    done = client.run(box, "sh", "-c", APPEND, request_id="run")
    daemon.kill()
    daemon.start()
    assert client.create(request_id="make", wait_ms=0).sandbox_id == box
    assert client.run(box, "sh", "-c", APPEND, request_id="run").exec.exec_id == done.exec.exec_id
    assert lines_of(client, box) == 1
    client.delete(box, request_id="gone")
    daemon.stop()
    daemon.start()
    again = client.create(request_id="make")
    assert again.sandbox_id == box and again.state == DELETED
    assert client.delete(box, request_id="gone").state == DELETED
    with refused("REQUEST_ID_REUSED"):
        client.create("other", request_id="make")


def test_delete_by_labels_is_remembered_with_its_answer(client):
    """covers: IDEMP-1"""
    box = client.create(labels={"a": "b"}).sandbox_id
    for _ in range(2):
        answer = client.ask("DeleteSandboxes", label_selector=pairs({"a": "b"}), request_id="same", wait_ms=WAIT_MS)
        assert list(answer.sandbox_ids) == [box]
    later = client.create(labels={"a": "b"}).sandbox_id
    client.ask("DeleteSandboxes", label_selector=pairs({"a": "b"}), request_id="same")
    assert client.get(later).state == READY


def test_a_signal_is_sent_once(client, box):
    """covers: IDEMP-1, EVT-14"""
    held = client.sh(box, "n=0; trap 'n=$((n+1)); echo $n' USR1; echo up; while :; do sleep 0.05; done")
    got = client.attach(held.exec_id, streams=[STDOUT])     # a shell says on stderr what ended its child
    seen = b""
    while seen != b"up\n":
        seen += next(got).output.data
    client.signal(held.exec_id, 10, request_id="once")
    while b"1\n" not in seen:
        seen += next(got).output.data
    client.signal(held.exec_id, 10, request_id="once")
    client.signal(held.exec_id, 15)
    for message in got:
        seen += message.output.data
    assert seen == b"up\n1\n"
    signals = [e for e in client.events() if e.HasField("exec_signal")]
    assert [e.exec_signal.signal_number for e in signals] == [10, 15]


def test_input_needs_no_request_id(client, box):
    """covers: IDEMP-8"""
    held = client.exec(box, "cat", stdin_mode=pb.STDIN_MODE_PIPE)
    for _ in range(3):
        assert client.ask("WriteStdin", exec_id=held.exec_id, data=b"text", request_id="any").next_offset == 4
    assert client.ask("WriteStdin", exec_id=held.exec_id, offset=4, data=b" more", request_id="any").next_offset == 9
    client.ask("CloseStdin", exec_id=held.exec_id, offset=9, request_id="close")
    client.ask("CloseStdin", exec_id=held.exec_id, offset=9, request_id="close")
    assert client.read(held.exec_id).stdout == b"text more"
