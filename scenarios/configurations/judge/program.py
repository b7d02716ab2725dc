"""The two programs: they start in the foreground, are asked through their stats socket and end by their own number."""

import os
import re
import signal
import socket
import subprocess
import time

PATIENCE = 10


class Failed(Exception):
    """A play did not go as its configuration promises."""


class Program:
    """A program that understands HAProxy's command line."""

    def __init__(self, name, words):
        self.name, self.words = name, words

    def refuses(self, place):
        """What it says against the configuration; empty when it takes it."""
        checked = subprocess.run(
            [*self.words, "-c", "-f", place.folder / "etc/haproxy.cfg"], capture_output=True, text=True, cwd=place.folder
        )
        return "" if checked.returncode == 0 else checked.stderr

    def start(self, place):
        return Running(self, place)


class Running:
    """A program that serves."""

    def __init__(self, program, place):
        self.place = place
        self.output = open(place.folder / "stderr", "w+")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HAPROXY")}
        self.child = subprocess.Popen(
            [*program.words, "-db", "-f", place.folder / "etc/haproxy.cfg"],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            cwd=place.folder,
            env=environment,
        )
        config = (place.folder / "etc/haproxy.cfg").read_text()
        for host, port in re.findall(r"^\s+bind ([\d.]+):(\d+)", config, re.M):
            self.wait(f"{host}:{port} listens", lambda host=host, port=port: listens(host, int(port)))

    def said(self):
        self.output.flush()
        return (self.place.folder / "stderr").read_text()

    def wait(self, what, condition):
        began = time.monotonic()
        while not condition():
            if self.child.poll() is not None:
                raise Failed(f"it ended with {self.child.returncode}:\n{self.said()}")
            if time.monotonic() - began > PATIENCE:
                raise Failed(f"waited in vain until {what}\n{self.said()}")
            time.sleep(0.005)

    def command(self, text):
        """The answer to a command on the stats socket."""
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(PATIENCE)
            talk.connect(str(self.place.folder / "run/admin.sock"))
            talk.sendall(text.encode() + b"\n")
            answer = b""
            while part := talk.recv(65536):
                answer += part
        return answer.decode(errors="replace")

    def stop(self):
        for number in [self.child.pid, *below(self.child.pid)]:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.wait()
        self.output.close()


def below(number):
    """The processes that a process has started, and theirs."""
    try:
        with open(f"/proc/{number}/task/{number}/children") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return children + [deeper for child in children for deeper in below(child)]


def listens(host, port):
    octets = host.split(".")
    wanted = "".join(f"{int(octet):02X}" for octet in reversed(octets)) + f":{port:04X}"
    with open("/proc/net/tcp") as table:
        return any(line.split()[1] == wanted and line.split()[3] == "0A" for line in table)
