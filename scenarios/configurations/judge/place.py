"""Where a configuration is played: addresses and folders of its own, so that many are played beside each other.

A configuration names 127.0.0.x, /etc/haproxy, /run/haproxy and /dev/log as on any machine. All of 127.0.0.0/8 is the
loopback, so `127.0.0.` becomes a network that nobody else has, and the folders become temporary ones; in what is recorded
they are named as in the configuration again.
"""

import os
import random
import re
import shutil
import socket
import tempfile
from pathlib import Path

THREADS = "    nbthread 1\n"


class Place:
    """A network and a folder, both free until `close`."""

    def __init__(self, source):
        self.source = Path(source)
        self.prefix, self._lock = reserve_network()
        self.folder = Path(tempfile.mkdtemp(prefix="tgc-"))

    def close(self):
        self._lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self):
        """Writes the configuration and its files anew."""
        for name in ("etc", "run"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        for path in self.source.iterdir():
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                # Line ends stay as they are: error files have HTTP's.
                text = self.real(path.read_bytes().decode())
                if path.name == "haproxy.cfg":
                    # One thread, so that the order of requests is that of what they cause.
                    text = re.sub(r"^global\n", "global\n" + THREADS, text, count=1, flags=re.M)
                    if "\nglobal\n" not in "\n" + text:
                        text = "global\n" + THREADS + text
                (self.folder / "etc" / path.name).write_bytes(text.encode())

    def real(self, text):
        """A text of the configuration as it is for this place."""
        return (
            text.replace("127.0.0.", self.prefix)
            .replace("/etc/haproxy", str(self.folder / "etc"))
            .replace("/run/haproxy", str(self.folder / "run"))
            .replace("/dev/log", str(self.folder / "log"))
        )

    def named(self, text):
        """A text that came out of this place as if it came out of the configuration's."""
        return (
            text.replace(self.prefix, "127.0.0.")
            .replace(str(self.folder / "etc"), "/etc/haproxy")
            .replace(str(self.folder / "run"), "/run/haproxy")
        )

    def address(self, text):
        """`127.0.0.1:80` as a pair for sockets."""
        host, port = self.real(text).rsplit(":", 1)
        return host, int(port)


def reserve_network():
    """A /24 of the loopback network whose names are as long as any other's, and the socket that reserves it."""
    chance = random.Random(os.getpid() ^ int.from_bytes(os.urandom(4), "big"))
    while True:
        prefix = f"127.{chance.randrange(130, 250)}.{chance.randrange(100, 250)}."
        lock = socket.socket()
        try:
            lock.bind((prefix + "254", 9))
        except OSError:
            lock.close()
            continue
        lock.listen()
        return prefix, lock
