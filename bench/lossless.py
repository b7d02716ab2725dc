"""The case `lossless`: is anything lost while the configuration and the program are replaced under load?

A client that counts every error keeps asking through the edge while a master reloads (by SIGUSR2 and by `tidegate
reload`) and is upgraded (by `tidegate upgrade` and by SIGUSR2 after its file was replaced):

- requests over kept connections and over new ones, each answer checked byte for byte (files of an nginx, and bodies that
  an origin of our own sends back);
- bodies that are read, and sent, so slowly that they live through several upgrades;
- WebSockets: a real handshake, masked frames, each message checked when it comes back; some live through everything,
  some are opened on the way.

Nothing is forgiven: a kept connection that is closed where the client has just asked counts as an error too, although HTTP
would let it ask again.

Run as a program it is the origin: `lossless.py PORT`.
"""

import asyncio
import base64
import collections
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PATIENCE = 20
SIZES = {"empty": 0, "small": 13, "page": 3_000, "body": 150_000}
LONG_SIZE, LONG_PIECE = 6_000_000, 60_000


def noise(length, seed):
    return random.Random(seed).randbytes(length)


# Frames of WebSockets, as far as both ends here need them.


def frame(opcode, payload, mask=None):
    head = bytes([0x80 | opcode])
    flag = 0x80 if mask else 0
    if len(payload) < 126:
        head += bytes([flag | len(payload)])
    elif len(payload) < 65_536:
        head += bytes([flag | 126]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([flag | 127]) + len(payload).to_bytes(8, "big")
    return head + (mask + masked(payload, mask) if mask else payload)


def masked(payload, mask):
    if not payload:
        return payload
    keys = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(keys, "big")).to_bytes(len(payload), "big")


async def read_frame(reader):
    first, second = await reader.readexactly(2)
    length = second & 0x7F
    if length == 126:
        length = int.from_bytes(await reader.readexactly(2), "big")
    elif length == 127:
        length = int.from_bytes(await reader.readexactly(8), "big")
    mask = await reader.readexactly(4) if second & 0x80 else None
    payload = await reader.readexactly(length)
    return first & 0x0F, masked(payload, mask) if mask else payload


# The origin.


async def read_head(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    start, *lines = head[:-4].split(b"\r\n")
    return start, {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}


async def origin_connection(reader, writer):
    try:
        while True:
            _, fields = await read_head(reader)
            if fields.get(b"upgrade", b"").lower() == b"websocket":
                accept = base64.b64encode(hashlib.sha1(fields[b"sec-websocket-key"] + GUID).digest())
                writer.write(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
                )
                while True:
                    opcode, payload = await read_frame(reader)
                    writer.write(frame(opcode, payload))
                    await writer.drain()
                    if opcode == 8:
                        return
            length = int(fields.get(b"content-length", b"0"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            while length:
                piece = await reader.read(min(65_536, length))
                if not piece:
                    return
                length -= len(piece)
                writer.write(piece)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def origin(port):
    async with await asyncio.start_server(origin_connection, "127.0.0.1", port, backlog=1024) as server:
        await server.serve_forever()


# The client.


class Wrong(Exception):
    """An answer that is not what was asked for."""


class Client:
    def __init__(self, port, files):
        self.port = port
        self.files = files
        self.done = collections.Counter()
        self.errors = collections.Counter()
        self.stop = False
        self.sockets_alive = 0
        self.newest = 0

    def lost(self, kind, what, error):
        if isinstance(error, asyncio.IncompleteReadError):
            what_came = "closed before the answer" if not error.partial else "cut"
        elif isinstance(error, Wrong):
            what_came = str(error)
        else:
            what_came = type(error).__name__
        self.errors[f"{kind}: {what}: {what_came}"] += 1

    async def connect(self):
        return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), PATIENCE)

    async def answer(self, reader, expected):
        start, fields = await read_head(reader)
        if start != b"HTTP/1.1 200 OK":
            raise Wrong(start.decode())
        length = int(fields[b"content-length"])
        body = await reader.readexactly(length)
        if body != expected:
            raise Wrong(f"another body, of {length} bytes instead of {len(expected)}")
        return fields

    async def requests(self, keeps, dice):
        """Requests without end, on one connection or on one each."""
        kind = "kept connection" if keeps else "new connection"
        while not self.stop:
            what, writer = "connect", None
            try:
                asked_before = self.newest
                reader, writer = await self.connect()
                for number in range(1_000 if keeps else 1):
                    what = "request" if number else "first request"
                    close = b"" if keeps else b"Connection: close\r\n"
                    if dice.random() < 0.2:
                        expected = noise(dice.randrange(40_000), dice.random())
                        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n" % len(expected)
                        writer.write(head + close + b"\r\n" + expected)
                    else:
                        name = dice.choice(list(SIZES))
                        expected = self.files[name]
                        writer.write(b"GET /files/" + name.encode() + b" HTTP/1.1\r\nHost: a\r\n" + close + b"\r\n")
                    fields = await asyncio.wait_for(self.answer(reader, expected), PATIENCE)
                    if not number and int(fields.get(b"x-round", b"-1")) < asked_before:
                        raise Wrong("a new connection was served by a former configuration")
                    self.done[kind] += 1
                    await asyncio.sleep(dice.random() * 0.02)
                    if self.stop or fields.get(b"connection", b"").lower() == b"close":
                        break
                if not keeps and await asyncio.wait_for(reader.read(1), PATIENCE):
                    raise Wrong("bytes after the answer")
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, Wrong) as error:
                self.lost(kind, what, error)
            finally:
                if writer:
                    writer.close()

    async def websocket(self, dice):
        """A WebSocket that lives to the end, a message and its echo at a time."""
        what, writer = "connect", None
        try:
            reader, writer = await self.connect()
            what = "handshake"
            key = base64.b64encode(dice.randbytes(16))
            writer.write(
                b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
            )
            start, fields = await asyncio.wait_for(read_head(reader), PATIENCE)
            if not start.startswith(b"HTTP/1.1 101 "):
                raise Wrong(start.decode())
            if fields[b"sec-websocket-accept"] != base64.b64encode(hashlib.sha1(key + GUID).digest()):
                raise Wrong("another key")
            self.sockets_alive += 1
            what = "message"
            while not self.stop:
                text = noise(dice.choice((0, 5, 200, 5_000, 70_000)), dice.random())
                writer.write(frame(2, text, dice.randbytes(4)))
                if await asyncio.wait_for(read_frame(reader), PATIENCE) != (2, text):
                    raise Wrong("another message came back")
                self.done["WebSocket message"] += 1
                await asyncio.sleep(dice.random() * 0.4)
            what = "close"
            writer.write(frame(8, b"\x03\xe8", dice.randbytes(4)))
            if await asyncio.wait_for(read_frame(reader), PATIENCE) != (8, b"\x03\xe8"):
                raise Wrong("no close frame")
            if await asyncio.wait_for(reader.read(1), PATIENCE):
                raise Wrong("bytes after the close frame")
            self.done["WebSocket"] += 1
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, Wrong) as error:
            self.lost("WebSocket", what, error)
        finally:
            if writer:
                writer.close()

    async def slow_download(self):
        """Bodies that are read a piece at a time."""
        expected = self.files["long"]
        while not self.stop:
            writer = None
            try:
                reader, writer = await self.connect()
                writer.write(b"GET /files/long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                await asyncio.wait_for(read_head(reader), PATIENCE)
                for start in range(0, LONG_SIZE, LONG_PIECE):
                    piece = await asyncio.wait_for(reader.readexactly(LONG_PIECE), PATIENCE)
                    if piece != expected[start : start + LONG_PIECE]:
                        raise Wrong("another piece")
                    await asyncio.sleep(0 if self.stop else 0.05)
                self.done["slow download"] += 1
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, Wrong) as error:
                self.lost("slow download", "body", error)
            finally:
                if writer:
                    writer.close()

    async def slow_upload(self):
        """Bodies that are sent a piece at a time and come back the same way."""
        expected = self.files["long"]
        while not self.stop:
            writer = None
            try:
                reader, writer = await self.connect()
                writer.write(b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % LONG_SIZE)
                for start in range(0, LONG_SIZE, LONG_PIECE):
                    piece = expected[start : start + LONG_PIECE]
                    writer.write(piece)
                    if not start:
                        await asyncio.wait_for(read_head(reader), PATIENCE)
                    if await asyncio.wait_for(reader.readexactly(LONG_PIECE), PATIENCE) != piece:
                        raise Wrong("another piece")
                    await asyncio.sleep(0 if self.stop else 0.05)
                self.done["slow upload"] += 1
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, Wrong) as error:
                self.lost("slow upload", "body", error)
            finally:
                if writer:
                    writer.close()


# The master.


def ask(pid, line):
    """A command to a master by its process number."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(f"\0tidegate-{pid}")
        one.sendall(line.encode() + b"\n")
        return b"".join(iter(lambda: one.recv(65_536), b"")).decode()


def status(pid):
    return json.loads(ask(pid, "status"))


async def ask_aside(pid, line):
    return await asyncio.get_running_loop().run_in_executor(None, ask, pid, line)


async def by_signal(pid):
    """SIGUSR2, and the wait until the master has done what it stands for."""
    before = json.loads(await ask_aside(pid, "status"))
    os.kill(pid, signal.SIGUSR2)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        now = json.loads(await ask_aside(pid, "status"))
        if now["failed_reloads"] > before["failed_reloads"]:
            raise RuntimeError("the master refused")
        if now["reloads"] > before["reloads"]:
            return
        await asyncio.sleep(0.01)
    raise RuntimeError("the master did not finish in a minute")


async def by_command(program, pid, command):
    process = await asyncio.create_subprocess_exec(
        program, command, "--pid", str(pid), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"tidegate {command}: {out.decode()}")


def config(port, nginx_port, echo_port, number):
    return f"""global
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout tunnel 1h
frontend web
    bind 127.0.0.1:{port}
    http-response set-header x-round {number}
    use_backend echo if {{ path /echo /ws }}
    default_backend files
backend files
    balance roundrobin
    server s1 127.0.0.1:{nginx_port}
    server s2 127.0.0.1:{nginx_port + 1}
backend echo
    server s1 127.0.0.1:{echo_port}
"""


async def drive(options, folder, program, pid, ports, client):
    dice = random.Random(1)
    tasks = [client.requests(number % 2 == 0, random.Random(number)) for number in range(options.clients)]
    tasks += [client.websocket(random.Random(-number)) for number in range(options.websockets)]
    tasks += [client.slow_download() for _ in range(3)] + [client.slow_upload() for _ in range(3)]
    tasks = [asyncio.create_task(task) for task in tasks]
    opened = options.websockets
    await asyncio.sleep(1)
    steps = ["reload"] * options.lossless_reloads + ["upgrade"] * options.lossless_upgrades
    dice.shuffle(steps)
    began, took = time.monotonic(), collections.defaultdict(list)
    try:
        for number, step in enumerate(steps, 1):
            (folder / "lossless.cfg").write_text(config(*ports, number))
            if step == "upgrade":
                shutil.copy(options.ours, folder / "next")
                os.rename(folder / "next", program)
            since = time.monotonic()
            if number % 2:
                await by_signal(pid)
            else:
                await by_command(program, pid, step)
            took[step].append(time.monotonic() - since)
            client.newest = number
            if number % 4 == 0:
                tasks.append(asyncio.create_task(client.websocket(random.Random(1_000 + number))))
                opened += 1
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - began
        alive = len(status(pid)["workers"])
    finally:
        client.stop = True
        await asyncio.wait(tasks)
    return seconds, took, alive, opened


def run(options, folder, nginx_port, port):
    """Failed requests and broken WebSockets over many reloads and upgrades under load."""
    folder = Path(folder)
    reloads, upgrades = options.lossless_reloads, options.lossless_upgrades
    print(f"\nlossless: {reloads} reloads and {upgrades} upgrades under load")
    files = {name: noise(size, name) for name, size in SIZES.items()} | {"long": noise(LONG_SIZE, "long")}
    for name, content in files.items():
        (folder / "files" / name).write_bytes(content)
    echo_port = port + 1
    program = folder / "tidegate"
    shutil.copy(options.ours, program)
    ports = (port, nginx_port, echo_port)
    path = folder / "lossless.cfg"
    path.write_text(config(*ports, 0))
    echo = subprocess.Popen([sys.executable, __file__, str(echo_port)])
    log = open(folder / "lossless.log", "wb")
    edge = subprocess.Popen([program, "edge", "-f", path], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        for one in (echo_port, port):
            end = time.monotonic() + PATIENCE
            while socket.socket().connect_ex(("127.0.0.1", one)):
                if time.monotonic() > end or edge.poll() is not None:
                    sys.exit(f"nothing listens on port {one}: {(folder / 'lossless.log').read_text()[-2000:]}")
                time.sleep(0.05)
        client = Client(port, files)
        seconds, took, alive, opened = asyncio.run(drive(options, folder, program, edge.pid, ports, client))
        last = status(edge.pid)
        for kind, times in took.items():
            times.sort()
            print(f"  {len(times)} {kind}s, each {times[len(times) // 2] * 1e3:.0f} ms (median), {times[-1] * 1e3:.0f} ms at most")
        print(f"  {seconds:.0f} s under load: " + ", ".join(f"{count} {kind}s" for kind, count in client.done.items()))
        print(f"  {opened} WebSockets opened, {client.done['WebSocket']} lived to their end, over {alive} worker processes")
        print(f"  worker deaths: {last['worker_deaths']}, refused reloads: {last['failed_reloads']}")
        print(f"  errors: {sum(client.errors.values())}")
        for kind, count in client.errors.most_common():
            print(f"    {count} x {kind}")
        # Workers that drained end when their last tunnel has.
        end = time.monotonic() + PATIENCE
        while len(left := status(edge.pid)["workers"]) > 1 and time.monotonic() < end:
            time.sleep(0.1)
        print(f"  worker processes after the last connection: {len(left)}")
        return {
            "errors": client.errors,
            "done": client.done,
            "worker_deaths": last["worker_deaths"],
            "workers_left": len(left),
            "seconds": seconds,
        }
    finally:
        edge.terminate()
        try:
            edge.wait(10)
        except subprocess.TimeoutExpired:
            edge.kill()
            edge.wait()
        echo.terminate()
        echo.wait()
        log.close()
        if keep := os.environ.get("LOSSLESS_LOG"):
            shutil.copy(folder / "lossless.log", keep)


if __name__ == "__main__":
    asyncio.run(origin(int(sys.argv[1])))
