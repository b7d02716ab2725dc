#!/usr/bin/env python3
"""Hits of the cache beside varnishd: CPU per request, requests a second, p99.

    bench/cache.py --ours target/packaged/tidegate [--turns 5] [--seconds 2] [--connections 64]

Both run on core 0 and are loaded in turns by wrk on core 1; a small object is fetched once, from a server of this script's own. Ratios
are of medians. wrk fills its core before either server does, so the CPU per request says more than the throughput.
"""
import argparse
import http.server
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

BODY = b"hello from the origin\n"


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


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


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def load(port, given):
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{given.connections}", f"-d{given.seconds}", "--latency"]
    said = subprocess.run([*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"(\d+) requests in", said)[1]), milliseconds(re.search(r"^\s+99%\s+(\S+)", said, re.M)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{origin.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "haproxy.cfg")
        config.write_text(
            "global\n nbthread 1\ndefaults\n mode http\n timeout client 10s\n timeout server 10s\n timeout connect 2s\n"
            "frontend site\n bind 127.0.0.1:19190\n vcl builtin storage malloc,64m\n default_backend app\n"
            f"backend app\n server s1 {address}\n"
        )
        commands = {
            "tidegate": ([given.ours, "edge", "-f", str(config)], 19190),
            "varnish": (["varnishd", "-F", "-n", f"{folder}/v", "-a", "127.0.0.1:19191", "-b", address, "-s", "malloc,64m"], 19191),
        }
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = {name: subprocess.Popen(["taskset", "-c", "0", *words], **quiet) for name, (words, _) in commands.items()}
        try:
            time.sleep(3)
            seen = {name: [] for name in commands}
            for turn in range(given.turns + 1):
                for name, (_, port) in commands.items():
                    before = cpu_seconds(running[name].pid)
                    requests, p99 = load(port, given)
                    spent = cpu_seconds(running[name].pid) - before
                    # The first turn fetches the object and warms both up.
                    if turn:
                        seen[name].append((spent * 1e6 / requests, requests / given.seconds, p99))
        finally:
            for process in running.values():
                process.terminate()
                process.wait()
    medians = {name: [statistics.median(column) for column in zip(*turns)] for name, turns in seen.items()}
    print(f"{'':10} {'CPU us/req':>10} {'req/s':>10} {'p99 ms':>8}")
    for name, (cpu, rate, p99) in medians.items():
        print(f"{name:10} {cpu:10.2f} {rate:10.0f} {p99:8.2f}")
    ratios = [ours / theirs for ours, theirs in zip(medians["tidegate"], medians["varnish"])]
    print(f"{'ratio':10} {ratios[0]:10.2f} {ratios[1]:10.2f} {ratios[2]:8.2f}")


main()
