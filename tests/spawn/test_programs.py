#!/usr/bin/env python3
"""Real programs in real sandboxes, through berm-jail."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tap import Skip, check, main, program, same, state_dir, test  # noqa: E402

STATE = state_dir()


def jail(*arguments, **options):
    return subprocess.run([program("berm-jail"), "--state", STATE, *arguments], capture_output=True,
                          text=True, timeout=120, **options)


def output(*arguments, **options):
    done = jail(*arguments, **options)
    same(done.returncode, 0, f"exit of {arguments}: {done.stderr}")
    return done.stdout


@test
def exit_codes_pass_through():
    same(jail("--", "sh", "-c", "exit 7").returncode, 7, "code")
    same(jail("--", "sh", "-c", "kill -9 $$").returncode, 137, "signal")
    same(jail("--", "sh", "-c", "kill -TERM $$").returncode, 143, "signal")
    same(jail("--", "no-such-program").returncode, 127, "not found")
    same(jail("--", "/etc/passwd").returncode, 126, "not executable")
    same(jail("--memory", "x", "--", "true").returncode, 125, "bad option")


@test
def standard_streams_pass_through():
    done = jail("--", "sh", "-c", "cat; echo err >&2", input="in\n")
    same((done.stdout, done.stderr), ("in\n", "err\n"), "streams")


@test
def sandbox_user_has_no_privileges():
    text = output("--", "sh", "-c", "id -u; id -g; pwd; echo $HOME; grep -E '^(Cap|NoNew|Seccomp:)' "
                  "/proc/self/status; hostname; cat /proc/self/cgroup | cut -d: -f3 | sort -u")
    lines = text.split("\n")
    same(lines[:4], ["1000", "1000", "/workspace", "/home/user"], "identity")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        check(f"{name}:\t0000000000000000" in text, f"{name} is empty: {text}")
    check("NoNewPrivs:\t1" in text and "Seccomp:\t2" in text, text)
    same(lines[-2], "/", "no host path in /proc/self/cgroup")


@test
def umask_of_the_caller_does_not_reach_the_sandbox():
    with tempfile.TemporaryDirectory() as fresh:      # the generated part of the root is created only once
        text = output("--state", fresh, "--", "sh", "-c", "umask; touch f; stat -c %a f; ls / | wc -l; ls -d /proc/self", umask=0o077)
        same(text, output("--", "sh", "-c", "umask; touch f; stat -c %a f; ls / | wc -l; ls -d /proc/self"), "as with any other")
        check(text.startswith("0022\n644\n"), text)


@test
def python_runs():
    same(output("--", "python3", "-c", "import json, ssl, sys; print(sys.executable, 6 * 7)"),
         "/usr/bin/python3 42\n", "python3")


@test
def python_runs_threads_and_processes():
    code = ("import subprocess, threading, multiprocessing.pool as p;"
            "print(sum(p.ThreadPool(8).map(lambda x: x * x, range(10))),"
            "subprocess.check_output(['echo', 'hi']).decode().strip())")
    same(output("--", "python3", "-c", code), "285 hi\n", "threads")


@test
def gcc_compiles_and_the_result_runs():
    if not shutil.which("gcc"):
        raise Skip("the host has no gcc")
    text = output("--", "sh", "-c", "printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' > a.c"
                  " && gcc -O1 -o a a.c && ./a")
    same(text, "built\n", "gcc")


@test
def git_commits():
    if not shutil.which("git"):
        raise Skip("the host has no git")
    text = output("--", "sh", "-c", "git init -q r && cd r && git config user.email a@example.com && "
                  "git config user.name A && echo x > f && git add f && git commit -qm first && "
                  "git log --format=%s")
    same(text, "first\n", "git")


def build_package(directory):
    tree = pathlib.Path(directory, "hello-berm")
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "etc").mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: hello-berm\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.com>\n"
        "Description: test\n")
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nset -e\nchown daemon /etc/hello-berm.conf\n")
    (tree / "usr/bin/hello-berm").write_text("#!/bin/sh\necho installed\n")
    (tree / "etc/hello-berm.conf").write_text("a=1\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    (tree / "usr/bin/hello-berm").chmod(0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, f"{directory}/hello.deb"],
                   check=True, capture_output=True)


@test
def package_installs_as_root_and_disappears_with_the_sandbox():
    if not shutil.which("dpkg-deb"):
        raise Skip("the host has no dpkg-deb")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        build_package(folder)
        script = ("dpkg -i /pkg/hello.deb >/dev/null && hello-berm && stat -c %U /etc/hello-berm.conf "
                  "&& dpkg -s hello-berm | grep ^Status")
        same(output("--root", "--bind", f"{folder}:/pkg", "--", "sh", "-c", script),
             "installed\ndaemon\nStatus: install ok installed\n", "dpkg -i")
        apt = output("--root", "--bind", f"{folder}:/pkg", "--", "sh", "-c",
                     "apt-get install -y /pkg/hello.deb >/dev/null 2>&1; hello-berm")
        same(apt, "installed\n", "apt-get install of a local archive")
        check(not os.path.exists("/usr/bin/hello-berm"), "the host has no such program")
        check(subprocess.run(["dpkg", "-s", "hello-berm"], capture_output=True).returncode != 0,
              "the host's package state is untouched")


@test
def host_data_is_not_visible_inside():
    text = output("--root", "--", "sh", "-c",
                  "ls -A /root /home /opt /srv /mnt /media; ls -A /home/user; ls /var; ls /var/lib; "
                  "ls -A /; cat /etc/passwd /etc/shadow; ls -R /etc | grep -i -e shadow -e key$; true")
    for name in (".pyenv", "sudoers", "ssh"):
        check(name not in text, f"{name} shows in {text}")
    top = set(os.listdir("/")) - {"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32",
                                  "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv", "sys",
                                  "tmp", "usr", "var", "lost+found", "old_root"}
    listing = text.split()
    for name in top:
        check(name not in listing, f"the host's /{name} shows")
    same(output("--root", "--", "ls", "-A", "/root", "/opt", "/srv"), "/opt:\n\n/root:\n\n/srv:\n", "empty")


@test
def private_files_of_etc_are_not_copied():
    text = output("--root", "--", "find", "/etc", "-type", "f")
    made = {"passwd", "group", "shadow", "hosts", "resolv.conf", "nsswitch.conf", "machine-id", "subuid",
            "subgid"}
    check(len(text.split()) > 10, text)
    for path in text.split("\n"):
        if path and os.path.exists(path) and os.path.basename(path) not in made:
            check(os.stat(path).st_mode & 0o004, f"{path} is private on the host")
    same(output("--", "sh", "-c", "cat /etc/shadow 2>/dev/null || echo refused"), "refused\n", "shadow")


@test
def kept_sandbox_keeps_its_files_and_others_do_not():
    same(output("--keep", "kept-a", "--", "sh", "-c", "echo 1 > f; cat f"), "1\n", "first")
    same(output("--keep", "kept-a", "--", "cat", "f"), "1\n", "found again")
    same(jail("--", "cat", "f").returncode, 1, "another sandbox does not see it")
    same(output("--root", "--keep", "kept-b", "--", "sh", "-c", "echo 2 > /usr/local/f"), "", "root")
    same(output("--keep", "kept-b", "--", "cat", "/usr/local/f"), "2\n", "kept in /usr, read as user")


@test
def bind_is_read_only_by_default_and_owned_by_the_user():
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 12345, 12345)
        pathlib.Path(folder, "f").write_text("host\n")
        os.chown(f"{folder}/f", 12345, 12345)
        same(output("--bind", f"{folder}:/data", "--", "sh", "-c",
                    "cat /data/f; stat -c %u /data/f; touch /data/x 2>&1 || true"),
             "host\n1000\ntouch: cannot touch '/data/x': Read-only file system\n", "read-only")
        same(output("--bind", f"{folder}:/data/in:rw", "--", "sh", "-c", "echo new > /data/in/g"), "", "rw")
        same(pathlib.Path(folder, "g").read_text(), "new\n", "written on the host")
        same(os.stat(f"{folder}/g").st_uid, 12345, "as the directory's owner")
        pathlib.Path(folder, "secret").write_text("s")
        os.chmod(f"{folder}/secret", 0o600)
        same(jail("--bind", f"{folder}:/data", "--", "cat", "/data/secret").returncode, 1,
             "another owner's private file stays private")


def look(folder):
    """Lists a directory without leaving an access time."""
    found = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        with open(path, opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
            found.append((path.name, file.read(), path.stat()))
    return found


@test
def layered_bind_never_changes_the_host_directory():
    with tempfile.TemporaryDirectory() as folder:
        for name, owner in ((".", 12345), ("f", 12345), ("theirs", 54321)):
            path = pathlib.Path(folder, name)
            if name != ".":
                path.write_text(f"{name}\n")
            os.chown(path, owner, owner)
        before = look(folder)
        bind = ("--bind", f"{folder}:/data/deep:layer")
        script = ("cd /data/deep; stat -c %u . f theirs; echo new >> f; echo g > g; rm -f theirs 2>&1; "
                  "chmod 700 f; cat f g; ls")
        for options in ((), ("--layer", "disk"), ("--root",), ("--without", "overlay-fd"), ("--disk", "8M")):
            uid = 0 if "--root" in options else 1000
            same(output(*options, *bind, "--", "sh", "-c", script),
                 f"{uid}\n{uid}\n65534\nrm: cannot remove 'theirs': Value too large for defined data type\n"
                 "f\nnew\ng\nf\ng\ntheirs\n", f"written over {options}")
        same(output("--keep", "layered", *bind, "--", "sh", "-c", "echo kept > /data/deep/kept; rm /data/deep/f"), "", "kept")
        same(output("--keep", "layered", *bind, "--", "ls", "/data/deep"), "kept\ntheirs\n", "found again")
        same(jail("--keep", "layered", "--", "ls", "/data/deep/kept").returncode, 2, "not without the directory beneath")
        same(look(folder), before, "the host's")
        twice = jail(*bind, *bind, "--", "cat", "/data/deep/f")
        same((twice.returncode, twice.stdout), (125, ""), f"one target twice: {twice.stderr}")


@test
def image_works_as_root():
    if not shutil.which("gcc"):
        raise Skip("the host has no gcc to build the image's program")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        source = pathlib.Path(folder, "a.c")
        source.write_text("#include <stdio.h>\n#include <unistd.h>\nint main(void){printf(\"%d %d\\n\","
                          "access(\"/usr\", F_OK), access(\"/proc/self/stat\", R_OK));"
                          "FILE *f = fopen(\"/home/user/w\", \"w\"); return f == NULL;}")
        os.mkdir(f"{folder}/image")
        subprocess.run(["gcc", "-static", "-o", f"{folder}/image/prog", source], check=True)
        same(output("--image", f"{folder}/image", "--", "/prog"), "-1 0\n", "image")
        same(sorted(os.listdir(f"{folder}/image")), ["prog"], "the image is untouched")


@test
def overlay_by_path_works_for_older_kernels():
    same(output("--without", "overlay-fd", "--root", "--", "sh", "-c",
                "echo ok > /usr/x && cat /usr/x"), "ok\n", "fallback")
    text = output("--without", "overlay-fd", "--", "cat", "/proc/self/mountinfo")
    check(STATE not in text and "berm-spawn-test" not in text, text)


@test
def mounts_show_nothing_of_the_host():
    text = output("--root", "--", "cat", "/proc/self/mountinfo")
    for line in text.splitlines():
        fields = line.split()
        check(STATE not in line, line)
        check(fields[4] != "/" or fields[-2:][0] == "berm", line)
    # Kernels before 6.13 show an overlay's layers by their temporary names: numbers, the same in
    # every sandbox.
    named = re.sub(r"\b(lowerdir|upperdir|workdir)=(:?(/empty|/layer/\d+(/(t-[a-z_]+-)?(upper|work))?))+", "", text)
    check("/stage" not in named and "/layer" not in named, text)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
