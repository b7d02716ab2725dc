#!/usr/bin/env python3
"""HTTPS and HTTP/2 beside Debian's haproxy, nginx and h2o: CPU per request, handshake and byte, throughput, p99, memory.

    bench/tls.py --ours target/packaged/tidegate [--turns 5] [--seconds 2] [case...]
    bench/tls.py --list

Each server has one worker on core 0, and is loaded in turns from core 1, where the origin (nginx) is too. Certificates are ECDSA P-256.
CPU is that of all of a server's processes (/proc). Ratios are ours to theirs in the same turn: the median of all turns, and between
which two the middle half lies. Handshakes and idle connections are made by Python, which is slow and costs the server nothing.
"""
import argparse
import contextlib
import os
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import cpu_seconds, tree

PORTS = {"tidegate": 28100, "haproxy": 28110, "nginx": 28120, "h2o": 28130}
ORIGIN = 28190
# The same by HTTP/2 without TLS.
ORIGIN_HTTP2 = 28191
# Ports of a server, from its first one on: TLS, clear HTTP/2.
CLEAR = 1
LOAD = ["taskset", "-c", "1"]
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
BODY_BYTES = 256 << 20

HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{port} ssl crt {folder}/site.pem alpn h2,http/1.1
  bind 127.0.0.1:{clear} proto h2
  http-request return status 200 content-type text/plain string "hello world!" if {{ path /own }}
  use_backend http2 if {{ path_beg /http2/ }}
  default_backend servers
backend servers
  server s1 127.0.0.1:{origin}
backend http2
  server s1 127.0.0.1:{origin_http2} proto h2
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  upstream o {{ server 127.0.0.1:{origin}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} ssl http2; listen 127.0.0.1:{clear} http2;
    ssl_certificate {folder}/site.pem; ssl_certificate_key {folder}/site.pem; ssl_session_cache shared:s:10m; ssl_protocols TLSv1.2 TLSv1.3;
    location = /own {{ default_type text/plain; return 200 "hello world!"; }}
    location / {{ proxy_pass http://o; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""
ORIGIN_CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/origin.pid; error_log {folder}/origin.log;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile on;
  server {{
    listen 127.0.0.1:{origin}; listen 127.0.0.1:{origin_http2} http2; root {folder}/files;
    location = /small {{ return 200 "hello world!"; }}
    location = /http2/small {{ return 200 "hello world!"; }}
  }}
}}
"""
H2O = """
num-threads: 1
error-log: {folder}/h2o.log
hosts:
  default:
    listen:
      host: 127.0.0.1
      port: {port}
      ssl: {{ certificate-file: {folder}/site.pem, key-file: {folder}/site.pem }}
    listen: {{ host: 127.0.0.1, port: {clear} }}
    paths:
      /: {{ file.dir: {folder}/files }}
"""


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def client_context(protocol="http/1.1"):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([protocol])
    return context


def ask(tls):
    """One small request on a connection of HTTP/1; its answer is read whole."""
    tls.sendall(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
    received = b""
    while not received.endswith(b"hello world!"):
        more = tls.recv(4096)
        if not more:
            raise EOFError
        received += more


# Each load gives the number of what CPU is divided by, and what else it saw.


def by_wrk(path):
    def load(port, given):
        words = [*LOAD, "wrk", "-t1", "-c64", f"-d{given.seconds}", "--latency", f"https://127.0.0.1:{port}{path}"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in said or "Socket errors" in said:
            raise SystemExit(said)
        count = int(re.search(r"(\d+) requests in", said)[1])
        return count, {"req/s": float(re.search(r"Requests/sec: *([\d.]+)", said)[1]), "p99": re.search(r"99% *(\S+)", said)[1]}

    return load


def by_h2load(path, clear=False):
    def load(port, given):
        address = f"http://127.0.0.1:{port + CLEAR}{path}" if clear else f"https://127.0.0.1:{port}{path}"
        words = [*LOAD, "h2load", "-c64", "-m32", "-t1", f"-D{given.seconds}", address]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        done, failed = (int(re.search(rf"(\d+) {word}", said)[1]) for word in ("succeeded", "failed"))
        # Time ends in the middle of some answers.
        if failed or not re.search(r" 2xx, 0 3xx, 0 4xx, 0 5xx", said):
            raise SystemExit(said)
        return done, {"req/s": float(re.search(r"([\d.]+) req/s", said)[1])}

    return load


def by_handshakes(resumes):
    def load(port, given):
        context, session, count, resumed = client_context(), None, 0, 0
        until = time.monotonic() + given.seconds
        while time.monotonic() < until:
            with socket.create_connection(("127.0.0.1", port)) as plain:
                with context.wrap_socket(plain, session=session if resumes else None) as tls:
                    ask(tls)
                    resumed += tls.session_reused
                    session = tls.session
                    count += 1
        if resumes and resumed < count * 0.9:
            print(f"  only {resumed} of {count} sessions were resumed at port {port}", file=sys.stderr)
        return count, {"req/s": count / given.seconds}

    return load


def by_body(port, given):
    words = [*LOAD, "curl", "-sk", "--http1.1", "-o", "/dev/null", "-w", "%{size_download} %{time_total}", f"https://127.0.0.1:{port}/body"]
    size, seconds = map(float, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    if size != BODY_BYTES:
        raise SystemExit(f"{size} bytes of {BODY_BYTES} came")
    return size / 1e6, {"MB/s": size / 1e6 / seconds}


def idle_memory(port, pid, count):
    """kB that an idle connection costs, which has had one answer."""

    def resident():
        sizes = (re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{one}/status").read_text()) for one in tree(pid))
        return sum(int(size[1]) for size in sizes if size)

    context, held = client_context(), []
    for _ in range(50):
        # What a server allocates once is there before.
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as tls:
            ask(tls)
    before = resident()
    for _ in range(count):
        tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
        ask(tls)
        held.append(tls)
    time.sleep(2)
    each = (resident() - before) / count
    for tls in held:
        tls.close()
    return each


# By name: load, unit that CPU is divided by, peers that serve the same.
CASES = {
    "tls-own": (by_wrk("/own"), "request", ["haproxy", "nginx"]),
    "tls-proxied": (by_wrk("/small"), "request", ["haproxy", "nginx"]),
    "handshake": (by_handshakes(False), "handshake", ["haproxy", "nginx"]),
    "resumed": (by_handshakes(True), "handshake", ["haproxy", "nginx"]),
    "body": (by_body, "MB", ["haproxy", "nginx"]),
    "h2-own": (by_h2load("/own"), "request", ["haproxy", "nginx", "h2o"]),
    "h2-proxied": (by_h2load("/small"), "request", ["haproxy", "nginx"]),
    "h2c-own": (by_h2load("/own", True), "request", ["haproxy", "nginx", "h2o"]),
    "h2c-proxied": (by_h2load("/small", True), "request", ["haproxy", "nginx"]),
    # HTTP/2 on both sides.
    "h2-to-h2": (by_h2load("/http2/small"), "request", ["haproxy"]),
    "h2c-to-h2": (by_h2load("/http2/small", True), "request", ["haproxy"]),
}


@contextlib.contextmanager
def servers(given, folder):
    """Starts the origin and all servers; their process numbers by name."""
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost -keyout key -out crt"
    subprocess.run(words.split(), cwd=folder, check=True, **QUIET)
    Path(folder, "site.pem").write_text(Path(folder, "crt").read_text() + Path(folder, "key").read_text())
    files = Path(folder, "files")
    files.mkdir()
    files.joinpath("own").write_text("hello world!")
    with files.joinpath("body").open("wb") as body:
        body.truncate(BODY_BYTES)
    # Where all programs run as root, nginx' workers become another user.
    for path in [folder, files, *files.iterdir()]:
        os.chmod(path, 0o755)

    def write(name, text, port=0):
        path = Path(folder, f"{name}.cfg")
        ports = {"port": port, "clear": port + CLEAR, "origin": ORIGIN, "origin_http2": ORIGIN_HTTP2}
        path.write_text(text.format(folder=folder, name=name, **ports))
        return path

    commands = {
        "tidegate": lambda path: [given.ours, "haproxy", "-db", "-f", path],
        "haproxy": lambda path: ["haproxy", "-db", "-f", path],
        "nginx": lambda path: ["nginx", "-c", path],
        "h2o": lambda path: ["h2o", "-c", path],
    }
    texts = {"tidegate": HAPROXY, "haproxy": HAPROXY, "nginx": NGINX, "h2o": H2O}
    running, pids = [], {}
    try:
        running.append(subprocess.Popen([*LOAD, "nginx", "-c", write("origin", ORIGIN_CONFIGURATION)], **QUIET))
        for name in given.servers:
            command = commands[name](write(name, texts[name], PORTS[name]))
            running.append(subprocess.Popen(["taskset", "-c", "0", *command], **QUIET))
            pids[name] = running[-1].pid
        for name, port in [("origin", ORIGIN), *((name, PORTS[name]) for name in given.servers)]:
            until = time.monotonic() + 10
            while not listens(port):
                if time.monotonic() > until:
                    raise SystemExit(f"{name} does not listen at port {port}")
                time.sleep(0.05)
        yield pids
    finally:
        for process in running:
            process.send_signal(given.end if process.pid == pids.get("tidegate") else signal.SIGTERM)
        for process in running:
            process.wait()


def measure(case, pids, given):
    load, unit, peers = CASES[case]
    names = [name for name in ["tidegate", *peers] if name in pids]
    seen = {name: [] for name in names}
    for turn in range(given.turns + 1):
        for name in names:
            before = cpu_seconds(pids[name])
            count, also = load(PORTS[name], given)
            if turn > 0:
                seen[name].append(((cpu_seconds(pids[name]) - before) * 1e6 / count, also))
    print(f"{case}, CPU us per {unit}:")
    for name in names:
        cpus = [cpu for cpu, _ in seen[name]]
        also = {key: [also[key] for _, also in seen[name]] for key in seen[name][0][1]}
        more = "  ".join(f"{key} {sorted(values)[len(values) // 2] if isinstance(values[0], str) else round(statistics.median(values))}" for key, values in also.items())
        ratio = ""
        if name != "tidegate" and "tidegate" in names:
            ratios = sorted(ours / theirs for (ours, _), theirs in zip(seen["tidegate"], cpus))
            quarter = len(ratios) // 4
            ratio = f"ours is {statistics.median(ratios):.2f} of it ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
        print(f"  {name:9} {statistics.median(cpus):9.2f}   {more:28} {ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--idle", type=int, default=2_000, help="connections of the case idle")
    parser.add_argument("--servers", default="tidegate,haproxy,nginx,h2o", help="which of them")
    parser.add_argument("--alone", action="store_true", help="ours alone, which ends by itself: a program that profiles itself writes what it has found then")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    given.end = signal.SIGUSR1 if given.alone else signal.SIGTERM
    if given.alone:
        given.servers = "tidegate"
    if given.list:
        print("\n".join([*CASES, "idle"]))
        return
    given.servers = [name for name in given.servers.split(",") if name != "tidegate" or given.ours]
    cases = given.cases or [*CASES, "idle"]
    with tempfile.TemporaryDirectory() as folder, servers(given, folder) as pids:
        for case in cases:
            if case != "idle":
                measure(case, pids, given)
    if "idle" in cases:
        # Others than those that have been loaded: these have memory to spare.
        with tempfile.TemporaryDirectory() as folder, servers(given, folder) as pids:
            print(f"idle, kB of memory for a connection of HTTPS ({given.idle} of them):")
            for name in pids:
                if name != "h2o":
                    print(f"  {name:9} {idle_memory(PORTS[name], pids[name], given.idle):9.1f}", flush=True)


if __name__ == "__main__":
    main()
