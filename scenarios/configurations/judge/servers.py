"""Servers behind the proxy: scripted ones on threads, and real ones where they are installed."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from .http import Wire, is_check, response
from .program import PATIENCE, Failed, listens


class Missing(Exception):
    """A real server is not installed."""


class Server:
    """Listens; each connection has a thread that runs `talk(wire)`."""

    def __init__(self, address, name, talk):
        self.name, self.talk = name, talk
        self.connections = 0
        self.guard = threading.Lock()
        self.open = set()
        self.listener = None
        self.address = address
        self.resume()

    def resume(self):
        """Listens again after `pause`."""
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(self.address)
        self.listener.listen(200)
        threading.Thread(target=self._accept, args=[self.listener], daemon=True).start()

    def pause(self):
        """Stops to listen and closes what is open: connections are refused."""
        # Wakes the thread that waits for the next connection.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.guard:
            for stream in list(self.open):
                try:
                    stream.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    stop = pause

    def _accept(self, listener):
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            threading.Thread(target=self._serve, args=[stream], daemon=True).start()

    def _serve(self, stream):
        with self.guard:
            self.open.add(stream)
        wire = Wire(stream)
        stream.settimeout(60)
        try:
            self.talk(wire)
        except OSError:
            pass
        finally:
            with self.guard:
                self.open.discard(stream)
            stream.close()


class HttpServer(Server):
    """Answers by `pages`: from a path to bytes, or to a function of the request and the wire that gives bytes."""

    def __init__(self, address, name, pages=None, checks=("/health", "/ping"), banner=None):
        self.pages, self.checks, self.banner = pages or {}, checks, banner
        self.received, self.checked = [], set()
        super().__init__(address, name, self.serve)

    def serve(self, wire):
        if self.banner:
            self.banner(wire)
        while message := wire.message(is_request=True):
            if is_check(message, self.checks):
                self.checked.add(message.raw.decode("latin-1"))
            else:
                self.received.append(message)
            path = message.target.split("?")[0]
            page = self.pages.get(path, self.pages.get("*"))
            if callable(page):
                page = page(message, wire)
            if page is None:
                body = f"{self.name} {message.method} {message.target}\n"
                page = response(200, [("Server", self.name), ("Content-Type", "text/plain")], body)
                if message.method == "HEAD":
                    page = page.split(b"\r\n\r\n")[0] + b"\r\n\r\n"
            if page == b"":
                return
            wire.send(page)
            if b"\r\nConnection: close\r\n" in page:
                return


class Dns:
    """Answers A, AAAA and SRV questions over UDP from a table that a play may change."""

    def __init__(self, address, records):
        self.records, self.name = records, "dns"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(address)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                question, client = self.socket.recvfrom(4096)
                if not question:
                    return
                self.socket.sendto(self.answer(question), client)
            except OSError:
                return

    def answer(self, question):
        at, labels = 12, []
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
            at += 1 + question[at]
        kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
        asked = question[12 : at + 5]
        name = ".".join(labels)
        answers = [encode(kind, value) for value in self.records.get((name, kind), [])]
        known = any(key[0] == name for key in self.records)
        flags = 0x8580 if known else 0x8583
        head = question[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0)
        return head + asked + b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(data)) + data for data in answers)

    def stop(self):
        # Wakes the thread that waits for the next question.
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


def encode(kind, value):
    if kind == 1:
        return socket.inet_aton(value)
    if kind == 33:
        priority, weight, port, target = value
        labels = b"".join(bytes([len(label)]) + label.encode() for label in target.split("."))
        return struct.pack(">HHH", priority, weight, port) + labels + b"\0"
    return socket.inet_pton(socket.AF_INET6, value)


class Real:
    """A server of the system's packages, ended by its own number."""

    def __init__(self, name, words, address, **options):
        self.name = name
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        began = time.monotonic()
        while not listens(*address):
            if self.child.poll() is not None or time.monotonic() - began > PATIENCE * 3:
                raise Failed(f"{name} does not start")
            time.sleep(0.02)

    def stop(self):
        if self.child.poll() is None:
            os.kill(self.child.pid, signal.SIGTERM)
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def program(*names):
    """The path of a server's program; PostgreSQL keeps its own out of the way."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for name in names:
        for folder in [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin", *folders]:
            if folder and os.access(Path(folder) / name, os.X_OK):
                return str(Path(folder) / name)
    raise Missing(names[0])


def redis(address, folder, *words):
    host, port = address
    words = ["--bind", host, "--port", str(port), "--save", "", "--appendonly", "no", "--daemonize", "no", *words]
    # A replica keeps what its master sent in a file.
    words = ["--dir", str(folder), "--dbfilename", f"redis-{host}.rdb", *words]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return Real("redis", [program("redis-server"), *words], address, **quiet)


def nginx(address, folder, config):
    """nginx with the given contents of its `server` block."""
    home = Path(folder) / f"nginx-{address[1]}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    temporary = "".join(
        f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = (
        f"daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;\n"
        f"events {{ }}\nhttp {{ access_log off; {temporary}\n"
        f"server {{ listen {address[0]}:{address[1]}; root {home}; {config} }} }}\n"
    )
    (home / "nginx.conf").write_text(text)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = Real("nginx", [program("nginx"), "-p", str(home), "-c", str(home / "nginx.conf")], address, **quiet)
    server.home = home
    return server


def postgres(address, folder):
    """A PostgreSQL of its own, run by an account without rights as it insists on."""
    home = Path(folder) / f"postgres-{address[1]}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.getuid() == 0:
        # Folders on the way must let it pass.
        os.chmod(folder, 0o755)
        quiet["user"] = "nobody"
    # What it takes longest to make serves for both programs.
    if not home.exists():
        home.mkdir()
        if os.getuid() == 0:
            shutil.chown(home, "nobody")
        made = [program("initdb"), "-D", str(home / "data"), "-A", "trust", "-U", "haproxy", "--no-sync"]
        if subprocess.run(made, **quiet, cwd="/").returncode:
            raise Missing("initdb")
    words = [program("postgres"), "-D", str(home / "data"), "-h", address[0], "-p", str(address[1]), "-F"]
    return Real("postgres", [*words, "-k", str(home)], address, cwd="/", **quiet)
