"""A folder that is used as a machine: programs run in it by chroot, and units as systemd would start them."""

import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

# Generous: the machine may be busy. Nothing waits for it that goes well.
PATIENCE = 60


def wait_for(what, condition):
    """Waits until a condition holds, and returns what it says."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"waited in vain for: {what}")


def check(what, holds, more=""):
    """Ends the try where something is not as it should be."""
    if not holds:
        raise SystemExit(f"FAILED: {what}\n{more}".rstrip())
    print(f"ok: {what}")


class Machine:
    """A root folder, with /proc, /dev and an empty /run."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        for kind, place in [("proc", "proc"), ("tmpfs", "run"), ("tmpfs", "tmp"), ("tmpfs", "dev")]:
            (self.root / place).mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", kind, kind, self.root / place], check=True)
        for name in ["null", "zero", "urandom", "random", "full"]:
            (self.root / "dev" / name).touch()
            subprocess.run(["mount", "--bind", f"/dev/{name}", self.root / "dev" / name], check=True)
        os.chmod(self.root / "tmp", 0o1777)

    def path(self, name):
        return self.root / name.lstrip("/")

    def run(self, *words, check=True, user=None, env=None, cwd="/"):
        """Runs a program to its end."""
        result = subprocess.run(
            words,
            preexec_fn=lambda: self.enter(user, cwd),
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                 "DEBIAN_FRONTEND": "noninteractive", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if check and result.returncode != 0:
            raise SystemExit(f"FAILED: {shlex.join(words)} ended with {result.returncode}\n{result.stdout}")
        return result

    def start(self, words, user=None, env=None, log=None):
        """Starts a program that goes on."""
        with open(log or os.devnull, "ab") as output:
            return subprocess.Popen(
                words,
                preexec_fn=lambda: self.enter(user, "/"),
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def enter(self, user, cwd):
        os.chroot(self.root)
        os.chdir(cwd)
        if isinstance(user, int):
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        elif user:
            # NOTE: the names are the machine's, which is the root by now.
            entry = pwd.getpwnam(user)
            os.setgroups([])
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)

    def files(self):
        """All that is there, but for what package managers note for themselves and for logs."""
        skipped = re.compile(r"^(proc|dev|run|tmp|var/lib/dpkg|var/lib/apt|var/cache|var/log|var/backups)(/|$)")
        found = set()
        for folder, folders, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            inside = "" if inside == "." else inside + "/"
            folders[:] = [name for name in folders if not skipped.match(inside + name)]
            found.update(inside + name for name in folders + names)
        return found

    def users(self):
        return {line.split(":")[0] for line in self.path("/etc/passwd").read_text().splitlines()}


def hear(told, ready):
    """Takes what a service says of itself, for as long as it runs."""
    while True:
        if b"READY=1" in told.recv(4096):
            ready.set()


class Service:
    """A unit's commands, started as systemd starts them: its user, its environment, its folders, told when it is ready."""

    def __init__(self, machine, unit):
        self.machine = machine
        self.name = unit
        self.settings = {}
        for line in machine.path(f"/usr/lib/systemd/system/{unit}").read_text().splitlines():
            if "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                self.settings.setdefault(name, []).append(value)
        self.environment = dict(word.split("=", 1) for line in self.settings["Environment"] for word in shlex.split(line))
        self.user = self.settings.get("User", [None])[0]
        self.process = None
        self.log = machine.path(f"/tmp/{unit}.log")

    def words(self, command):
        """A command's words. A variable in braces is one word, whatever it has."""
        values = {"$": "$", **self.environment, "MAINPID": str(self.process.pid if self.process else "")}
        return [re.sub(r"\$\{?(\w+|\$)\}?", lambda found: values[found[1]], word) for word in shlex.split(command)]

    def reload_commands(self):
        """What a shell does in the place of `systemctl reload`."""
        commands = [shlex.join(self.words(command)) for command in self.settings["ExecReload"]]
        return "\n".join([f"export MAINPID={self.process.pid}", *commands, ""])

    def start(self):
        for key, place in [("RuntimeDirectory", "run"), ("StateDirectory", "var/lib")]:
            for name in self.settings.get(key, []):
                folder = self.machine.path(f"/{place}/{name}")
                folder.mkdir(exist_ok=True)
                if self.user:
                    self.machine.run("chown", self.user, f"/{place}/{name}")
        address = self.machine.path(f"/run/notify-{self.name}")
        address.unlink(missing_ok=True)
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(str(address))
        os.chmod(address, 0o777)
        ready = threading.Event()
        threading.Thread(target=hear, args=(told, ready), daemon=True).start()
        environment = {**self.environment, "NOTIFY_SOCKET": f"/run/{address.name}"}
        self.process = self.machine.start(self.words(self.settings["ExecStart"][0]), self.user, environment, self.log)
        wait_for(f"{self.name} to start", lambda: ready.is_set() or self.process.poll() is not None)
        check(f"{self.name} starts", ready.is_set(), self.log.read_text())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        allowed = [0, *(int(code) for code in self.settings.get("SuccessExitStatus", []))]
        check(f"{self.name} stops", code in allowed, f"code {code}\n{self.log.read_text()}")
