"""Whose is what: callers of other uids see their own and nothing else."""

import os

from control import DELETED, OTHER_UIDS, READY, pairs, pb, refused


def test_what_a_caller_makes_is_his(daemon, client):
    """covers: OWN-1, AUTH-2, AUTH-3"""
    other = daemon.other_user()
    assert other.info().identity == f"uid:{other.uid}" and not other.info().admin
    box = other.create("others")
    assert box.owner == f"uid:{other.uid}" and box.state == READY
    done = other.run("others", "echo", "mine")
    assert done.stdout_data == b"mine\n"
    events = [m.event for m in other.ask("WatchEvents", after_sequence=0, until_now=True) if m.HasField("event")]
    assert events and {e.owner for e in events} == {box.owner}
    assert {e.actor.identity for e in events if e.actor.kind == pb.ACTOR_KIND_CALLER} == {box.owner}


def test_a_uid_that_is_not_listed_is_refused(daemon):
    """covers: AUTH-3, AUTH-8"""
    stranger = daemon.other_user(65000)
    for method, fields in (("GetInfo", {}), ("CreateSandbox", {}), ("GetSandbox", {"sandbox_id": "x"})):
        with refused("PERMISSION_DENIED"):
            stranger.ask(method, **fields)


def test_anothers_object_is_as_one_that_does_not_exist(daemon, client):
    """covers: OWN-2, AUTH-8"""
    one, two = daemon.other_user(OTHER_UIDS[0]), daemon.other_user(OTHER_UIDS[1])
    one.create("private", labels={"k": "v"})
    held = one.exec("private", "sleep", "1000", exec_id="private")
    for call in (two.get, two.stop, two.start, two.pause, two.resume, two.delete, two.update):
        with refused("SANDBOX_NOT_FOUND") as theirs:
            call("private")
        with refused("SANDBOX_NOT_FOUND") as nobodys:
            call("nothing")
        assert theirs.text.replace("private", "X") == nobodys.text.replace("nothing", "X")
        assert set(theirs.metadata) == set(nobodys.metadata)
    with refused("SANDBOX_NOT_FOUND"):
        two.exec("private", "true")
    calls = [("GetExec", {}), ("SignalExec", {"signal_number": 9}), ("AttachExec", {}), ("CloseStdin", {}),
             ("WriteStdin", {"data": b"x"}), ("ResizeExec", {"size": pb.TerminalSize(cols=80, rows=24)}),
             ("AckOutput", {"reader_id": "r"})]
    for method, fields in calls:
        with refused("EXEC_NOT_FOUND"):
            two.ask(method, exec_id="private", **fields)
    assert two.list() == [] and two.list_execs() == []
    with refused("SANDBOX_NOT_FOUND"):
        two.list_execs(sandbox_id="private")
    assert [m for m in two.ask("WatchEvents", after_sequence=0, until_now=True) if m.HasField("event")] == []
    with refused("SANDBOX_EXISTS") as error:
        two.create("private")
    assert "uid:" not in str(error.error)
    with refused("EXEC_EXISTS"):
        two.create("open")
        two.exec("open", "true", exec_id="private")
    assert list(two.ask("DeleteSandboxes", label_selector=pairs({"k": "v"})).sandbox_ids) == []
    assert one.get("private").state == READY and one.get_exec("private").state == held.state


def test_a_deleted_object_of_another_is_not_there_either(daemon):
    """covers: OWN-2"""
    one, two = daemon.other_user(OTHER_UIDS[0]), daemon.other_user(OTHER_UIDS[1])
    one.create("private")
    one.delete("private")
    for call in (two.get, two.delete, two.start):
        with refused("SANDBOX_NOT_FOUND"):
            call("private")
    with refused("SANDBOX_EXISTS"):
        two.create("private")
    assert two.list(states=[DELETED]) == []


def test_root_sees_and_changes_everything_and_owns_nothing_thereby(daemon, client):
    """covers: OWN-3"""
    other = daemon.other_user()
    other.create("others")
    assert client.info().admin
    client.create("roots")
    assert [s.sandbox_id for s in client.list()] == ["roots", "others"]
    assert [s.sandbox_id for s in client.list(owner=f"uid:{other.uid}")] == ["others"]
    assert client.output_of("others", "id -u") == "1000\n"
    assert client.stop("others").owner == f"uid:{other.uid}"
    assert client.start("others").owner == f"uid:{other.uid}"
    assert [s.sandbox_id for s in other.list()] == ["others"]
    assert [s.sandbox_id for s in other.list(owner="uid:0")] in ([], ["others"])
    events = [m.event for m in other.ask("WatchEvents", after_sequence=0, until_now=True) if m.HasField("event")]
    assert {"uid:0", f"uid:{other.uid}"} == {e.actor.identity for e in events if e.actor.identity}


def test_a_request_id_is_the_callers_own(daemon, client):
    """covers: IDEMP-1, OWN-2"""
    other = daemon.other_user()
    mine = client.create(request_id="same")
    theirs = other.create(request_id="same")
    assert mine.sandbox_id != theirs.sandbox_id and theirs.owner == f"uid:{other.uid}"


def test_events_of_the_daemon_are_for_admins(daemon, client):
    """covers: OWN-2, EVT-12"""
    other = daemon.other_user()
    assert any(e.kind == pb.EVENT_KIND_DAEMON for e in client.events())
    assert not [m for m in other.ask("WatchEvents", after_sequence=0, until_now=True) if m.HasField("event")]
