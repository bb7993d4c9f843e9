"""Tools that live in the caller's home or in /opt: shown read-only where they are, on PATH, with the caller's own rights."""

import base64
import os
import shutil

import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from control import READY, STOPPED, refused
from homes import ONE, TWO, home, link, own, program, put, start_at_home  # noqa: F401

NAMES = ("git", "uv", "npm", "apt", "claude", "codex", "opencode")
MISSING = [n for n in NAMES if not any(os.access(f"{d}/{n}", os.X_OK) for d in ("/usr/bin", "/usr/local/bin"))]
SECRET = "hunter2-of-the-caller"


@pytest.fixture(params=[4, 0], ids=["claimed", "made"])
def daemon(make, home, request):
    """With a pool, and without."""
    return start_at_home(make, home, parked=request.param)


@pytest.fixture
def one(daemon):
    return daemon.other_user(ONE)


def tools(*names, credentials=False):
    return [pb.Tool(name=n, credentials=credentials) for n in names]


def need(*names):
    for name in names:
        if name not in MISSING:
            pytest.skip(f"the host itself has {name}")


def test_a_program_in_the_home_runs_from_path(daemon, one, home):
    """covers: SBX-21, OWN-4"""
    need("uv", "opencode")
    put(home, ".local/bin/uv", program("uv of the home"))
    put(home, ".opencode/bin/opencode", program("opencode of the home"))
    put(home, ".ssh/id", SECRET, mode=0o600)
    put(home, ".opencode/auth", SECRET)
    made = one.create(tools=tools("uv", "opencode", "git"))
    assert made.state == READY, made
    box = made.sandbox_id
    assert (box in daemon.instances().values()) == (daemon.n_parked > 0)
    assert one.output_of(box, "uv; opencode; command -v uv") == (
        f"uv of the home\nopencode of the home\n{home}/.local/bin/uv\n")
    assert one.output_of(box, f"cd {home}; ls -A . .opencode; pwd") == f".:\n.local\n.opencode\n\n.opencode:\nbin\n{home}\n"
    done = one.run(box, "sh", "-c", f"echo x > {home}/.local/bin/uv")
    assert done.exec.exit.code != 0 and b"Read-only file system" in done.stderr_data
    assert one.output_of(box, "echo $PATH") == (
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        f":{home}/.local/bin:{home}/.opencode/bin\n")
    assert one.output_of(one.create().sandbox_id, f"echo $PATH; ls {home.parent} 2>&1 | wc -l") == (
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n1\n")


def test_links_lead_where_they_lead_outside(daemon, one, home):
    """covers: OWN-4"""
    need("claude", "codex")
    put(home, ".local/share/claude/versions/2.0.1", program("claude 2.0.1"))
    link(home, ".local/bin/claude", home / ".local/share/claude/versions/2.0.1")
    put(home, ".npm-global/lib/node_modules/codex/bin/codex.sh", program("codex"))
    link(home, ".npm-global/bin/codex", "../lib/node_modules/codex/bin/codex.sh")
    put(home, ".npm-global/etc/npmrc", SECRET)
    box = one.create(tools=tools("claude", "codex")).sandbox_id
    assert one.output_of(box, "claude; codex") == "claude 2.0.1\ncodex\n"
    assert one.output_of(box, f"ls -A {home}/.npm-global") == "bin\nlib\n"


def test_a_tool_that_is_nowhere_is_refused_by_name(daemon, one, home):
    """covers: SBX-18"""
    need("uv", "codex")
    def refusal(name, *words):
        with refused("UNSUPPORTED", "spec.tools[1].name") as error:
            one.create(tools=tools("git", name))
        assert all(w in error.text for w in (f"{name} not found", *words)), error.text

    refusal("uv", "~/.local/bin")
    put(home, ".local/bin/uv", program("x"), mode=0o644)
    refusal("uv", "permission denied")
    (home / ".local/bin/uv").unlink()
    (home / ".local/bin/uv").mkdir()
    refusal("uv")
    (home / ".local/bin/uv").rmdir()
    outside = home.parent / "uv"
    outside.write_text(program("outside"))
    outside.chmod(0o755)
    (home / ".local/bin/uv").symlink_to(outside)
    refusal("uv", "mount_roots")
    (home / ".local/bin/uv").unlink()
    put(home, "elsewhere/uv", program("elsewhere"))
    (home / ".local/bin/uv").symlink_to("../../elsewhere/uv")
    refusal("uv", "leaves the mounted directories")
    # What is not ONE's to enter is not there; TWO has no home, and ONE's counts for nothing.
    put(home, ".npm-global/bin/codex", program("x"))
    os.chown(home / ".npm-global", TWO, 65534)
    (home / ".npm-global").chmod(0o700)
    refusal("codex")
    with refused("UNSUPPORTED", "spec.tools[0].name"):
        daemon.other_user(TWO).create(tools=tools("codex"))
    assert one.list() == []


def test_without_roots_a_tool_outside_usr_is_refused_by_name(make):
    """covers: SBX-18, OWN-4"""
    need("uv")
    with refused("UNSUPPORTED", "spec.tools[0].name") as error:
        make().start().client().create(tools=tools("uv"))
    assert "mount_roots" in error.text


def test_a_start_searches_anew(daemon, one, home):
    """covers: OWN-4"""
    need("uv")
    put(home, ".local/bin/uv", program("first"))
    box = one.create(tools=tools("uv")).sandbox_id
    daemon.kill()
    daemon.start(prefix=daemon.inside)
    assert one.output_of(box, "uv") == "first\n"
    one.stop(box)
    shutil.rmtree(home / ".local")
    with refused("UNSUPPORTED", "spec.tools[0].name"):
        one.start(box)
    assert one.get(box).state == STOPPED
    put(home, ".cargo/bin/uv", program("second"))
    assert one.start(box).state == READY
    assert one.output_of(box, "uv; echo $PATH").endswith(f"{home}/.cargo/bin\n")
    assert one.output_of(box, "uv") == "second\n"


def test_path_of_the_spec_is_the_callers_word(daemon, one, home):
    need("uv")
    put(home, ".local/bin/uv", program("x"))
    box = one.create(tools=tools("uv"), env={"PATH": "/usr/bin"}).sandbox_id
    assert one.output_of(box, "echo $PATH") == "/usr/bin\n"


def test_mounts_lie_over_tools_and_count_with_them(daemon, one, home):
    """covers: OWN-4"""
    need("uv")
    put(home, ".local/bin/uv", program("x"))
    put(home, "data/file", "mine")
    over = [pb.Mount(source=str(home / "data"), target=str(home / ".local/bin"))]
    box = one.create(tools=tools("uv"), mounts=over).sandbox_id
    assert one.output_of(box, f"ls {home}/.local/bin") == "file\n"
    many = [pb.Mount(source=str(home / "data"), target=f"/mnt/{i}") for i in range(64)]
    with refused("INVALID_ARGUMENT", "spec.tools[0].name", limit="mounts.count"):
        one.create(tools=tools("uv"), mounts=many)
    box = one.create(tools=tools("uv"), mounts=many[1:]).sandbox_id
    assert one.output_of(box, "uv; cat /mnt/63/file") == "x\nmine"


def test_directories_made_in_the_users_home_are_the_users(daemon, one, home):
    put(home, "data/file", "mine")
    box = one.create(mounts=[pb.Mount(source=str(home / "data"), target="/home/user/.local/bin")]).sandbox_id
    assert one.output_of(box, "cd; mkdir .local/share; stat -c %U .local; stat -c %U /home") == "user\nroot\n"


def test_credentials_of_a_tool_in_the_home_show_nowhere(daemon, one, home):
    """covers: SBX-23"""
    need("claude")
    put(home, ".local/bin/claude", program("claude"))
    put(home, ".claude/.credentials.json", SECRET, mode=0o600)
    plain = one.create(tools=tools("claude")).sandbox_id
    assert one.output_of(plain, "ls -A ~") == ""
    box = one.create(tools=tools("claude", credentials=True)).sandbox_id
    size = len(SECRET)
    assert one.output_of(box, "stat -c '%a %s' ~/.claude/.credentials.json") == f"600 {size}\n"
    one.stop(box)
    one.start(box)
    assert one.output_of(box, "stat -c %s ~/.claude/.credentials.json") == f"{size}\n"
    client = daemon.client()
    said = {"the log": daemon.text(), "GetSandbox": str(client.get(box)), "ListSandboxes": str(client.list()),
            "events": "\n".join(map(str, client.events()))}
    said |= {name: data.decode(errors="replace") for name, data in daemon.kept().items()}
    assert any(name.endswith("guest.log") and text for name, text in said.items()), said.keys()
    assert said["the log"] and all(box in said[name] for name in ("GetSandbox", "events"))
    coded = base64.b64encode(SECRET.encode()).decode()[:20]
    assert not [name for name, text in said.items() if SECRET in text or coded in text]
