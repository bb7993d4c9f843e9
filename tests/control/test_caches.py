"""Caches of tools: the caller's files are read where they are, what a sandbox writes is its own."""

import contextlib
import fcntl
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import tarfile
import threading

import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from control import READY, STOPPED, refused
from homes import ONE, TWO, home, link, own, program, put, start_at_home  # noqa: F401

MEMORY = pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)
ROOT = pb.SANDBOX_PROFILE_ROOT
UV = ".cache/uv"
INSIDE = f"/home/user/{UV}"


@pytest.fixture
def daemon(make, home):
    put(home, ".local/bin/uv", program("uv"))   # of the host's, if it has one
    return start_at_home(make, home)


@pytest.fixture
def one(daemon):
    return daemon.other_user(ONE)


def uv(**more):
    return [pb.Tool(name="uv", cache=True, **more)]


def fill(home):
    """A cache of ONE's, with what caches hold; its directory."""
    put(home, f"{UV}/wheels/one.whl", "one")
    put(home, f"{UV}/wheels/two.whl", "two", mode=0o600)
    put(home, f"{UV}/CACHEDIR.TAG", "tag", mode=0o444)
    link(home, f"{UV}/latest", "wheels/two.whl")
    return home / UV


def state_of(top):
    """All that could show a touch from inside; st_nlink of the top and times of reading among it."""
    found = {}
    for path in [top, *sorted(top.rglob("*"))]:
        st = path.lstat()
        what = path.read_bytes() if stat.S_ISREG(st.st_mode) else os.readlink(path) if path.is_symlink() else None
        found[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_ino, st.st_size, st.st_mtime_ns,
                            st.st_ctime_ns, what)
    return found


# ---- what it is

@pytest.mark.parametrize("spec", [{}, {"root": MEMORY}, {"profile": ROOT}, {"profile": ROOT, "root": MEMORY}],
                         ids=["disk", "memory", "disk-root", "memory-root"])
def test_a_cache_is_read_and_written_over_and_stays_as_it_is(daemon, one, home, spec):
    """covers: SBX-26, SBX-21, OWN-4"""
    cache = fill(home)
    before = state_of(cache)
    made = one.create(tools=uv(), **spec)
    assert made.state == READY, made
    box, user = made.sandbox_id, "root" if "profile" in spec else "user"
    at = f"/root/{UV}" if "profile" in spec else INSIDE
    assert one.output_of(box, f"cd {at} && stat -c '%U:%G %a %n' . .. wheels/* latest && cat wheels/*") == (
        f"{user}:{user} 755 .\n{user}:{user} 755 ..\n{user}:{user} 755 wheels/one.whl\n{user}:{user} 600 wheels/two.whl\n"
        f"{user}:{user} 777 latest\nonetwo")
    one.output_of(box, f"""cd {at} && echo more >> wheels/one.whl && rm wheels/two.whl && mkdir new && mv CACHEDIR.TAG new/tag
        chmod 700 wheels && ln wheels/one.whl new/link && echo x > .lock && rm latest && ln -s new latest
        chmod 640 new/tag && touch -d @1 wheels/one.whl && mv new/tag new/tag2""")
    assert one.output_of(box, f"cd {at} && ls -A . wheels new && cat wheels/one.whl && stat -c '%h %a' wheels/one.whl . wheels") == (
        ".:\n.lock\nlatest\nnew\nwheels\n\nnew:\nlink\ntag2\n\nwheels:\none.whl\nonemore\n2 755\n1 755\n1 700\n")
    assert state_of(cache) == before
    # Another sandbox begins where the first one did, also one of the same caller.
    other = one.create(tools=uv(), **spec).sandbox_id
    assert one.output_of(other, f"cd {at} && ls -A . wheels && cat wheels/*") == (
        ".:\nCACHEDIR.TAG\nlatest\nwheels\n\nwheels:\none.whl\ntwo.whl\nonetwo")
    one.output_of(other, f"rm -rf {at}/* {at}/.??*")
    assert one.output_of(other, f"ls -A {at}") == "" and state_of(cache) == before
    assert "onemore" in one.output_of(box, f"cat {at}/wheels/one.whl")


def test_without_cache_nothing_of_it_is_there(daemon, one, home):
    """covers: SBX-21, SBX-26"""
    fill(home)
    box = one.create(tools=[pb.Tool(name="uv")]).sandbox_id
    assert one.output_of(box, f"uv; ls -A ~; grep -c {INSIDE} /proc/mounts || true") == "uv\n0\n"


def test_each_tool_has_the_directories_of_its_own(daemon, one, home):
    """covers: SBX-26"""
    put(home, ".opencode/bin/opencode", program("opencode"))
    put(home, ".npm-global/bin/npm", program("npm"))
    for name in (".npm/_cacache/index", ".npm/_logs/debug.log", ".npm/_npx/x", ".cache/uv/a", ".cache/pip/secret",
                 ".local/share/uv/python/cpython/bin/python", ".local/share/uv/credentials/credentials.toml",
                 ".cache/opencode/models.json", ".local/share/opencode/auth.json"):
        put(home, name, "x")
    tools = [pb.Tool(name=n, cache=True) for n in ("uv", "npm", "opencode")]
    box = one.create(tools=tools).sandbox_id
    assert one.output_of(box, "cd; find . -type f | sort") == (
        "./.cache/opencode/models.json\n./.cache/uv/a\n./.local/share/uv/python/cpython/bin/python\n./.npm/_cacache/index\n")
    # What is beside them is the user's to make.
    assert one.output_of(box, "cd; mkdir .npm/_logs .cache/pip .local/share/x && stat -c %U .npm .local/share") == "user\nuser\n"


def test_writes_outlive_a_stop_and_changes_outside_show_at_a_start(daemon, one, home):
    """covers: SBX-26, SBX-3"""
    cache = fill(home)
    box = one.create(tools=uv()).sandbox_id
    one.output_of(box, f"cd {INSIDE} && echo mine > mine && echo mine > wheels/one.whl && rm wheels/two.whl")
    daemon.kill()
    daemon.start(prefix=daemon.inside)   # the next daemon finds it as it is
    assert one.output_of(box, f"cd {INSIDE} && cat mine wheels/one.whl && echo also >> mine") == "mine\nmine\n"
    one.stop(box)
    put(home, f"{UV}/wheels/three.whl", "three")
    put(home, f"{UV}/wheels/one.whl", "changed")
    assert one.start(box).state == READY
    assert one.output_of(box, f"cd {INSIDE} && cat mine wheels/one.whl && ls wheels") == (
        "mine\nalso\nmine\none.whl\nthree.whl\n")
    assert (cache / "wheels/one.whl").read_text() == "changed" and not (cache / "mine").exists()
    one.pause(box)
    one.resume(box)
    assert one.output_of(box, f"cat {INSIDE}/mine") == "mine\nalso\n"


def test_a_layer_in_memory_begins_anew(daemon, one, home):
    """covers: SBX-26"""
    fill(home)
    box = one.create(tools=uv(), root=MEMORY).sandbox_id
    one.output_of(box, f"cd {INSIDE} && echo mine > mine && rm wheels/one.whl")
    one.stop(box)
    one.start(box)
    assert one.output_of(box, f"ls {INSIDE} {INSIDE}/wheels | tr '\\n' ' '") == (
        f"{INSIDE}: CACHEDIR.TAG latest wheels  {INSIDE}/wheels: one.whl two.whl ")


def test_root_inside_may_give_its_directories_away(daemon, one, home):
    """A top that belongs to another id of the sandbox is still the sandbox's at the next start."""
    fill(home)
    box = one.create(tools=uv(), profile=ROOT).sandbox_id
    one.output_of(box, f"chown 1000:1000 / /root/{UV} /usr && echo mine > /root/{UV}/mine")
    one.stop(box)
    assert one.start(box).state == READY
    assert one.output_of(box, f"stat -c %u / /root/{UV}; cat /root/{UV}/mine") == "1000\n1000\nmine\n"


def test_the_pool_has_none_with_a_cache(make, home):
    """covers: SBX-25, SBX-26"""
    put(home, ".local/bin/uv", program("uv"))
    fill(home)
    daemon = start_at_home(make, home, parked=2)
    one = daemon.other_user(ONE)
    claimed, cold = one.create(tools=[pb.Tool(name="uv")]).sandbox_id, one.create(tools=uv()).sandbox_id
    places = daemon.instances().values()
    assert claimed in places and cold not in places
    assert one.output_of(cold, f"cat {INSIDE}/wheels/one.whl") == "one"


# ---- whose it is

def test_a_root_caller_brings_roots_own_and_anybodys(make, home):
    """covers: OWN-4, SBX-26"""
    put(home, ".local/bin/uv", program("uv"))
    cache = fill(home)
    daemon = start_at_home(make, home, uid=0)
    client = daemon.client()
    for uid in (0, ONE):
        for path in [cache, *cache.rglob("*")]:
            os.lchown(path, uid, uid)
        before = state_of(cache)
        box = client.create(tools=uv()).sandbox_id
        assert client.output_of(box, f"cd {INSIDE} && stat -c %U wheels/two.whl && cat wheels/two.whl && rm -r wheels && ls") == (
            "user\ntwoCACHEDIR.TAG\nlatest\n")
        assert state_of(cache) == before


def test_what_is_not_there_begins_empty(daemon, one, home):
    """covers: SBX-26"""
    for prepare in (lambda: None, lambda: link(home, UV, home / "nowhere")):
        prepare()
        made = one.create(tools=uv())
        assert made.state == READY, made
        assert one.output_of(made.sandbox_id, f"ls -A ~; mkdir -p {INSIDE} && echo x > {INSIDE}/f && cat {INSIDE}/f") == "x\n"
    assert not (home / "nowhere").exists()
    # It may come and go between starts; what was written elsewhere meanwhile is beneath.
    (home / UV).unlink()
    one.stop(made.sandbox_id)
    fill(home)
    one.start(made.sandbox_id)
    assert one.output_of(made.sandbox_id, f"cat {INSIDE}/wheels/one.whl; ls {INSIDE}") == "oneCACHEDIR.TAG\nlatest\nwheels\n"
    one.stop(made.sandbox_id)
    shutil.rmtree(home / UV)
    one.start(made.sandbox_id)
    assert one.output_of(made.sandbox_id, f"ls {INSIDE}") == "f\n"
    # TWO has no home, and ONE's counts for nothing: what TWO has is the tool in /usr, or none.
    fill(home)
    if not os.access("/usr/bin/npm", os.X_OK):
        pytest.skip("the host has no npm in /usr/bin, which TWO would see")
    two = daemon.other_user(TWO)
    put(home, ".npm/_cacache/index", "x")
    box = two.create(tools=[pb.Tool(name="npm", cache=True)]).sandbox_id
    assert two.output_of(box, "ls -A ~") == ""


def test_a_link_is_followed_with_the_callers_rights_beneath_the_roots(daemon, one, home):
    """covers: OWN-4"""
    put(home, "elsewhere/f", "linked")
    link(home, UV, home / "elsewhere")
    box = one.create(tools=uv()).sandbox_id
    assert one.output_of(box, f"cat {INSIDE}/f; echo x > {INSIDE}/g") == "linked"
    assert os.listdir(home / "elsewhere") == ["f"]


def refusal(one, code, *words):
    with refused(code, "spec.tools[0].cache") as error:
        one.create(tools=uv())
    assert all(word in error.text for word in ("~/.cache/uv", *words)), error.text


def test_what_may_not_go_in_is_refused_by_field(daemon, one, home):
    """covers: OWN-4, SBX-26"""
    cache = fill(home)
    for uid, gid in ((TWO, 65534), (0, 0), (ONE, 0)):
        os.chown(cache, uid, gid)
        refusal(one, "HOST_PATH_REFUSED", "does not belong to the caller")
    own(cache)
    cache.chmod(0o300)
    refusal(one, "HOST_PATH_REFUSED", "permission denied")
    shutil.rmtree(cache)
    outside = home.parent / "outside"
    outside.mkdir()
    own(outside)
    for target, words in ((outside, "mount_roots"), ("/proc/self", ""), ("/", "/proc"), ("/dev", "/dev")):
        link(home, UV, target)
        refusal(one, "HOST_PATH_REFUSED", words)
        cache.unlink()
    put(home, UV, "a file")
    refusal(one, "NOT_A_DIRECTORY")
    cache.unlink()
    link(home, UV, cache)
    refusal(one, "SYMLINK_LOOP")
    assert one.list() == []


def test_a_start_looks_anew(daemon, one, home):
    """covers: OWN-4"""
    cache = fill(home)
    box = one.create(tools=uv()).sandbox_id
    one.stop(box)
    os.chown(cache, TWO, 65534)
    with refused("HOST_PATH_REFUSED", "spec.tools[0].cache"):
        one.start(box)
    assert one.get(box).state == STOPPED
    own(cache)
    assert one.start(box).state == READY


def test_tools_without_one_and_daemons_without_roots_refuse(make, home):
    """covers: SBX-26, OWN-4"""
    client = make().start().client()
    for name in ("git", "claude", "codex"):
        with refused("INVALID_ARGUMENT", "spec.tools[0].cache"):
            client.create(tools=[pb.Tool(name=name, cache=True)])
    with refused("INVALID_ARGUMENT", "spec.tools[0].cache"):
        client.create(tools=[pb.Tool(name="apt", cache=True)], profile=ROOT)
    if os.access("/usr/bin/npm", os.X_OK):
        with refused("HOST_PATH_REFUSED", "spec.tools[1].cache") as error:
            client.create(tools=[pb.Tool(name="git"), pb.Tool(name="npm", cache=True)])
        assert "mount_roots" in error.text


def test_a_daemon_that_lost_its_roots_starts_none(daemon, one, home, make):
    """covers: OWN-4"""
    fill(home)
    shutil.rmtree(home / ".local")   # so that only the cache is asked for, where the host has the tool
    name = next((n for n in ("npm", "uv") if os.access(f"/usr/bin/{n}", os.X_OK)), None)
    if not name:
        pytest.skip("the host has neither npm nor uv in /usr/bin")
    put(home, ".npm/_cacache/index", "x")
    box = one.create(tools=[pb.Tool(name=name, cache=True)]).sandbox_id
    one.stop(box)
    daemon.stop()
    daemon.start("--set", "mount_roots=", prefix=daemon.inside)
    with refused("HOST_PATH_REFUSED", "spec.tools[0].cache"):
        one.start(box)
    assert one.get(box).state == STOPPED


def test_caches_count_as_mounts_and_mounts_lie_over_them(daemon, one, home):
    """covers: OWN-4"""
    fill(home)
    put(home, "data/file", "mine")
    n = 64 - 1 - (0 if any(os.access(f"{d}/uv", os.X_OK) for d in ("/usr/bin", "/usr/local/bin")) else 1)
    many = [pb.Mount(source=str(home / "data"), target=f"/mnt/{i}") for i in range(64)]
    with refused("INVALID_ARGUMENT", "spec.tools[0].cache", limit="mounts.count"):
        one.create(tools=uv(), mounts=many)
    box = one.create(tools=uv(), mounts=many[:n]).sandbox_id
    assert one.output_of(box, f"cat {INSIDE}/wheels/one.whl /mnt/{n - 1}/file") == "onemine"
    over = [pb.Mount(source=str(home / "data"), target=f"{INSIDE}/wheels")]
    box = one.create(tools=uv(), mounts=over).sandbox_id
    assert one.output_of(box, f"ls {INSIDE}/wheels") == "file\n"


# ---- what lies in it

def test_hostile_contents_gain_nothing(daemon, one, home):
    """covers: SBX-26, OWN-4"""
    cache = fill(home)
    put(home, "secret", "of the host", mode=0o600)
    shutil.copy("/usr/bin/id", cache / "setuid")
    own(cache / "setuid").chmod(0o6755)
    os.mknod(cache / "null", 0o20666, os.makedev(1, 3))
    os.mknod(cache / "whiteout", 0o20666, os.makedev(0, 0))
    os.mkfifo(cache / "fifo")
    for name, mode in (("theirs", 0o666), ("private", 0o600), ("sticky", 0o4755)):
        put(home, f"{UV}/{name}", "theirs", uid=TWO, mode=mode)
    os.chmod(cache / "fifo", 0o666)
    os.link(home / "secret", cache / "hard")
    for name, to in (("out", home / "secret"), ("up", "../../secret"), ("magic", f"/proc/1/root{home}/secret"), ("etc", "/etc/shadow")):
        link(home, f"{UV}/{name}", to)
    server = socket.socket(socket.AF_UNIX)
    os.chdir(cache)   # a socket's path is short
    server.bind("socket")
    os.chdir("/")
    os.chmod(cache / "socket", 0o777)
    server.listen()
    own(cache / "null"), own(cache / "fifo"), own(cache / "socket")
    before = state_of(cache)
    box = one.create(tools=uv()).sandbox_id
    script = f"""
import errno, os, socket, sys
os.chdir("{INSIDE}")
def attempt(f, *a):
    try:
        return f(*a)
    except OSError as e:
        return errno.errorcode[e.errno]
def read(name):
    return open(name).read()
for name in ("out", "up", "magic", "etc", "private", "theirs", "hard"):
    print("read", name, attempt(read, name))
print("device", attempt(os.open, "null", os.O_RDWR))
print("whiteout", os.path.lexists("whiteout"))
print("fifo", attempt(os.open, "fifo", os.O_WRONLY | os.O_NONBLOCK))
s = socket.socket(socket.AF_UNIX)
print("socket", attempt(s.connect, "socket"))
for name in ("theirs", "private", "sticky"):
    print("change", name, attempt(os.open, name, os.O_RDWR), attempt(os.chmod, name, 0o777), attempt(os.rename, name, "mine"),
          attempt(os.unlink, name), attempt(os.link, name, "linked"))
print("mknod", attempt(os.mknod, "new", 0o20666, os.makedev(1, 3)), attempt(os.mknod, "hole", 0o20666, 0))
print("link out", attempt(os.link, "hard", os.path.expanduser("~/hard")), attempt(os.rename, "hard", os.path.expanduser("~/h")))
print("trusted", attempt(os.setxattr, "wheels", "trusted.overlay.redirect", b"/"))
print("climbs", os.path.samefile("../..", os.path.expanduser("~")))
open("hard", "w").write("overwritten")
"""
    fifo = os.open(cache / "fifo", os.O_RDONLY | os.O_NONBLOCK)   # a reader outside
    done = one.run(box, "/usr/bin/python3", "-c", script)
    assert done.exec.exit.code == 0, done.stderr_data
    os.close(fifo)
    lines = done.stdout_data.decode().splitlines()
    changes = [line.split() for line in lines if line.startswith("change")]
    assert [c[1] for c in changes] == ["theirs", "private", "sticky"]
    assert all(set(c[2:]) <= {"EACCES", "EPERM", "EOVERFLOW"} for c in changes), changes
    assert [line for line in lines if not line.startswith("change")] == [
        "read out ENOENT", "read up ENOENT", "read magic ENOENT", "read etc EACCES", "read private EACCES", "read theirs theirs",
        "read hard of the host", "device EACCES", "whiteout False", "fifo ENXIO", "socket ECONNREFUSED",
        "mknod EPERM EPERM", "link out EXDEV EXDEV", "trusted EPERM", "climbs True"]
    # The sandbox's own copy was written; the host's file, which has a second name, was not.
    assert (home / "secret").read_text() == "of the host" and one.output_of(box, f"cat {INSIDE}/hard") == "overwritten"
    assert state_of(cache) == before
    # A mark of privilege gives none: programs inside gain nothing by exec.
    assert one.output_of(box, f"{INSIDE}/setuid -u; cp -a {INSIDE}/setuid /tmp/s; stat -c %U {INSIDE}/setuid; /tmp/s -u") == (
        "1000\nuser\n1000\n")
    assert state_of(cache) == before
    server.close()


def test_neither_side_sees_the_others_locks_and_watches(daemon, one, home):
    """covers: SBX-26"""
    cache = fill(home)
    box = one.create(tools=uv()).sandbox_id
    script = f"""
import ctypes, fcntl, os, pathlib, select, sys, time
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"{INSIDE}/wheels", 0xfff) >= 0
file = open("{INSIDE}/wheels/one.whl", sys.argv[1])
assert os.read(watch, 4096)
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
pathlib.Path("/tmp/ready").touch()
while not os.path.exists("/tmp/go"):
    time.sleep(0.02)
saw = bool(select.select([watch], [], [], 0)[0])
file.close()   # the next one locks it, too
pathlib.Path("/tmp/saw.new").write_text(str(saw))
os.rename("/tmp/saw.new", "/tmp/saw")
"""
    for mode in ("r", "r+"):   # the host's own file, and a copy
        one.exec(box, "/usr/bin/python3", "-c", script, mode)
        wait_for = "while ! [ -e /tmp/{0} ]; do sleep 0.02; done; cat /tmp/{0}"
        one.output_of(box, wait_for.format("ready"))
        with open(cache / "wheels/one.whl", "r+") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)   # raises where the sandbox holds it
            f.read()
        assert one.output_of(box, "touch /tmp/go; " + wait_for.format("saw") + "; rm /tmp/go /tmp/saw /tmp/ready") == "False"


def test_what_is_written_counts_for_the_disk_limit(daemon, one, home):
    """covers: SBX-13, SBX-26"""
    put(home, f"{UV}/large", "x" * (6 << 20))
    for root in (None, MEMORY):
        box = one.create(tools=uv(), root=root, limits=pb.Limits(disk_bytes=8 << 20)).sandbox_id
        done = one.run(box, "sh", "-c", f"cd {INSIDE}; wc -c < large; echo more >> large; head -c 4M /dev/zero > new")
        assert done.exec.exit.code != 0 and done.stdout_data == b"6291456\n" and b"No space left" in done.stderr_data, done
        assert one.output_of(box, f"tail -c 6 {INSIDE}/large; rm {INSIDE}/new {INSIDE}/large; head -c 4M /dev/zero > ~/new") == "xmore\n"


# ---- a real one

def registry(name, tarball):
    """A registry of npm's with one package in it."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_tarball = self.path.endswith(".tgz")
            at = f"http://127.0.0.1:{self.server.server_port}/{name}.tgz"
            sha = hashlib.sha1(tarball).hexdigest()
            version = {"name": name, "version": "1.0.0", "dist": {"tarball": at, "shasum": sha}}
            body = tarball if is_tarball else json.dumps(
                {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/octet-stream" if is_tarball else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def package(name, says):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, text in (("package.json", json.dumps({"name": name, "version": "1.0.0"})), ("index.js", f"console.log('{says}')")):
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def test_npm_installs_from_the_callers_cache_without_a_network(daemon, one, home):
    """covers: SBX-26"""
    if not os.access("/usr/bin/npm", os.X_OK):
        pytest.skip("the host has no npm in /usr/bin")
    name = "berm-cached-thing"
    server = registry(name, package(name, "from the cache"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    put(home, "work/package.json", "{}")
    work = home / "work"
    command = f"npm install --no-audit --no-fund --no-update-notifier --registry {at} {name}"
    with contextlib.closing(server.socket):
        done = subprocess.run(["sh", "-c", command], cwd=work, user=ONE, group=65534, extra_groups=[], capture_output=True,
                              text=True, env={"HOME": str(home), "PATH": os.environ["PATH"]})
        server.shutdown()
    assert done.returncode == 0, done.stderr
    before = state_of(home / ".npm/_cacache")
    assert len(before) > 5
    tools = [pb.Tool(name="npm", cache=True)]
    box = one.create(tools=tools).sandbox_id
    script = f"mkdir -p ~/work && cd ~/work && {command} --offline >&2 && node -e 'require(\"{name}\")'"
    assert one.output_of(box, script) == "from the cache\n"
    # All of it can go but the directory itself, which is a mount point.
    emptied = one.output_of(box, "cd ~/.npm/_cacache; npm cache verify >&2 && rm -rf * && ls; rmdir . ../_cacache 2>&1 || true")
    assert "busy" in emptied and emptied.startswith("rmdir"), emptied
    assert state_of(home / ".npm/_cacache") == before
    plain = one.create(tools=[pb.Tool(name="npm")]).sandbox_id
    assert one.run(plain, "sh", "-c", script).exec.exit.code != 0   # the control
