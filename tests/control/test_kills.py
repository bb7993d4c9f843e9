"""Clients at work while bermd is killed at random moments, with berm-spawn or a guest now and then."""

import os
import random
import signal
import threading
import time

from control import (DELETED, EXITED, LOST, TIMEOUT_S, READY, Client, Lost, Reader, Refused, fresh)
from model import replay

ROUNDS = int(os.environ.get("BERM_KILL_ROUNDS", "40"))
SEED = int(os.environ.get("BERM_KILL_SEED", str(random.SystemRandom().randrange(1 << 32))))
WORKERS = 4
LINES = 100


def program(tag):
    """Says that it ran, prints numbered lines over a second or so, and ends with 6."""
    return (f"echo ran >>/workspace/ran-{tag}; i=0; while [ $i -lt {LINES} ]; do echo {tag}-$i; i=$((i+1)); "
            "sleep 0.005; done; exit 6")


def printed(tag):
    return b"".join(b"%s-%d\n" % (tag.encode(), i) for i in range(LINES))


class Stubborn(Client):
    """Repeats a call, the same request each time, until it has an answer."""

    repeats = 0

    def ask(self, method, **fields):
        while True:
            try:
                return super().ask(method, wait_for_ready=True, **fields)
            except Lost:
                self.repeats += 1
            except Refused as error:
                if error.reason != "SHUTTING_DOWN" and not (error.metadata.get("retry") == "check"
                                                            and "request_id" in fields):
                    raise
                self.repeats += 1

    def read_on(self, exec_id):
        """All output, taken up by its offset after each loss."""
        data, ended = b"", None
        while ended is None:
            self.info()                      # waits for a daemon
            reader = Reader(stdout=len(data))
            try:
                for message in self.attach(exec_id, stdout_offset=len(data)):
                    reader.take(message)
            except Lost:
                self.repeats += 1
            assert not reader.gaps
            data, ended = data + reader.stdout, reader.ended
        return data, ended


class Worker(threading.Thread):
    """Makes sandboxes, runs programs, reads them, stops, starts, deletes; checks every answer."""

    def __init__(self, daemon, number, over):
        super().__init__()
        self.client, self.over, self.random = Stubborn(daemon.target), over, random.Random(SEED + number)
        self.error, self.current, self.harmed = None, None, set()
        self.made, self.deleted, self.programs, self.lost = [], [], 0, 0

    def run(self):
        try:
            while not self.over.is_set():
                self.live()
        except BaseException as error:
            self.error = error
        finally:
            self.client.close()

    def live(self):
        client = self.client
        box = client.create(request_id=fresh())
        assert box.state == READY and box.sandbox_id not in self.made, box
        self.made.append(box.sandbox_id)
        self.current = box.sandbox_id
        try:
            self.work(box.sandbox_id)
            if self.random.random() < 0.5:
                client.stop(box.sandbox_id, request_id=fresh(), grace_ms=-1)
                assert client.start(box.sandbox_id, request_id=fresh()).incarnation >= 2
                self.work(box.sandbox_id)
        except Refused as error:
            if box.sandbox_id not in self.harmed:
                raise
            # FAILED: the guest was killed while the sandbox was being started again.
            assert error.reason in ("SANDBOX_STOPPED", "SANDBOX_NOT_READY", "SANDBOX_FAILED", "GUEST_LOST"), error
        self.current = None
        assert client.delete(box.sandbox_id, request_id=fresh()).state == DELETED
        self.deleted.append(box.sandbox_id)

    def work(self, box):
        tags = [fresh("t")[:10] for _ in range(self.random.randrange(1, 4))]
        execs = [(tag, self.client.sh(box, program(tag), request_id=fresh()).exec_id) for tag in tags]
        for tag, exec_id in execs:
            data, ended = self.client.read_on(exec_id)
            if ended.state == LOST:
                assert box in self.harmed, f"{exec_id} was lost in {box}: {ended}"
                assert printed(tag).startswith(data)
                self.lost += 1
            else:
                assert data == printed(tag) and ended.state == EXITED and ended.exit.code == 6, (len(data), ended)
            self.programs += 1
        for tag, exec_id in execs:
            text = self.client.run(box, "sh", "-c", f"cat /workspace/ran-{tag}", request_id=fresh()).stdout_data
            assert text == b"ran\n" or (box in self.harmed and not text), (tag, text)


class Watcher(threading.Thread):
    """Follows the events, from its cursor after each loss."""

    def __init__(self, daemon, over):
        super().__init__()
        self.client, self.over, self.events, self.error = Stubborn(daemon.target), over, [], None

    def run(self):
        try:
            while not self.over.is_set():
                self.client.info()
                self.follow()
        except BaseException as error:
            self.error = error
        finally:
            self.client.close()

    def follow(self):
        cursor = self.events[-1].sequence if self.events else 0
        try:
            for message in self.client.watch(after_sequence=cursor):
                if message.HasField("event"):
                    self.events.append(message.event)
                if self.over.is_set():
                    return
        except Lost:
            pass


def test_random_kills_under_load(daemon):
    """covers: STORE-1, STORE-2, STORE-3, STORE-4, EXEC-14, OUT-1, OUT-10, IDEMP-4, IDEMP-6, EVT-1, EVT-3, IDS-3, SBX-5"""
    print(f"BERM_KILL_SEED={SEED}")
    over, chance = threading.Event(), random.Random(SEED)
    workers, watcher = [Worker(daemon, n, over) for n in range(WORKERS)], Watcher(daemon, over)
    for thread in [watcher, *workers]:
        thread.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0, 1.0))     # any moment will do; nothing is waited for
            one_kill(daemon, workers, chance)
            if any(t.error for t in [watcher, *workers]):
                break
    finally:
        over.set()
        if not daemon.is_alive():
            daemon.start()
        for thread in workers:
            thread.join(TIMEOUT_S * 4)
        client = daemon.client()
        client.create("wakes-the-watcher", wait_ms=0)
        watcher.join(TIMEOUT_S)
    for thread in [watcher, *workers]:
        assert not thread.is_alive() and thread.error is None, f"seed {SEED}: {thread.error!r}"
    finish(daemon, client, workers, watcher)


def one_kill(daemon, workers, chance):
    victim = chance.choice(workers)
    box = victim.current
    if chance.random() < 0.15 and box:
        victim.harmed.add(box)
        try:
            daemon.kill_guest(box)
        except (StopIteration, ProcessLookupError, OSError):
            pass        # it has gone meanwhile
    others = daemon.processes() - {daemon.process.pid}
    daemon.kill()
    if chance.random() < 0.3:
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if chance.random() < 0.2:                     # and once more before it has recovered
        daemon.launch()
        time.sleep(chance.uniform(0, 0.1))
        daemon.kill()
    daemon.start()


def finish(daemon, client, workers, watcher):
    """No acknowledged operation is lost, no id was used twice, no event is missing."""
    made = [box for worker in workers for box in worker.made]
    assert len(made) == len(set(made))
    events = client.events()
    model = replay(events)
    assert watcher.events and [e.sequence for e in watcher.events] == list(range(1, len(watcher.events) + 1))
    for seen, kept in zip(watcher.events, events):
        seen.replayed = kept.replayed = False
        assert seen == kept
    for worker in workers:
        for box in worker.deleted:
            assert model.boxes[box].state == DELETED
    assert set(model.boxes) - {"wakes-the-watcher"} == set(made), "a sandbox that nobody asked for, or one that is lost"
    print(f"{ROUNDS} kills, {len(made)} sandboxes, {sum(w.programs for w in workers)} programs, "
          f"{sum(w.client.repeats for w in workers)} repeats, {sum(w.lost for w in workers)} lost with their guest, "
          f"{len(events)} events")
    assert sum(w.client.repeats for w in workers) > 0, "no kill met a call"
