#!/usr/bin/env python3
"""Files beside nginx, lighttpd and h2o: CPU per request, requests a second, memory.

    bench/files.py --ours target/quick/tidegate [--turns 5] [--seconds 2] [case...]

One worker each, on core 0, loaded in turns by wrk on core 1. The first turn warms up. Ratios are of neighbouring turns: the median, and the
limits of the middle half. nginx has its open_file_cache, as Tidegate has its own. What is not installed is left out.

Cases: small (a file of 612 bytes), conditional (the same, If-None-Match: 304), middle (100 kB), many (10,000 files of 4 kB, more than
any keeps open), large (100 MB, CPU per megabyte), huge (1 GB, likewise), slow (memory of 10,000 connections that read slowly).
"""
import argparse
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
MANY = 10_000
# Bytes of the file of a case, and how many connections load it.
CASES = {"small": (612, 64), "conditional": (612, 64), "middle": (100_000, 64), "many": (4_000, 64), "large": (100_000_000, 8), "huge": (1_000_000_000, 4), "slow": (0, 10_000)}
# Cases whose cost is that of their bytes: a turn ends in the middle of files.
BY_BYTES = ("large", "huge")

OURS = """global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
listen files
  bind 127.0.0.1:{port}
  root {site}
"""
NGINX = """worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log /dev/null crit;
events {{ worker_connections 20000; }}
http {{
  include /etc/nginx/mime.types;
  sendfile on;
  tcp_nopush on;
  access_log off;
  keepalive_requests 100000000;
  keepalive_timeout 60s;
  open_file_cache max=1024 inactive=60s;
  open_file_cache_valid 1s;
  server {{ listen 127.0.0.1:{port}; root {site}; }}
}}
"""
LIGHTTPD = """server.document-root = "{site}"
server.port = {port}
server.bind = "127.0.0.1"
server.max-keep-alive-requests = 100000000
server.max-fds = 20000
server.max-connections = 15000
mimetype.assign = ( ".html" => "text/html", ".bin" => "application/octet-stream" )
"""
H2O = """hosts:
  default:
    listen:
      host: 127.0.0.1
      port: {port}
    paths:
      /:
        file.dir: {site}
num-threads: 1
max-connections: 20000
"""


def processes(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [grandchild for child in children for grandchild in processes(int(child))]


def cpu_seconds(pid):
    total = 0
    for process in processes(pid):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def memory_kilobytes(pid):
    total = 0
    for process in processes(pid):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


def servers(given, folder, site):
    """Commands that serve the site, by name, with their ports."""
    found = {}
    port = given.ports_from

    def write(name, text):
        path = folder / name
        path.write_text(text.format(port=port, site=site, folder=folder))
        return path

    found["tidegate"] = ([given.ours, "haproxy", "-db", "-f", write("ours.cfg", OURS)], port)
    for name, text, words in (
        ("nginx", NGINX, lambda path: ["nginx", "-c", path]),
        ("lighttpd", LIGHTTPD, lambda path: ["lighttpd", "-D", "-f", path]),
        ("h2o", H2O, lambda path: ["h2o", "-c", path]),
    ):
        port += 1
        if shutil.which(name) and (not given.peers or name in given.peers.split(",")):
            found[name] = (words(write(f"{name}.conf", text)), port)
    return found


def wait_for(port, process):
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{process.args} ended before it listened")


def script(folder, case, port):
    """What wrk asks."""
    path = folder / f"{case}-{port}.lua"
    if case == "many":
        path.write_text(
            f"local next = 0\nfunction request()\n next = (next * 1103515245 + 12345) % 2147483648\n"
            f' return wrk.format("GET", "/many/" .. (next % {MANY}) .. ".bin")\nend\n'
        )
    elif case == "conditional":
        answer = subprocess.run(["curl", "-sI", f"http://127.0.0.1:{port}/small.html"], capture_output=True, text=True, check=True).stdout
        fields = dict(line.split(": ", 1) for line in answer.lower().splitlines() if ": " in line)
        path.write_text(f"wrk.headers['If-None-Match'] = '{fields['etag']}'\n")
    else:
        path.write_text("")
    with path.open("a") as file:
        file.write('function done(summary)\n io.write("bytes ", string.format("%d", summary.bytes), "\\n")\nend\n')
    return path


def load(folder, case, port, given):
    """Loads a server; requests, or megabytes where these count."""
    name = {"small": "small.html", "conditional": "small.html"}.get(case, f"{case}.bin")
    words = ["taskset", "-c", "1", "wrk", "-t1", f"-c{CASES[case][1]}", f"-d{given.seconds}", "-s", script(folder, case, port)]
    said = subprocess.run([*words, f"http://127.0.0.1:{port}/{name}"], capture_output=True, text=True, check=True).stdout
    requests = int(next(line.split()[0] for line in said.splitlines() if "requests in" in line))
    if "Non-2xx" in said or "Socket errors" in said:
        print("   ", *(line.strip() for line in said.splitlines() if "Non-2xx" in line or "Socket errors" in line))
    if case in BY_BYTES:
        return int(next(line.split()[1] for line in said.splitlines() if line.startswith("bytes "))) / 1e6
    return requests


def quartiles(values):
    values = sorted(values)
    return statistics.median(values), values[len(values) // 4], values[-1 - len(values) // 4]


def measure(case, running, folder, given):
    seen = {name: [] for name in running}
    for turn in range(given.turns + 1):
        for name, (process, port) in running.items():
            before = cpu_seconds(process.pid)
            requests = load(folder, case, port, given)
            if turn:
                cpu = (cpu_seconds(process.pid) - before) / max(requests, 1)
                seen[name].append((cpu, requests / given.seconds))
    unit, rate_unit = ("us/MB", " MB/s") if case in BY_BYTES else ("us/request", "/s")
    print(f"{case}: {CASES[case][0]} bytes, {CASES[case][1]} connections")
    for name, turns in seen.items():
        cpu, rate = (statistics.median(column) for column in zip(*turns))
        print(f"  {name:10} {cpu * 1e6:8.2f} {unit}  {rate:9.0f}{rate_unit}  {memory_kilobytes(running[name][0].pid)} kB")
    for name in seen:
        if name == "tidegate":
            continue
        pairs = list(zip(seen["tidegate"], seen[name]))
        cpu = quartiles([ours[0] / theirs[0] for ours, theirs in pairs if theirs[0]])
        rate = quartiles([ours[1] / theirs[1] for ours, theirs in pairs])
        print(f"  ours / {name:9} CPU {cpu[0]:.2f} ({cpu[1]:.2f} to {cpu[2]:.2f}), throughput {rate[0]:.2f} ({rate[1]:.2f} to {rate[2]:.2f})", flush=True)


def slow(running):
    """Memory of connections that have asked for much and read little."""
    print(f"slow: {CASES['slow'][1]} connections that have asked for 100 MB and read nothing")
    for name, (process, port) in running.items():
        before = memory_kilobytes(process.pid)
        clients = []
        for _ in range(CASES["slow"][1]):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            clients.append(client)
        time.sleep(2)
        print(f"  {name:10} {(memory_kilobytes(process.pid) - before) / len(clients):6.2f} kB a connection", flush=True)
        for client in clients:
            client.close()
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--peers", help="nginx,lighttpd,h2o")
    parser.add_argument("--ports-from", type=int, default=29_301)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    given = parser.parse_args()
    cases = given.cases or list(CASES)
    # Servers inherit it.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        os.chmod(folder, 0o755)
        site = folder / "site"
        site.mkdir()
        (site / "small.html").write_bytes(b"x" * 612)
        (site / "middle.bin").write_bytes(b"x" * 100_000)
        if "large" in cases or "slow" in cases:
            (site / "large.bin").write_bytes(b"x" * 100_000_000)
        if "huge" in cases:
            with (site / "huge.bin").open("wb") as file:
                for _ in range(1_000):
                    file.write(b"x" * 1_000_000)
        if "many" in cases:
            (site / "many").mkdir()
            for number in range(MANY):
                (site / "many" / f"{number}.bin").write_bytes(b"x" * 4_000)
        # New files have weak tags.
        time.sleep(3)
        running = {}
        try:
            for name, (words, port) in servers(given, folder, site).items():
                process = subprocess.Popen(["taskset", "-c", "0", *map(str, words)], **QUIET)
                running[name] = (process, port)
                wait_for(port, process)
            for case in cases:
                if case == "slow":
                    slow(running)
                else:
                    measure(case, running, folder, given)
        finally:
            for process, _ in running.values():
                process.terminate()
                process.wait()


main()
