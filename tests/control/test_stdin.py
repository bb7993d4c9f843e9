"""Standard input by offset."""

import os
import random
import time

import pytest

from control import Lost, Refused, pb, refused
from test_exec import PIPE, up


@pytest.fixture
def daemon(shared):
    """One for all tests of this file, without a sandbox between them."""
    yield shared
    shared.empty()


@pytest.fixture
def cat(client, box):
    return client.exec(box, "cat", stdin_mode=PIPE).exec_id


def write(client, exec_id, data, offset=0, **fields):
    return client.ask("WriteStdin", exec_id=exec_id, data=data, offset=offset, **fields)


def write_all(client, exec_id, data, offset=0):
    """Gives all of it, as a client has to: by what was taken."""
    while offset < len(data):
        offset = write(client, exec_id, data[offset:offset + (1 << 20)], offset).next_offset
    return offset


def test_offsets(client, cat):
    """covers: STDIN-1, IDEMP-8"""
    assert write(client, cat, b"abc").next_offset == 3
    assert write(client, cat, b"abcdef").next_offset == 6       # three were there already
    assert write(client, cat, b"bc", 1).next_offset == 6        # all of it was
    with refused("STDIN_OFFSET", next_offset=6, exec_id=cat):
        write(client, cat, b"x", 7)
    with refused("STDIN_OFFSET", next_offset=6):
        client.ask("CloseStdin", exec_id=cat, offset=7)
    with refused("STDIN_OFFSET", next_offset=6):
        client.ask("CloseStdin", exec_id=cat, offset=5)
    state = client.get_exec(cat).input
    assert state.next_offset == 6 and not state.closed
    client.ask("CloseStdin", exec_id=cat, offset=6)
    assert client.read(cat).stdout == b"abcdef"


def test_empty_data_is_refused(client, cat):
    """covers: STDIN-2"""
    with refused("INVALID_ARGUMENT", field="data"):
        write(client, cat, b"")
    with refused("INVALID_ARGUMENT", field="data"):
        write(client, cat, bytes((1 << 20) + 1))


def test_the_end_of_input(client, cat):
    """covers: STDIN-3"""
    write(client, cat, b"text")
    client.ask("CloseStdin", exec_id=cat, offset=4)
    assert client.read(cat).stdout == b"text"
    with refused("EXEC_ENDED", exec_id=cat):
        write(client, cat, b"x", 4)


def test_writing_after_the_end(client, box):
    """covers: STDIN-3"""
    held = client.sh(box, "cat; echo up; sleep 1000", stdin_mode=PIPE).exec_id
    client.ask("CloseStdin", exec_id=held)
    client.ask("CloseStdin", exec_id=held)          # closing again succeeds
    up(client, held)
    with refused("STDIN_CLOSED", exec_id=held):
        write(client, held, b"x")
    assert client.get_exec(held).input.closed


def test_a_program_that_closed_its_end(client, box):
    """covers: STDIN-3"""
    held = client.sh(box, "exec <&-; echo up; sleep 1000", stdin_mode=PIPE).exec_id
    up(client, held)
    with refused("STDIN_CLOSED"):
        # The first bytes may still go into the pipe's place; a closed one shows itself at the next.
        for offset in range(0, 1 << 20, 4096):
            write(client, held, bytes(4096), offset)


def test_a_program_without_input(client, box):
    """covers: STDIN-3"""
    held = client.sh(box, "cat; echo up; sleep 1000").exec_id
    up(client, held)                   # cat saw the end at once
    with refused("STDIN_CLOSED"):
        write(client, held, b"x")


def test_the_window(client, box):
    """covers: STDIN-2"""
    held = client.sh(box, "echo up; sleep 1000", stdin_mode=PIPE).exec_id
    up(client, held)
    offset = 0
    with refused("STDIN_FULL") as error:
        while offset < (1 << 20):      # the window and the pipe, and no more
            offset = write(client, held, bytes(1 << 20), offset).next_offset
    assert 65536 <= offset <= 65536 * 3, offset
    assert client.get_exec(held).input.next_offset == offset
    assert error.metadata["retry"] == "later"


def test_full_by_the_callers_deadline(client, box):
    """covers: STDIN-2"""
    held = client.sh(box, "echo up; read line; cat >/dev/null", stdin_mode=PIPE).exec_id
    up(client, held)
    offset = write_until_full(client, held)
    client.signal(held, 18)     # it lives
    assert client.get_exec(held).input.next_offset == offset


def write_until_full(client, exec_id):
    # "read line" takes one byte at a time and no newline comes, so it takes everything: stop by count.
    offset = 0
    for _ in range(4):
        offset = write(client, exec_id, b"x" * 1000, offset).next_offset
    return offset


def test_a_waiting_write_goes_on_when_there_is_room(client, box):
    """covers: STDIN-2"""
    data = random.Random(7).randbytes(1 << 20)
    held = client.sh(box, "sleep 1; cat", stdin_mode=PIPE).exec_id
    assert write_all(client, held, data) == len(data)
    client.ask("CloseStdin", exec_id=held, offset=len(data))
    assert client.read(held).stdout == data


def test_input_is_binary_exact_across_a_kill(daemon, client, box):
    """covers: STDIN-1, EXEC-14, STORE-4"""
    data = random.Random(8).randbytes(200_000)
    held = client.exec(box, "cat", stdin_mode=PIPE).exec_id
    offset = write_all(client, held, data[:100_000])
    daemon.kill()
    daemon.start()
    state = client.found(held).input
    assert state.next_offset == offset == 100_000
    offset = write_all(client, held, data, state.next_offset)
    client.ask("CloseStdin", exec_id=held, offset=offset)
    assert client.read(held).stdout == data
