#!/usr/bin/env python3
"""Benchmarks of Tidegate's edge beside its peers: ratios from one run on one machine.

Each case starts one server at a time, pinned to one core, with the load and the origin on the other, takes turns between
the peers, and prints medians and ratios. CPU time is that of all of the server's processes and threads, from /proc.
Run `bench/run.py --list` for the cases.
"""

import argparse
import fcntl
import gzip
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import lossless as lossless_case

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
SERVER_CPU, LOAD_CPU = "0", "1"
CONNECTIONS_MAX = 30_000
ORIGIN_PORT = 28080
# Of origins that are there while they are asked.
LEAN_ORIGIN_PORT = 28090
PORTS = {"tidegate": 28000, "haproxy": 28001, "nginx": 28002, "floor": 28003}


def tree(pid):
    """A process and everything below it."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                todo += [int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
        except OSError:
            pass
    return found


def cpu_seconds(pid):
    total = 0
    for one in tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / TICK


def memory_kib(pid, field, below=True):
    total = 0
    for one in tree(pid) if below else [pid]:
        try:
            text = Path(f"/proc/{one}/status").read_text()
            total += int(re.search(rf"{field}:\s+(\d+)", text).group(1))
        except (OSError, AttributeError):
            pass
    return total


class Server:
    """A server under test, or the origin."""

    def __init__(self, command, cpu, port, folder, end=signal.SIGTERM):
        self.end = end
        self.log = open(Path(folder) / f"log-{port}", "ab")
        self.process = subprocess.Popen(
            ["taskset", "-c", cpu, *command], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL
        )
        self.pid = self.process.pid
        wait_for(port, self.process, self.log.name)

    def stop(self):
        self.process.send_signal(self.end)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            for pid in tree(self.pid):
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


def wait_for(port, process, log):
    import socket

    for _ in range(200):
        if process.poll() is not None:
            sys.exit(f"a server ended at once: {Path(log).read_text()[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}: {Path(log).read_text()[-2000:]}")


def origins(case):
    first = LEAN_ORIGIN_PORT if case.get("lean") else ORIGIN_PORT
    return [first, first + 1]


def haproxy_cfg(port, case):
    text = ["global", "    nbthread " + str(case.get("threads", 1)), f"    maxconn {CONNECTIONS_MAX}"]
    if case.get("log"):
        text.append("    log 127.0.0.1:28514 local0")
    text += [
        "defaults",
        f"    mode {case.get('mode', 'http')}",
        "    timeout connect 5s",
        "    timeout client 50s",
        "    timeout server 50s",
        "    timeout http-keep-alive 50s",
        f"    maxconn {CONNECTIONS_MAX}",
    ]
    if case.get("log"):
        text += ["    log global", "    option httplog"]
    text += ["listen web", f"    bind 127.0.0.1:{port}" + case.get("bind", "")]
    for number in range(case.get("acls", 0)):
        text.append(f"    acl a{number} path_beg /section{number}/")
        text.append(f"    http-request deny if a{number}")
    text += ["    " + line for line in case.get("lines", [])]
    if not case.get("local"):
        text += [f"    server s{number} 127.0.0.1:{origin}" for number, origin in enumerate(origins(case), 1)]
    text += case.get("sections", [])
    return "\n".join(text) + "\n"


def nginx_cfg(port, case, folder):
    stream = case.get("mode") == "tcp"
    servers = " ".join(f"server 127.0.0.1:{origin};" for origin in origins(case))
    upstream = f"upstream web {{ {servers}" + (" }" if stream else " keepalive 512; }")
    if case.get("local"):
        where = 'return 200 "hello from the edge\\n";'
    else:
        where = 'proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
    body = (
        f"stream {{ {upstream} server {{ listen 127.0.0.1:{port}; proxy_pass web; }} }}"
        if stream
        else f"http {{ access_log off; keepalive_requests 1000000000; {upstream} "
        f"server {{ listen 127.0.0.1:{port}; location / {{ {where} }} }} }}"
    )
    modules = "load_module modules/ngx_stream_module.so;" if stream else ""
    return (
        f"{modules} daemon off; worker_processes 1; pid {folder}/nginx-{port}.pid; error_log {folder}/nginx.err;"
        f" worker_rlimit_nofile 20000; events {{ worker_connections 19000; }} {body}\n"
    )


def origin_cfg(folder):
    servers = "".join(
        f'server {{ listen 127.0.0.1:{ORIGIN_PORT + number} backlog=4096; location / {{ return 200 "hello from {number}\\n"; }}'
        f" location /files/ {{ alias {folder}/files/; }} }} "
        for number in range(2)
    )
    return (
        f"daemon off; worker_processes 1; pid {folder}/origin.pid; error_log {folder}/origin.err; "
        "worker_rlimit_nofile 20000; events { worker_connections 19000; } "
        f"http {{ access_log off; sendfile on; default_type text/plain; keepalive_requests 1000000000; {servers} }}\n"
    )


CASES = {
    "keepalive64": {"doc": "small responses over keep-alive, 64 connections", "connections": 64},
    "keepalive1": {"doc": "the same with 1 connection", "connections": 1},
    "keepalive512": {"doc": "the same with 512 connections", "connections": 512},
    "conns10000": {"doc": "the same with 10,000 connections", "connections": 10_000},
    "newconn": {"doc": "a new connection for each request, at HAProxy and us to the server too", "connections": 64, "close": True},
    "newconnreuse": {
        "doc": "a new client connection for each request, server connections kept by all",
        "connections": 64,
        "close": True,
        "lines": ["http-reuse always"],
    },
    "body100k": {"doc": "bodies of 100 kB", "connections": 64, "path": "/files/100k"},
    "body100m": {"doc": "bodies of 100 MB", "connections": 4, "path": "/files/100m"},
    "tcp": {"doc": "TCP mode", "connections": 64, "mode": "tcp"},
    "acl200": {"doc": "200 ACLs evaluated for each request", "connections": 64, "acls": 200, "peers": ["haproxy"]},
    "logs": {"doc": "httplog to a UDP sink", "connections": 64, "log": True, "peers": ["haproxy"]},
    "stick3": {
        "doc": "three counters tracked for each request, and asked about",
        "connections": 64,
        "peers": ["haproxy"],
        "lines": [
            "stick-table type ip size 100k expire 10m store conn_cur,conn_rate(10s),http_req_cnt,http_req_rate(10s),http_err_rate(10s)",
            "http-request track-sc0 src",
            "http-request track-sc1 src_port table ports",
            "http-request track-sc2 path table paths",
            "http-request sc-inc-gpc0(1)",
            "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 100000000 } || { sc_http_err_rate(0) gt 1000 }",
            "http-request deny deny_status 429 if { sc_conn_cur(0) gt 10000 } || { sc_gpc0_rate(1) gt 100000000 }",
            "http-request deny deny_status 429 if { sc_http_req_rate(2) gt 100000000 }",
        ],
        "sections": [
            "backend ports",
            "    stick-table type integer size 100k expire 10m store gpc0,gpc0_rate(10s),http_req_rate(10s)",
            "backend paths",
            "    stick-table type string len 64 size 100k expire 10m store http_req_rate(10s),bytes_out_rate(10s)",
        ],
    },
    "compression": {
        "doc": "gzip of 100 kB of text",
        "connections": 16,
        "path": "/files/text",
        "body": 100_000,
        "headers": ["Accept-Encoding: gzip"],
        "peers": ["haproxy"],
        "lines": ["compression algo gzip", "compression type text/plain"],
    },
    "local": {
        "doc": "a response that the edge makes itself",
        "connections": 64,
        "local": True,
        "lines": ['http-request return status 200 content-type text/plain string "hello from the edge"'],
    },
}


STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


def peers_of(case, options):
    """Whom a case compares, without those that cannot take part here."""
    if options.alone:
        return ["tidegate"]
    peers = ["tidegate", *case.get("peers", ["haproxy", "nginx"])]
    if options.floor and is_small(case):
        peers.append("floor")
    if case.get("mode") == "tcp" and "nginx" in peers and not STREAM_MODULE.exists():
        print(f"  nginx is left out: TCP mode needs {STREAM_MODULE} (Debian: apt-get install libnginx-mod-stream)")
        peers.remove("nginx")
    return peers


def command(peer, case, folder, options):
    port = PORTS[peer]
    if peer == "floor":
        return [options.floor, *(["http", str(port)] if case.get("local") else ["relay", str(port), *map(str, origins(case))])]
    if peer == "nginx":
        path = Path(folder) / "nginx-peer.conf"
        path.write_text(nginx_cfg(port, case, folder))
        return ["nginx", "-c", str(path)]
    path = Path(folder) / f"{peer}.cfg"
    path.write_text(haproxy_cfg(port, case))
    if peer == "haproxy":
        return ["haproxy", "-db", "-f", str(path)]
    return [options.ours, "haproxy", "-db", "-f", str(path)]


def is_small(case):
    """The load that is an origin too, and the floor, know one small message alone."""
    return not any(case.get(part) for part in ("path", "close", "headers"))


def lean_load(case, port, seconds, connections):
    """Clients and origins in one thread."""
    words = ["taskset", "-c", LOAD_CPU, case["lean"], str(port), str(connections), str(seconds), *map(str, origins(case))]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return {
        "requests": found["requests"],
        "throughput": found["throughput"],
        "p50": found["p50_us"] * 1e-6,
        "p99": found["p99_us"] * 1e-6,
        "errors": f"{found['failed']} connections failed" if found["failed"] else None,
    }


def load(case, port, seconds, connections):
    if case.get("lean"):
        return lean_load(case, port, seconds, connections)
    words = ["taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "20s"]
    if case.get("close"):
        words += ["-H", "Connection: close"]
    for header in case.get("headers", []):
        words += ["-H", header]
    out = subprocess.run([*words, f"http://127.0.0.1:{port}{case.get('path', '/')}"], capture_output=True, text=True).stdout
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    errors = re.search(r"Socket errors: (.*)|Non-2xx or 3xx responses: (\d+)", out)
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}

    def latency(percent):
        number, suffix = re.search(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)", out).groups()
        return float(number) * unit[suffix]

    return {
        "requests": requests,
        "throughput": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
        "p50": latency(50),
        "p99": latency(99),
        "errors": errors.group(0) if errors else None,
    }


def turn(server, peer, case, options):
    """What one server does while it is loaded once."""
    before = cpu_seconds(server.pid)
    result = load(case, PORTS[peer], options.seconds, connections_of(case))
    result["cpu_us"] = (cpu_seconds(server.pid) - before) * 1e6 / max(1, result["requests"])
    return result


def connections_of(case):
    return min(case["connections"], CONNECTIONS_MAX - 50)


# What is compressed: names of files at the origin.
BODIES = ("text", "page", "json", "log")


def compressed_sizes(port):
    """Bytes that each body takes when it has been compressed; that they are the same after all is checked."""
    sizes = {}
    for name in BODIES:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/files/{name}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as response:
            body = response.read()
        with urllib.request.urlopen(f"http://127.0.0.1:{ORIGIN_PORT}/files/{name}") as response:
            if gzip.decompress(body) != response.read():
                sys.exit(f"{name} is another one when it has been compressed and decompressed")
        sizes[name] = len(body)
    return sizes


def write_bodies(files):
    """Bodies of 100,000 bytes as sites have them, the same each time."""
    chance = random.Random(7)
    words = [word for path in sorted(Path("/usr/share/common-licenses").glob("*L-*")) for word in path.read_text().split()]

    def some(count):
        start = chance.randrange(len(words) - count)
        return " ".join(words[start : start + count])

    makers = {
        "text": lambda number: some(12) + "\n",
        "page": lambda number: f'<li class="item item-{number % 7}"><a href="/articles/{number}">{some(4)}</a>\n  <p>{some(20)}</p></li>\n',
        "json": lambda number: json.dumps(
            {"id": number, "name": some(2), "price": chance.randrange(100_000) / 100, "tags": some(3).split(), "active": number % 3 > 0}
        )
        + ",\n",
        "log": lambda number: f"10.0.{number % 200}.{chance.randrange(250)} - - [21/Nov/2026:{number % 24:02}:12:{number % 60:02} +0000] "
        f'"GET /{some(1)}/{chance.randrange(1000)} HTTP/1.1" 200 {chance.randrange(90_000)}\n',
    }
    for name in BODIES:
        parts, length = [], 0
        while length < 100_000:
            parts.append(makers[name](len(parts)).encode())
            length += len(parts[-1])
        (files / name).write_bytes(b"".join(parts)[:100_000])


def print_compression(case, medians, sizes):
    """CPU for a byte that is taken in, and how much is left of each body."""
    for peer, those in sizes.items():
        left = "  ".join(f"{name} {size / case['body']:.3f}" for name, size in those.items())
        print(f"  {peer:10}{medians[peer]['cpu_us'] * 1e3 / case['body']:8.3f} ns of CPU a byte; left of a body: {left}")


def run_case(name, options, folder):
    case = {**CASES[name], "lean": options.lean} if options.lean and is_small(CASES[name]) else CASES[name]
    print(f"\n{name}: {case['doc']}")
    peers = peers_of(case, options)
    results = {peer: [] for peer in peers}
    # A program that profiles itself writes what it has found when it ends by itself.
    end = signal.SIGUSR1 if options.alone else signal.SIGTERM
    servers, sizes = {}, {}
    try:
        # All of them stand there, idle but for the one whose turn it is: what the machine is like changes within seconds.
        for peer in peers:
            servers[peer] = Server(command(peer, case, folder, options), SERVER_CPU, PORTS[peer], folder, end)
            sizes[peer] = compressed_sizes(PORTS[peer]) if "body" in case else None
            load(case, PORTS[peer], 1, connections_of(case))
        for number in range(options.turns):
            for peer in peers if number % 2 == 0 else reversed(peers):
                results[peer].append(turn(servers[peer], peer, case, options))
        for peer, server in servers.items():
            for row in results[peer]:
                row["rss_kib"] = memory_kib(server.pid, "VmHWM")
    finally:
        for server in servers.values():
            server.stop()
    print(f"  {'':10}{'req/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us/req':>12}{'spread':>8}{'RSS MB':>8}")
    medians = {}
    for peer in peers:
        rows = results[peer]
        medians[peer] = {key: statistics.median(row[key] for row in rows) for key in rows[0] if key != "errors"}
        m = medians[peer]
        cpu = [row["cpu_us"] for row in rows]
        spread = (max(cpu) - min(cpu)) / m["cpu_us"] if m["cpu_us"] else 0
        print(
            f"  {peer:10}{m['throughput']:10.0f}{m['p50'] * 1e3:9.2f}{m['p99'] * 1e3:9.2f}{m['cpu_us']:12.2f}"
            f"{spread:8.0%}{m['rss_kib'] / 1024:8.1f}"
        )
        for row in rows:
            if row["errors"]:
                print(f"    {peer}: {row['errors']}")
    if "body" in case:
        print_compression(case, medians, sizes)
    for peer in peers[1:]:
        parts = []
        for name, key in (("CPU", "cpu_us"), ("throughput", "throughput"), ("p99", "p99"), ("RSS", "rss_kib")):
            # Of two that were loaded one after the other; the medians above are of all turns.
            pairs = zip(results["tidegate"], results[peer])
            ratios = sorted(ours[key] / theirs[key] for ours, theirs in pairs if theirs[key]) or [0.0]
            quarter = len(ratios) // 4
            around = f" ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})" if key != "rss_kib" else ""
            parts.append(f"{name} {statistics.median(ratios):.2f}{around}")
        print(f"  ours / {peer}: {', '.join(parts)}")
    return results


def idle(options, folder):
    """Bytes of memory for each of many idle keep-alive connections."""
    import socket

    count = min(options.idle, CONNECTIONS_MAX - 100)
    print(f"\nidle: {count} idle keep-alive connections")
    medians = {}
    for peer in ("tidegate", "haproxy"):
        server = Server(command(peer, CASES["keepalive64"], folder, options), SERVER_CPU, PORTS[peer], folder)
        try:
            load(CASES["keepalive64"], PORTS[peer], 1, 64)
            time.sleep(0.5)
            before = memory_kib(server.pid, "VmRSS")
            sockets = []
            for number in range(count):
                one = socket.socket()
                one.bind((f"127.0.{1 + number // 20_000}.{1 + number % 200}", 0))
                one.connect(("127.0.0.1", PORTS[peer]))
                one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                sockets.append(one)
            for one in sockets:
                one.recv(4096)
            time.sleep(3)
            after = memory_kib(server.pid, "VmRSS")
            medians[peer] = (after - before) * 1024 / count
            print(f"  {peer:10}{medians[peer]:10.0f} bytes a connection (RSS {before} -> {after} KiB)")
            for one in sockets:
                one.close()
        finally:
            server.stop()
    print(f"  ours / haproxy: {medians['tidegate'] / medians['haproxy']:.2f}")
    return medians


def rss(options, folder):
    """Memory after start, of all processes."""
    results = {}
    print("\nrss: memory after start, all processes")
    for peer, extra in (("tidegate", []), ("tidegate", ["-W"]), ("haproxy", []), ("haproxy", ["-W"])):
        server = Server([*command(peer, CASES["keepalive64"], folder, options), *extra], SERVER_CPU, PORTS[peer], folder)
        try:
            time.sleep(1)
            results[f"{peer} {' '.join(extra)}"] = memory_kib(server.pid, "VmRSS")
            print(f"  {peer} {' '.join(extra):4}{results[f'{peer} ' + ' '.join(extra)] / 1024:8.1f} MB in {len(tree(server.pid))} processes")
        finally:
            server.stop()
    return results


def reloads(options, folder):
    """Memory over many reloads, each awaited."""
    print(f"\nreloads: memory over {options.reloads} reloads")
    words = [*command("tidegate", CASES["keepalive64"], folder, options), "-W"]
    server = Server(words, SERVER_CPU, PORTS["tidegate"], folder)
    marks = []
    try:
        load(CASES["keepalive64"], PORTS["tidegate"], 1, 64)
        for number in range(options.reloads + 1):
            if number % max(1, options.reloads // 10) == 0:
                processes = tree(server.pid)
                marks.append([memory_kib(one, "VmRSS", below=False) for one in processes])
                descriptors = sum(len(os.listdir(f"/proc/{one}/fd")) for one in processes)
                print(f"  after {number:5}: {' + '.join(map(str, marks[-1]))} KiB, {descriptors} descriptors")
            answer = lossless_case.ask(server.pid, "reload")
            if not answer.startswith("Success=1"):
                sys.exit(f"reload {number} failed: {answer}")
        first, last = sum(marks[1 if len(marks) > 2 else 0]), sum(marks[-1])
        print(f"  from the second mark to the last: {last - first:+} KiB")
    finally:
        server.stop()
    return marks


def lossless(options, folder):
    """Errors of a client over 100 reloads and 20 upgrades under load."""
    return lossless_case.run(options, folder, ORIGIN_PORT, PORTS["tidegate"])


def sharding(options, folder):
    """The table of the nginx article: latency and its spread for each way of accepting."""
    print("\nsharding: two workers on two cores, 64 connections, a new one for each request")
    results = {}
    for mode in ("reuseport", "shared", "dispatch"):
        case = {**CASES["local"], "threads": 2, "bind": f" accept {mode}"}
        path = Path(folder) / "tidegate.cfg"
        path.write_text(haproxy_cfg(PORTS["tidegate"], case))
        server = Server([options.ours, "haproxy", "-db", "-f", str(path)], "0,1", PORTS["tidegate"], folder)
        try:
            words = ["wrk", "-t1", "-c64", f"-d{options.seconds}s", "-H", "Connection: close"]
            out = subprocess.run([*words, f"http://127.0.0.1:{PORTS['tidegate']}/"], capture_output=True, text=True).stdout
            mean, deviation = re.search(r"Latency\s+(\S+)\s+(\S+)", out).groups()
            requests = int(re.search(r"(\d+) requests in", out).group(1))
            cpu = cpu_seconds(server.pid) * 1e6 / requests
            threads = []
            for task in os.listdir(f"/proc/{server.pid}/task"):
                name = Path(f"/proc/{server.pid}/task/{task}/comm").read_text().strip()
                fields = Path(f"/proc/{server.pid}/task/{task}/stat").read_text().rsplit(")", 1)[1].split()
                if name.startswith("worker-"):
                    threads.append((int(fields[11]) + int(fields[12])) / TICK)
            share = "/".join(f"{100 * one / max(0.01, sum(threads)):.0f}%" for one in threads)
            print(f"  {mode:10} mean {mean:>9} stdev {deviation:>9} CPU {cpu:6.1f} us/req, workers' CPU {share}")
            results[mode] = {"mean": mean, "stdev": deviation, "cpu_us": cpu, "share": threads}
        finally:
            server.stop()
    return results


SPECIAL = {"idle": idle, "rss": rss, "reloads": reloads, "lossless": lossless, "sharding": sharding}


def wait_for_turn():
    """Keeps two runs on one machine apart: they would use the same ports, and share connections."""
    lock = open(Path(tempfile.gettempdir()) / "tidegate-bench.lock", "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another run is under way: waiting for its end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="cases to run; all without any")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2, help="of load, for each server in each turn")
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--reloads", type=int, default=1_000)
    parser.add_argument("--lossless-reloads", type=int, default=100)
    parser.add_argument("--lossless-upgrades", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16, help="clients of the case lossless")
    parser.add_argument("--websockets", type=int, default=50, help="WebSockets that the case lossless begins with")
    parser.add_argument("--ours", default=str(HERE.parent / "target/release/tidegate"))
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--floor", help="runtime's example of that name, to be measured beside them")
    parser.add_argument("--lean", metavar="PATH", help="runtime's example `lean`: instead of wrk and nginx where messages are small")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        for name, case in CASES.items():
            print(f"{name:14}{case['doc']}")
        for name, function in SPECIAL.items():
            print(f"{name:14}{function.__doc__}")
        return
    for name in options.cases:
        if name not in CASES and name not in SPECIAL:
            sys.exit(f"there is no case '{name}'; see --list")
    turn = wait_for_turn()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A client is two descriptors of a proxy.
    global CONNECTIONS_MAX
    CONNECTIONS_MAX = min(30_000, hard // 2 - 200)
    if CONNECTIONS_MAX < 10_000:
        print(f"the limit of open files ({hard}) allows {CONNECTIONS_MAX} connections at most")
    results = {"date": time.strftime("%Y-%m-%dT%H:%M:%S"), "turns": options.turns, "seconds": options.seconds}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        os.chmod(folder, 0o755)
        files = Path(folder) / "files"
        files.mkdir()
        (files / "100k").write_bytes(os.urandom(100_000))
        write_bodies(files)
        with open(files / "100m", "wb") as file:
            file.truncate(100_000_000)
        path = Path(folder) / "origin.conf"
        path.write_text(origin_cfg(folder))
        origin = Server(["nginx", "-c", str(path)], LOAD_CPU, ORIGIN_PORT, folder)
        try:
            for name in options.cases or [*CASES, *SPECIAL]:
                function = SPECIAL.get(name)
                results[name] = function(options, folder) if function else run_case(name, options, folder)
        finally:
            origin.stop()
    target = HERE / "results"
    target.mkdir(exist_ok=True)
    (target / f"{time.strftime('%Y%m%d-%H%M%S')}.json").write_text(json.dumps(results, indent=1))
    turn.close()


if __name__ == "__main__":
    main()
