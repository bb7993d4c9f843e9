"""bermd as a program: how it starts, who may start it twice, how it ends."""

import os
import signal
import socket
import stat
import subprocess
import threading
import time

import grpc
import h2.connection
import h2.events
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from berm._gen.berm.v1 import berm_pb2, berm_pb2_grpc
from conftest import BERMD, SECONDS, open_channel

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")  # and empty SETTINGS


def run(*arguments, program=BERMD):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)


def test_help_and_version():
    for option, expected in (("--help", "--state"), ("--version", "0.")):
        done = run(option)
        assert done.returncode == 0 and expected in done.stdout, done


@pytest.mark.parametrize("name", ["berm-spawn", "berm-open", "berm-guest", "berm-jail"])
def test_the_programs_beside_it_say_what_they_are(name):
    for option, expected in (("--help", f"usage: {name} "), ("--version", f"{name} 0.")):
        done = run(option, program=BERMD.parent / name)
        assert done.returncode == 0 and done.stdout.startswith(expected) and not done.stderr, done
    done = run("--no-such-option", program=BERMD.parent / name)
    assert done.returncode not in (0, -signal.SIGABRT) and not done.stdout and name in done.stderr, done


def test_an_unknown_option_is_refused_by_name():
    done = run("--no-such-option")
    assert done.returncode != 0 and "no-such-option" in done.stderr


@pytest.mark.parametrize("line, word", [
    ("no_such_knob = 1", "no_such_knob"), ("limits.message.inbound = many", "limits.message.inbound"),
    ("limits.message.inbound = -1", "limits.message.inbound"), ("limits.message.depth = 17", "limits.message.depth"),
    ("just words", "just words"), ("log_level", "log_level")])
def test_a_bad_line_of_the_configuration_is_named(tmp_path, line, word):
    file = tmp_path / "bermd.conf"
    file.write_text(f"# a comment\n\n{line}\n")
    done = run("--config", file, "--state", tmp_path / "state", "--socket", tmp_path / "sock")
    assert done.returncode == 2 and f"{file}:3:" in done.stderr and word in done.stderr, done
    assert not (tmp_path / "state").exists()


def test_a_printed_configuration_is_a_configuration(tmp_path, start):
    file = tmp_path / "bermd.conf"
    printed = run("--set", "limits.drain.max=1234", "--print-config")
    assert printed.returncode == 0
    file.write_text(printed.stdout)
    again = run("--config", file, "--print-config")
    assert again.stdout == printed.stdout and "1234" in again.stdout
    daemon = start("--config", file)
    with open_channel(daemon.unix) as channel:
        info = berm_pb2_grpc.SystemServiceStub(channel).GetInfo(berm_pb2.GetInfoRequest(), timeout=SECONDS)
    assert {limit.name: limit.value for limit in info.limits}["drain.max"] == 1234


def test_files_are_for_the_owner_alone(daemon):
    # covers: AUTH-5
    assert stat.S_IMODE((daemon.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.state.stat().st_mode) & 0o077 == 0
    assert stat.S_ISSOCK(daemon.socket.stat().st_mode)
    assert len(daemon.token) >= 43  # 256 bits, however they are written


def test_the_token_outlives_a_restart(start):
    first = start("--listen", "127.0.0.1:0")
    token = first.token
    first.stop()
    assert start("--listen", "127.0.0.1:0").token == token


def test_a_second_daemon_on_the_same_state_names_the_holder(start, tmp_path):
    # covers: STORE-5
    holder = start()
    second = run("--state", holder.state, "--socket", tmp_path / "second.sock")
    assert second.returncode not in (0, None)
    assert str(holder.process.pid) in second.stderr, second.stderr
    with open_channel(holder.unix) as channel:
        berm_pb2_grpc.SystemServiceStub(channel).Ping(berm_pb2.PingRequest(), timeout=SECONDS)


def test_a_killed_daemon_leaves_nothing_in_the_way(start):
    first = start()
    first.process.kill()
    first.process.wait()
    again = start()
    with open_channel(again.unix) as channel:
        berm_pb2_grpc.SystemServiceStub(channel).Ping(berm_pb2.PingRequest(), timeout=SECONDS)
    first.stop = lambda: None  # its end was not a clean one, as meant


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_others_can_reach_needs_tls(tmp_path, address):
    # covers: AUTH-6
    done = run("--state", tmp_path / "state", "--socket", tmp_path / "sock", "--listen", address)
    assert done.returncode != 0 and address.rsplit(":", 1)[0].strip("[]") in done.stderr, done


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends(start, signum):
    # covers: RPC-25, RPC-19
    daemon = start()
    with open_channel(daemon.unix) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        daemon.process.send_signal(signum)
        seen = []
        with pytest.raises(grpc.RpcError) as caught:
            for answer in watch:
                seen.append(answer.status)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE, caught.value
        assert set(seen) <= {health_pb2.HealthCheckResponse.NOT_SERVING}
        daemon.wait()
        # its file may stay: a daemon that gave up root cannot remove it from root's folder; nobody answers on it
        with pytest.raises(grpc.RpcError) as caught:
            berm_pb2_grpc.SystemServiceStub(channel).Ping(berm_pb2.PingRequest(), timeout=SECONDS)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE], ids=["nothing", "half", "preface"])
@pytest.mark.parametrize("leave", [True, False], ids=["gone", "waiting"])
def test_connections_without_a_call_do_not_hold_the_end_up(start, sent, leave):
    # covers: RPC-25
    for _ in range(5):  # those that leave race with the signal
        daemon = start("--set", "limits.drain.max=500")  # far less than stop() waits
        peers = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for peer in peers:
            peer.connect(str(daemon.socket))
            peer.sendall(sent)
        time.sleep(0.05)
        if leave:
            for peer in peers:
                peer.close()
        daemon.stop()
        for peer in peers:
            peer.close()


def test_clients_that_leave_at_the_very_end(start):
    """Their connections close while the daemon begins to drain: each may be in any state of that."""
    for _ in range(10):
        daemon = start("--listen", "127.0.0.1:0")
        for target, token in ((daemon.unix, None), (daemon.tcp, daemon.token)):
            with open_channel(target, token) as channel:
                berm_pb2_grpc.SystemServiceStub(channel).Ping(berm_pb2.PingRequest(), timeout=SECONDS)
        daemon.stop()


def test_no_call_fails_halfway_when_the_daemon_drains(start):
    """Calls that were begun are answered; later ones find nobody. Nothing is cut in the middle.

    covers: RPC-25
    """
    daemon = start()
    payload = os.urandom(200_000)
    codes, go_on = [], threading.Event()

    def caller():
        with open_channel(daemon.unix) as channel:
            stub = berm_pb2_grpc.SystemServiceStub(channel)
            while not go_on.is_set():
                try:
                    assert stub.Ping(berm_pb2.PingRequest(payload=payload), timeout=SECONDS).payload == payload
                    codes.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    codes.append(error.code())
                    return

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for thread in callers:
        thread.start()
    deadline = time.monotonic() + SECONDS
    while codes.count(grpc.StatusCode.OK) <= 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    daemon.stop()
    go_on.set()
    for thread in callers:
        thread.join()
    assert codes.count(grpc.StatusCode.OK) > 10
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}


def test_the_daemon_keeps_the_deadline_itself(daemon):
    """A client that does not: it says grpc-timeout and then only listens.

    covers: RPC-8
    """
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    connection.send_headers(1, [
        (":method", "POST"), (":scheme", "http"), (":authority", "localhost"),
        (":path", "/grpc.health.v1.Health/Watch"), ("content-type", "application/grpc"),
        ("te", "trailers"), ("grpc-timeout", "300m")])
    connection.send_data(1, bytes(5), end_stream=True)
    trailers, begun = {}, time.monotonic()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(SECONDS)
        peer.connect(str(daemon.socket))
        while b"grpc-status" not in trailers:
            peer.sendall(connection.data_to_send())
            data = peer.recv(65536)
            assert data, "bermd closed the connection"
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.TrailersReceived):
                    trailers = dict(event.headers)
    assert trailers[b"grpc-status"] == b"4"
    assert time.monotonic() - begun > 0.25  # and not before it was over
