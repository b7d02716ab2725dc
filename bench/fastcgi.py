#!/usr/bin/env python3
"""FastCGI beside nginx: both in front of one PHP-FPM whose page says "hello", a worker each.

    bench/fastcgi.py --ours target/packaged/tidegate [--turns 7] [--seconds 2] [--clients 8] [--bytes 0]

The servers run on core 0; PHP-FPM and wrk share core 1, and are full first: what counts is the CPU time of the server's side for each request. The
servers are loaded in turns, and the ratio is the median over pairs of turns. Both keep connections to PHP-FPM open. With --bytes the page is so much longer.
An answer that is not 200 ends the run.
"""
import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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


class Server:
    def __init__(self, name, words, port, core):
        self.name, self.port = name, port
        self.process = subprocess.Popen(["taskset", "-c", core, *words], **QUIET)
        deadline = time.time() + 10
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.php", timeout=5) as answer:
                    self.page = answer.read()
                return
            except OSError:
                if time.time() > deadline or self.process.poll() is not None:
                    raise SystemExit(f"{name} does not answer") from None
                time.sleep(0.05)

    def load(self, clients, seconds):
        before = cpu_seconds(self.process.pid)
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{clients}", f"-d{seconds}s", f"http://127.0.0.1:{self.port}/index.php"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in text or "Socket errors" in text:
            raise SystemExit(f"{self.name}: {text}")
        requests = int(re.search(r"(\d+) requests in", text)[1])
        return (cpu_seconds(self.process.pid) - before) / requests * 1e6, float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fastcgi-"))
    running = []
    try:
        fpm = shutil.which("php-fpm8.2", path="/usr/sbin") or shutil.which("php-fpm")
        page = "<?php echo 'hello'" + (f" . str_repeat('x', {given.bytes})" if given.bytes else "") + ";"
        (folder / "index.php").write_text(page)
        # A process serves one connection: there are more of them than connections.
        (folder / "fpm.conf").write_text(
            f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {folder}/fpm.sock\n"
            f"pm = static\npm.max_children = {given.clients * 2 + 4}\n"
        )
        running.append(subprocess.Popen(["taskset", "-c", "1", fpm, "-R", "-y", folder / "fpm.conf"], **QUIET))
        while not (folder / "fpm.sock").exists():
            time.sleep(0.05)
        ours, theirs = free_port(), free_port()
        (folder / "haproxy.cfg").write_text(
            "global\n nbthread 1\ndefaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n"
            f"frontend f\n bind 127.0.0.1:{ours}\n default_backend php\nbackend php\n use-fcgi-app app\n"
            f" server fpm unix@{folder}/fpm.sock proto fcgi\nfcgi-app app\n docroot {folder}\n index index.php\n"
        )
        (folder / "nginx.conf").write_text(
            f"daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null;\nevents {{ worker_connections 1024; }}\n"
            f"http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}; fastcgi_temp_path {folder};\n"
            f" proxy_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n"
            f" upstream php {{ server unix:{folder}/fpm.sock; keepalive {given.clients}; keepalive_requests 1000000000; }}\n"
            f" server {{ listen 127.0.0.1:{theirs}; root {folder};\n"
            "  location ~ \\.php$ { include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n"
            "   fastcgi_keep_conn on; fastcgi_pass php; } } }\n"
        )
        os.chmod(folder, 0o755)
        servers = [
            Server("tidegate", [given.ours, "edge", "-db", "-f", folder / "haproxy.cfg"], ours, "0"),
            Server("nginx", ["nginx", "-c", folder / "nginx.conf", "-e", "/dev/null"], theirs, "0"),
        ]
        running += [server.process for server in servers]
        assert servers[0].page == servers[1].page
        figures = {server.name: [] for server in servers}
        for turn in range(given.turns + 1):
            for server in servers:
                figure = server.load(given.clients, given.seconds)
                # The first turn warms up.
                if turn:
                    figures[server.name].append(figure)
        for name, found in figures.items():
            print(f"{name:10} {statistics.median(f[0] for f in found):7.1f} us of CPU a request  {statistics.median(f[1] for f in found):8.0f} req/s")
        ratios = sorted(a[0] / b[0] for a, b in zip(figures["tidegate"], figures["nginx"]))
        print(f"CPU tidegate / nginx: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
