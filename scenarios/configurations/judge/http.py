"""HTTP/1 for clients and servers of a play, byte by byte."""

import re
import socket

from .program import PATIENCE


class Message:
    """A request or a response as it came."""

    def __init__(self, head, body, raw, whole=True):
        self.head, self.body, self.raw, self.whole = head, body, raw, whole

    @property
    def start(self):
        return self.head.split("\r\n", 1)[0]

    @property
    def status(self):
        return int(self.start.split(" ")[1])

    @property
    def method(self):
        return self.start.split(" ")[0]

    @property
    def target(self):
        return self.start.split(" ")[1]

    @property
    def text(self):
        return self.body.decode(errors="replace")

    def fields(self, name):
        return [
            value.strip()
            for key, _, value in (line.partition(":") for line in self.head.split("\r\n")[1:])
            if key.lower() == name.lower()
        ]

    def field(self, name):
        return next(iter(self.fields(name)), None)


class Wire:
    """A connection; what is read too much waits in its buffer."""

    def __init__(self, stream):
        self.stream, self.buffer, self.ended = stream, b"", ""
        stream.settimeout(PATIENCE)

    def send(self, data):
        """Sends what the other end takes; that it has closed is for who reads to find."""
        try:
            self.stream.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
        except OSError:
            pass

    def fill(self):
        """Reads once; false at the end, whose kind `ended` then says."""
        try:
            part = self.stream.recv(262144)
        except TimeoutError:
            self.ended = "silence"
            return False
        except OSError:
            self.ended = "reset"
            return False
        if not part:
            self.ended = self.ended or "end"
        self.buffer += part
        return bool(part)

    def take(self, count):
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def through(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                return None
        return self.take(self.buffer.index(mark) + len(mark))

    def exactly(self, count):
        while len(self.buffer) < count and self.fill():
            pass
        return self.take(count)

    def rest(self, wait=PATIENCE):
        """All until the end, or until nothing more comes."""
        self.stream.settimeout(wait)
        while self.fill():
            pass
        self.stream.settimeout(PATIENCE)
        return self.take(len(self.buffer))

    def message(self, to_method="", is_request=False):
        """The next message; nothing at the end of the stream."""
        head = self.through(b"\r\n\r\n")
        if head is None:
            return None
        message = Message(head.decode("latin-1"), b"", head)
        bodyless = to_method == "HEAD" or not is_request and (message.status < 200 or message.status in (204, 304))
        if bodyless:
            return message
        length = message.field("content-length")
        if "chunked" in (message.field("transfer-encoding") or "").lower():
            self._chunks(message)
        elif length is not None:
            message.body = self.exactly(int(length))
            message.whole = len(message.body) == int(length)
        elif not is_request and not (to_method == "CONNECT" and message.status == 200):
            message.body = self.rest()
        return message

    def _chunks(self, message):
        while (line := self.through(b"\r\n")) is not None:
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while (trailer := self.through(b"\r\n")) not in (b"\r\n", None):
                    message.head += "trailer " + trailer.decode("latin-1")
                return
            message.body += self.exactly(size)
            self.exactly(2)
        message.whole = False

    def close(self):
        self.stream.close()


def connect(address, source=None):
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if source:
        stream.bind((source, 0))
    stream.settimeout(PATIENCE)
    try:
        stream.connect(address)
    except ConnectionResetError:
        # It was accepted and refused before this end looked.
        pass
    return Wire(stream)


def request(path, method="GET", host="www.example.com", headers=(), body=None, version="1.1"):
    """The bytes of a request."""
    if body is not None and isinstance(body, str):
        body = body.encode()
    lines = [f"{method} {path} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def response(status, headers=(), body=b"", reason=None, length=True):
    """The bytes of a response."""
    if isinstance(body, str):
        body = body.encode()
    reason = reason or {200: "OK", 404: "Not Found", 500: "Internal Server Error"}.get(status, "Status")
    lines = [f"HTTP/1.1 {status} {reason}"] + [f"{name}: {value}" for name, value in headers]
    named = {name.lower() for name, _ in headers}
    if length and not named & {"content-length", "transfer-encoding"} and status not in (101, 204, 304):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def is_check(message, paths):
    return message.method == "OPTIONS" and message.target == "*" or bool(
        [path for path in paths if re.fullmatch(path, message.target)]
    )
