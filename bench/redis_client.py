"""What benchmarks of servers that speak Redis' protocol share: a free port, and a connection that speaks as much of it as they need."""

import socket


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def encoded(words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in parts)


class Client:
    """Replies are numbers, bytes, lists of these, or None; an error is raised, RuntimeError with its text."""

    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def send(self, *words):
        self.send_all([words])

    def send_all(self, commands):
        self.socket.sendall(b"".join(map(encoded, commands)))

    def reply(self):
        line = self.stream.readline()
        if not line:
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind in b"$*" and int(rest) < 0:
            return None
        if kind == b"$":
            return self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def ask(self, *words):
        self.send(*words)
        return self.reply()

    def info(self, section="replication"):
        lines = self.ask("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self):
        self.stream.close()
        self.socket.close()
