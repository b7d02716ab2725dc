#!/usr/bin/env python3
"""Queues: durable messages of 1 kB by 64 connections, each of which waits for each answer. Beside QUEUE stand the store's own streams and
beanstalkd with `-f 0` (an fsync for each write); all of them answer when a message is durable.

    bench/queue.py --ours PATH [publish] [cycle] [waiting]

`publish` publishes. `cycle` publishes, reserves and deletes. `waiting` fills a queue with --messages messages within maxmemory, and then compares
it with an empty one. The load is one Python thread, which shares the machine with the server: rates are those of both together, CPU is the server's
alone (/proc/PID/stat)."""
import argparse
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

BODY = b"x" * 1000
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def resp_end(data, at=0):
    """Where the reply that begins there ends; nothing if it is not whole."""
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    kind, end = data[at : at + 1], line + 2
    if kind == b"$":
        length = int(data[at + 1 : line])
        end += max(length + 2, 0) if length >= 0 else 0
        return end if end <= len(data) else None
    if kind == b"*":
        for _ in range(max(int(data[at + 1 : line]), 0)):
            end = resp_end(data, end)
            if end is None:
                return None
    return end


class Server:
    def __init__(self, words):
        self.folder = tempfile.mkdtemp(prefix="bench-queue-", dir=os.environ.get("BENCH_DIR"))
        self.port = free_port()
        words = [word.replace("PORT", str(self.port)).replace("FOLDER", self.folder) for word in words]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{words[0]} does not listen")

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, *words):
        with self.connect() as connection:
            connection.sendall(command(*words))
            data = b""
            while resp_end(data) is None:
                data += connection.recv(1 << 16)
            return data

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mb(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Queue:
    """Steps of a message: what is sent, and how many replies that has. A step may need the reply of the one before it."""

    name, is_whole = "QUEUE", staticmethod(resp_end)
    publish = [lambda _: command("QUEUE", "PUSH", "q", "BODY", BODY)]
    cycle = publish + [
        lambda _: command("QUEUE", "RESERVE", "q", "BLOCK", 0),
        lambda reply: command("QUEUE", "DELETE", "q", reply.split(b"receipt\r\n", 1)[1].split(b"\r\n")[1]),
    ]
    begin = []


class Stream:
    name, is_whole = "XADD", staticmethod(resp_end)
    publish = [lambda _: command("XADD", "s", "*", "f", BODY)]
    cycle = publish + [
        lambda _: command("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "BLOCK", 0, "STREAMS", "s", ">"),
        lambda reply: command("XACK", "s", "g", reply.split(b"\r\n")[7]),
    ]
    begin = [("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")]


def beanstalk_end(data, at=0):
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    if data.startswith(b"RESERVED", at):
        end = line + 2 + int(data[at:line].split()[2]) + 2
        return end if end <= len(data) else None
    return line + 2


class Beanstalk:
    name, is_whole = "beanstalkd", staticmethod(beanstalk_end)
    publish = [lambda _: b"put 1024 0 60 %d\r\n%s\r\n" % (len(BODY), BODY)]
    cycle = publish + [lambda _: b"reserve\r\n", lambda reply: b"delete %s\r\n" % reply.split()[1]]
    begin = []


def load(server, peer, steps, connections, seconds):
    """Messages, seconds and the server's CPU."""
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        connection = server.connect()
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, [0, b""])
        connection.sendall(steps[0](b""))
    count, cpu, begin = 0, server.cpu(), time.monotonic()
    end = begin + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(1):
            state = key.data
            state[1] += key.fileobj.recv(1 << 16)
            if peer.is_whole(state[1]) is None:
                continue
            reply, state[1] = state[1], b""
            if reply[:1] == b"-":
                raise SystemExit(f"{peer.name}: {reply}")
            state[0] = (state[0] + 1) % len(steps)
            count += state[0] == 0
            key.fileobj.sendall(steps[state[0]](reply))
    taken, cpu = time.monotonic() - begin, server.cpu() - cpu
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    return count, taken, cpu


def compare(arguments, case):
    store = [arguments.ours, "store", "--port", "PORT", "--dir", "FOLDER", "--appendfsync", "always"]
    servers = [(Queue, Server(store)), (Stream, Server(store))]
    if shutil.which("beanstalkd"):
        servers.append((Beanstalk, Server(["beanstalkd", "-l", "127.0.0.1", "-p", "PORT", "-b", "FOLDER", "-f", "0"])))
    figures = {peer.name: [] for peer, _ in servers}
    for peer, server in servers:
        for words in peer.begin:
            server.ask(*words)
    for _ in range(arguments.turns):
        for peer, server in servers:
            count, taken, cpu = load(server, peer, getattr(peer, case), arguments.connections, arguments.seconds)
            figures[peer.name].append((count / taken, cpu / max(count, 1) * 1e6))
    print(f"{case}: {arguments.connections} connections, 1 kB, durable; median of {arguments.turns} turns of {arguments.seconds} s")
    for name, turns in figures.items():
        rates, costs = zip(*turns)
        print(f"  {name:11} {statistics.median(rates):9.0f} messages/s  {statistics.median(costs):7.1f} CPU us/message")
    for _, server in servers:
        server.end()


def waiting(arguments):
    words = [arguments.ours, "store", "--port", "PORT", "--dir", "FOLDER", "--maxmemory", arguments.maxmemory]
    figures = []
    for messages in (0, arguments.messages):
        server = Server(words)
        batch = command("QUEUE", "PUSH", "q", "BODY", *[BODY[: arguments.length]] * 500)
        begin = time.monotonic()
        with server.connect() as connection:
            for _ in range(messages // 500):
                connection.sendall(batch)
                data = b""
                while resp_end(data) is None:
                    data += connection.recv(1 << 20)
                if data[:1] == b"-":
                    raise SystemExit(data)
        filled = time.monotonic() - begin
        rates = []
        for case in ("publish", "cycle"):
            count, taken, cpu = load(server, Queue, getattr(Queue, case), arguments.connections, arguments.seconds)
            rates.append((count / taken, cpu / count * 1e6))
        used = server.ask("INFO", "memory").split(b"used_memory:")[1].split(b"\r\n")[0]
        figures.append((messages, filled, rates, int(used) / 2**20, server.memory_mb()))
        server.end()
    for messages, filled, rates, used, rss in figures:
        (published, publish_cost), (cycled, cycle_cost) = rates
        print(
            f"  {messages} waiting ({filled:.0f} s to publish): {published:.0f}/s published, {cycled:.0f}/s through, "
            f"{publish_cost:.1f} and {cycle_cost:.1f} CPU us; used_memory {used:.0f} MB, RSS {rss:.0f} MB"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="target/release/tidegate")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--maxmemory", default="64mb")
    parser.add_argument("cases", nargs="*", default=["publish", "cycle"])
    arguments = parser.parse_args()
    for case in arguments.cases:
        waiting(arguments) if case == "waiting" else compare(arguments, case)


if __name__ == "__main__":
    main()
