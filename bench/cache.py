#!/usr/bin/env python3
"""The cache beside varnishd, and nginx' proxy_cache where it can do the same: what issue 20 asks of it, a case each.

    bench/cache.py --ours target/packaged/tidegate [case...]

    hit        a small object from the cache: CPU per request, requests a second, p99; beside nginx too, as are `ten` and `large`
    log        the same with Varnish's log in shared memory, beside Tidegate without it and varnishd, which always has it
    program    the same behind a program of VCL of sixty lines (bench/hit.vcl)
    ten        objects of 10 kB
    large      objects of 1 MB
    miss       objects that are not there and not stored (nginx is the origin): the cache beside the plain proxy, and beside Varnish
    cold       --clients (10,000) at once for an object that is not there: how often the origin is asked
    overhead   --objects (1,000,000) of 1 kB: bytes of memory for each beyond its body
    start      a disk tier with so many objects, killed with -9: seconds until it answers from it again (without Varnish)
    flood      --gigabytes (5) of distinct misses through malloc,256m: how far resident memory grows, the log's apart
    slow       `ab -c 1` and `-c 50` without keep-alive before a page that takes 100 ms, without a cache and with it

The first six take a quiet machine and two cores: the servers run on core 0 and wrk on core 1, in turns, and ratios are of medians. wrk
fills its core before either server does, so the CPU per request says more than the throughput. `cold`, `overhead`, `start` and
`flood` count and measure memory: any machine will do. Peers that are not installed are left out. An answer that is not 200 ends a case.
"""
import argparse
import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
MEGABYTE = 1 << 20


class Origin:
    """Answers GET /BYTES/anything with so many bytes: at once, or after a while."""

    def __init__(self, seconds=0.0, life="max-age=3600"):
        self.asked, self.seconds, self.life = 0, seconds, life
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self.run, args=(ready,), daemon=True).start()
        ready.wait()

    def run(self, ready):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.converse, "127.0.0.1", 0, backlog=4096))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    async def converse(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked += 1
                if self.seconds:
                    await asyncio.sleep(self.seconds)
                size = re.match(rb"\S+ /(\d+)", head)
                body = b"x" * (int(size[1]) if size else 22)
                start = f"HTTP/1.1 200 OK\r\nCache-Control: {self.life}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(start.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class NginxOrigin:
    """Answers everything with 22 bytes that nobody may store, as fast as nginx does, on wrk's core."""

    def __init__(self, folder):
        self.port = free_port()
        path = Path(folder, f"origin{self.port}.conf")
        path.write_text(
            f"daemon off; worker_processes 1; pid {path}.pid; error_log /dev/null;\n"
            "events { worker_connections 4096; }\n"
            "http { access_log off; keepalive_requests 1000000000;\n"
            f" server {{ listen 127.0.0.1:{self.port}; location / {{ add_header Cache-Control no-store; return 200 xxxxxxxxxxxxxxxxxxxxxx; }} }} }}\n"
        )
        self.process = subprocess.Popen(["taskset", "-c", "1", "nginx", "-c", str(path), "-e", "/dev/null"], **QUIET)
        wait_for(self.port, self.process, "nginx")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def descendants(pid):
    found = [pid]
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += descendants(int(entry))
    return found


def cpu_seconds(pid):
    ticks = 0
    for process in descendants(pid):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    """Memory of a process and those that it started, shared memory such as the log's apart."""
    total = 0
    for process in descendants(pid):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        total += sum(int(size) for size in re.findall(r"^Rss(?:Anon|File):\s+(\d+) kB", status, re.M)) * 1024
    return total


class Server:
    """One of both, in front of an origin. `options` has the words of `vcl` for ours and of varnishd for theirs."""

    def __init__(self, name, given, folder, origin, program="builtin", storage="malloc,64m", cached=True, pinned=True, clients=4_000, log=False):
        self.name, self.port = name, free_port()
        address = f"127.0.0.1:{origin.port}"
        if name == "nginx":
            words = ["nginx", "-c", str(self.configuration_of_nginx(folder, address, clients)), "-e", "/dev/null"]
        elif name == "varnish":
            where = ["-f", str(self.program_of_varnish(folder, program, origin))] if program != "builtin" else ["-b", address]
            words = ["varnishd", "-F", "-j", "none", "-n", f"{folder}/v{self.port}", "-a", f"127.0.0.1:{self.port}", *where, "-s", storage]
        else:
            config = Path(folder, f"{self.port}.cfg")
            cache = f" vcl {program} storage {storage}\n" if cached else ""
            published = f" varnish-workdir {folder}/t{self.port}\n" if log else ""
            config.write_text(
                f"global\n nbthread 1\n maxconn {clients}\n{published}defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 5s\n"
                f"frontend site\n bind 127.0.0.1:{self.port}\n{cache} default_backend app\n"
                f"backend app\n server s1 {address}\nbackend default\n server s1 {address}\n"
            )
            words = [given.ours, "edge", "-f", str(config)]
        self.words = ["taskset", "-c", "0", *words] if pinned else words
        self.start()

    @staticmethod
    def program_of_varnish(folder, program, origin):
        path = Path(folder, "program.vcl")
        backend = f'backend default {{ .host = "127.0.0.1"; .port = "{origin.port}"; }}\n'
        version, _, rest = Path(program).read_text().partition(";")
        # Ours takes its backends from the configuration.
        rest = re.sub(r"backend default[^}]*\}", "", rest)
        path.write_text(f"{version};\n{backend}{rest}")
        return path

    def configuration_of_nginx(self, folder, address, clients):
        path = Path(folder, f"nginx{self.port}.conf")
        path.write_text(
            # Its workers write into this folder, which is for the user of this script alone.
            f"daemon off; user root; worker_processes 1; pid {path}.pid; error_log /dev/null;\n"
            f"events {{ worker_connections {2 * clients}; }}\n"
            "http { access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on;\n"
            f" proxy_cache_path {folder}/n{self.port} keys_zone=c:16m max_size=1g;\n"
            f" upstream app {{ server {address}; keepalive 64; }}\n"
            f" server {{ listen 127.0.0.1:{self.port}; location / {{\n"
            '  proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache c; } } }\n'
        )
        return path

    def start(self):
        self.began = time.monotonic()
        self.process = subprocess.Popen(self.words, **QUIET)
        wait_for(self.port, self.process, " ".join(self.words))

    @property
    def pid(self):
        return self.process.pid

    def get(self, path):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def stop(self, how=signal.SIGTERM):
        for process in reversed(descendants(self.pid)):
            try:
                os.kill(process, how)
            except ProcessLookupError:
                pass
        self.process.wait()


def wait_for(port, process, what):
    began = time.monotonic()
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() - began > 120:
                raise SystemExit(f"nobody listens: {what}")
            time.sleep(0.01)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def names(nginx=False):
    peers = [("varnish", "varnishd"), ("nginx", "nginx")][: 2 if nginx else 1]
    return ["tidegate", *(name for name, program in peers if shutil.which(program))]


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def load(port, path, given, script=()):
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{given.connections}", f"-d{given.seconds}", "--latency", *script]
    said = subprocess.run([*command, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    if wrong := re.search(r"Non-2xx or 3xx responses: (\d+)", said):
        raise SystemExit(f"{wrong[1]} answers were errors: {said}")
    return int(re.search(r"(\d+) requests in", said)[1]), milliseconds(re.search(r"^\s+99%\s+(\S+)", said, re.M)[1])


def in_turns(servers, path, given, script=()):
    """Loads servers in turns; prints medians and the ratios of the first one to the second one."""
    seen = {server.name: [] for server in servers}
    for turn in range(given.turns + 1):
        for server in servers:
            before = cpu_seconds(server.pid)
            requests, p99 = load(server.port, path, given, script)
            spent = cpu_seconds(server.pid) - before
            # The first turn fetches the object and warms both up.
            if turn:
                seen[server.name].append((spent * 1e6 / requests, requests / given.seconds, p99))
    medians = {name: [statistics.median(column) for column in zip(*turns)] for name, turns in seen.items()}
    print(f"{'':10} {'CPU us/req':>10} {'req/s':>10} {'p99 ms':>8}")
    for name, (cpu, rate, p99) in medians.items():
        print(f"{name:10} {cpu:10.2f} {rate:10.0f} {p99:8.2f}")
    (_, ours), *others = medians.items()
    for name, theirs in others:
        ratios = [our / their for our, their in zip(ours, theirs)]
        print(f"to {name:7} {ratios[0]:10.2f} {ratios[1]:10.2f} {ratios[2]:8.2f}")


def run_in_turns(servers, path, given):
    try:
        in_turns(servers, path, given)
    finally:
        for server in servers:
            server.stop()


def hits(given, folder, path="/", program="builtin", nginx=True):
    origin = Origin()
    run_in_turns([Server(name, given, folder, origin, program) for name in names(nginx)], path, given)


def log(given, folder):
    origin = Origin()
    ours = [Server("tidegate", given, folder, origin, log=log) for log in (True, False)]
    ours[0].name = "published"
    run_in_turns(ours + [Server(name, given, folder, origin) for name in names()[1:]], "/", given)


def miss(given, folder):
    origin = NginxOrigin(folder)
    servers = [Server(name, given, folder, origin, cached=name != "plain") for name in ("cache", "plain", *names()[1:])]
    try:
        run_in_turns(servers, "/", given)
    finally:
        origin.stop()


async def ask_at_once(port, clients):
    async def one():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /1000/cold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"x" * 1000)

    return sum(await asyncio.gather(*(one() for _ in range(clients))))


def cold(given, folder):
    # Two for each connection of the edge, as it counts them.
    wanted = 2 * given.clients + 1_000
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except ValueError:
            raise SystemExit(f"cold takes {wanted} descriptors: ulimit -Hn {wanted}, or fewer --clients")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    for name in names():
        origin = Origin(seconds=given.clients / 1_000)
        server = Server(name, given, folder, origin, pinned=False, clients=given.clients + 100)
        began = time.monotonic()
        good = asyncio.run(ask_at_once(server.port, given.clients))
        print(f"{name:10} {given.clients} clients at once: {good} served in {time.monotonic() - began:.1f} s, the origin was asked {origin.asked} times")
        server.stop()


async def fill(port, paths, connections=50):
    async def one(mine):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path in mine:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]))
        writer.close()

    await asyncio.gather(*(one(paths[number::connections]) for number in range(connections)))


def overhead(given, folder):
    paths = [f"/1000/{number}" for number in range(given.objects)]
    for name in names():
        origin = Origin()
        server = Server(name, given, folder, origin, storage="malloc,8g", pinned=False)
        asyncio.run(fill(server.port, [f"/1000/warm{number}" for number in range(1_000)]))
        before = resident_bytes(server.pid)
        asyncio.run(fill(server.port, paths))
        grown = resident_bytes(server.pid) - before
        print(f"{name:10} {given.objects} objects of 1000 bytes: {grown / given.objects - 1_000:.0f} bytes each beyond the body")
        server.stop()


def start(given, folder):
    origin = Origin()
    size = max(64, given.objects * 4_096 // MEGABYTE * 2)
    program = Path(folder, "disk.vcl")
    program.write_text("vcl 4.1;\nsub vcl_backend_response { set beresp.storage = storage.disk; }\n")
    storage = f"memory=malloc,64m storage disk=file,{folder}/objects,{size}m"
    server = Server("tidegate", given, folder, origin, program=program, storage=storage, pinned=False)
    asyncio.run(fill(server.port, [f"/1000/{number}" for number in range(given.objects)]))
    server.stop(signal.SIGKILL)
    server.start()
    listens = time.monotonic() - server.began
    asked = origin.asked
    path = f"/1000/{given.objects // 2}"
    answer = server.get(path)
    answers = time.monotonic() - server.began
    from_disk = origin.asked == asked and b" 200 OK" in answer
    print(f"tidegate   {given.objects} objects on disk, killed: listens after {listens:.2f} s, answers after {answers:.2f} s, from the disk: {from_disk}")
    server.stop()


def flood(given, folder):
    size = 100_000
    paths = [f"/{size}/{number}" for number in range(given.gigabytes * 10**9 // size)]
    for name in names():
        origin = Origin()
        server = Server(name, given, folder, origin, storage="malloc,256m", pinned=False)
        asyncio.run(fill(server.port, ["/100/warm"]))
        before, peak, over = resident_bytes(server.pid), 0, threading.Event()

        def watch():
            nonlocal peak
            while not over.wait(0.1):
                peak = max(peak, resident_bytes(server.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        asyncio.run(fill(server.port, paths, connections=64))
        over.set()
        watcher.join()
        grown = (peak - before) / MEGABYTE
        print(f"{name:10} {given.gigabytes} GB of misses through malloc,256m: grows by {grown:.0f} MB at most, {grown / 256:.2f} of it")
        server.stop()


def slow(given, folder):
    def rate(port, clients):
        command = ["ab", "-q", "-n", str(50 * clients), "-c", str(clients), f"http://127.0.0.1:{port}/1000/page"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return float(re.search(r"Requests per second:\s+([\d.]+)", said)[1])

    for cached, words in ((False, "without a cache"), (True, "with it")):
        origin = Origin(seconds=0.1)
        server = Server("tidegate", given, folder, origin, cached=cached, pinned=False)
        rates = [rate(server.port, clients) for clients in (1, 50)]
        print(f"tidegate   a page of 100 ms, {words}: {rates[0]:.1f} requests/s by ab -c 1, {rates[1]:.1f} by ab -c 50")
        server.stop()


CASES = {
    "hit": hits,
    "log": log,
    "program": lambda given, folder: hits(given, folder, program=HERE / "hit.vcl", nginx=False),
    "ten": lambda given, folder: hits(given, folder, "/10000/"),
    "large": lambda given, folder: hits(given, folder, "/1000000/"),
    "miss": miss,
    "cold": cold,
    "overhead": overhead,
    "start": start,
    "flood": flood,
    "slow": slow,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=int, default=5)
    parser.add_argument("cases", nargs="*", metavar="case", default=["hit"], help=", ".join(CASES))
    given = parser.parse_args()
    given.ours = str(Path(given.ours).resolve())
    for case in given.cases:
        print(f"== {case}", flush=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            CASES[case](given, folder)


main()
