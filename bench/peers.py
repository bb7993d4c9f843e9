"""The other sandbox programs, each prepared to run one program: bubblewrap, crun, Docker.

Each returns the command to time, or the reason why it is left out, and ends what it started.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

from common import die


class LeftOut(Exception):
    """The reason why a peer is left out of this run."""


def bwrap(program):
    """Typical use of bubblewrap: every namespace, the host's /usr, nothing else."""
    if not (path := shutil.which("bwrap")):
        die("there is no bwrap: run scripts/setup bench")
    return [path, "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib64", "/lib64",
            "--proc", "/proc", "--dev", "/dev", *program]


# crun 1.8 works with either version of cgroups but refuses a host that mounts both. There it gets a mount
# namespace without v2; a shell creates it once and executes the program that times crun.
BOTH_CGROUPS = pathlib.Path("/sys/fs/cgroup/unified/cgroup.controllers")
WITHOUT_V2 = ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec "$@"', "sh"]


def crun(folder, program):
    """Uses crun's default specification and the same tree as the others. Returns the command, and a prefix for the
    process that runs it."""
    if not (path := shutil.which("crun")):
        raise LeftOut("crun is not installed")
    bundle = folder / "bundle"
    (bundle / "rootfs/usr").mkdir(parents=True)
    subprocess.run([path, "spec"], cwd=bundle, check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"].update(args=program, terminal=False, cwd="/")
    spec["root"] = {"path": "rootfs", "readonly": True}
    spec["mounts"].append({"destination": "/usr", "source": "/usr", "type": "bind", "options": ["rbind", "ro"]})
    (bundle / "config.json").write_text(json.dumps(spec))
    before = WITHOUT_V2 if BOTH_CGROUPS.exists() else []
    command = [path, "--root", str(folder / "crun"), "run", "--bundle", str(bundle), f"berm-bench-{os.getpid()}"]
    done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise LeftOut(f"crun does not work here: {done.stderr.strip()[-200:]}")
    return command, before


class Docker:
    """A private dockerd in its own directories, without a network; close() ends it."""

    IMAGE = "berm-bench"

    def __init__(self, folder, program):
        self.process = None
        if not shutil.which("dockerd") or not shutil.which("docker"):
            raise LeftOut("dockerd is not installed: scripts/setup docker")
        self.folder = folder / "docker"
        self.folder.mkdir()
        self.socket = self.folder / "docker.sock"
        self.cgroup = f"berm-bench-docker-{os.getpid()}"
        self.docker = [shutil.which("docker"), "--config", str(self.folder / "config"), "-H", f"unix://{self.socket}"]
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            ["dockerd", "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
             "--pidfile", str(self.folder / "pid"), "-H", f"unix://{self.socket}", "--bridge", "none",
             "--cgroup-parent", f"/{self.cgroup}", "--exec-opt", "native.cgroupdriver=cgroupfs", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self._wait_ready()
            self._import(program[0])
            self.container = self._ask("run", "-d", "--network", "none", self.IMAGE, program[0], "sleep", "86400")
            self.run = [*self.docker, "run", "--rm", "--network", "none", self.IMAGE, *program]
            self.exec = [*self.docker, "exec", self.container, *program]
            for command in self.run, self.exec:
                self._check(command)
        except BaseException:
            self.close()
            raise

    def _check(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise LeftOut(f"docker does not work here: {done.stderr.strip()[-200:]}")
        return done.stdout.strip()

    def _ask(self, *words):
        return self._check([*self.docker, *words])

    def _wait_ready(self):
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            if subprocess.run([*self.docker, "version"], capture_output=True, timeout=30).returncode == 0:
                return
            time.sleep(0.2)
        last = (self.folder / "log").read_text(errors="replace").strip().rpartition("\n")[2]
        raise LeftOut(f"dockerd does not start here: {last[-200:]}")

    def _import(self, program):
        archive = self.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(program)        # the member's directories come from its name
        self._ask("import", str(archive), self.IMAGE)

    def close(self):
        """Removes the container first, so that nothing stays mounted; then ends dockerd, which ends its containerd."""
        if not self.process:
            return
        if getattr(self, "container", None):
            subprocess.run([*self.docker, "rm", "-f", self.container], capture_output=True, timeout=60)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        for left in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"):
            with contextlib.suppress(OSError):
                left.rmdir()
