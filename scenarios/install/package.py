#!/usr/bin/env -S python3 -u
"""package.py ROOT PACKAGE: installs, runs, upgrades, removes and purges the package in a bare Debian."""

import hashlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from machine import PATIENCE, Machine, Service, check, wait_for

EDGE = "tidegate.service"
STORE = "tidegate-store.service"
# Answers as the services' state is, and does what the package asks for: systemd itself does not run here.
SYSTEMCTL = """#!/bin/sh
echo "$@" >>/run/systemctl.log
case "$*" in
    *is-active*tidegate.service) kill -0 "$(cat /run/tidegate/tidegate.pid)" ;;
    *is-active*tidegate-store.service) [ -e /run/store-runs ] ;;
    *is-enabled*) echo disabled; exit 1 ;;
    *reload*tidegate.service) sh -e /run/reload ;;
esac
"""


def get(port, path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body.decode()


def ask_store(*words):
    with socket.create_connection(("127.0.0.1", 6379), timeout=PATIENCE) as client:
        client.sendall((" ".join(words) + "\r\n").encode())
        return client.recv(4096).decode()


class SlowOrigin:
    """A server whose answer is half there until it is told to go on."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.half_sent = threading.Event()
        self.go_on = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        client, _ = self.listener.accept()
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegin")
        self.half_sent.set()
        self.go_on.wait()
        client.sendall(b"-end.")
        client.close()


class Load:
    """Requests one after the other, each on a connection of its own."""

    def __init__(self, port):
        self.port = port
        self.ended = False
        self.served = 0
        self.failed = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            try:
                status, _ = get(self.port)
                self.served += 1
                if status != 200:
                    self.failed.append(status)
            except OSError as error:
                self.failed.append(error)

    def end(self):
        self.ended = True
        self.thread.join()


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def later_version(package, folder):
    """The same package as a later version, with an example that has changed."""
    files = folder / "later"
    subprocess.run(["dpkg-deb", "-R", package, files], check=True)
    control = files / "DEBIAN/control"
    lines = [line + ".1" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    with open(files / "etc/tidegate/store/redis.conf", "a") as example:
        example.write("# told by the later version\n")
    later = folder / "later.deb"
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "-b", files, later], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(files)
    return later


def install(machine, package):
    shutil.copy(package, machine.path("/tmp/tidegate.deb"))
    # Where a configuration and its example have both changed, dpkg would ask.
    return machine.run("dpkg", "--force-confold", "-i", "/tmp/tidegate.deb").stdout


def try_what_is_installed(machine):
    version = machine.run("tidegate", "--version").stdout
    check("the program runs", version.startswith("tidegate "), version)
    check("manual pages are compressed", machine.path("/usr/share/man/man1/tidegate-edge.1.gz").exists())
    check("both users are there", {"tidegate", "tidegate-edge"} <= machine.users())
    listed = machine.run("dpkg-query", "-W", "-f", "${Conffiles}", "tidegate").stdout
    check("configurations are conffiles", "/edge/haproxy.cfg" in listed and "/store/redis.conf" in listed, listed)
    settings = machine.path("/etc/tidegate/store/redis.conf").stat()
    mode = oct(settings.st_mode & 0o777)
    check("nobody else reads the store's settings", (mode, settings.st_uid > 0) == ("0o640", True), mode)
    enabled = list(machine.path("/etc/systemd/system").rglob("tidegate*"))
    check("nothing starts by itself", not enabled, str(enabled))


def try_the_edge(machine, edge):
    edge.start()
    status, body = get(80)
    check("the example answers on port 80", status == 200 and "haproxy.cfg" in body, body)
    check("the page of statistics is there", get(8404)[0] == 200)
    uids = {}
    for pid in filter(str.isdigit, os.listdir(machine.path("/proc"))):
        status = machine.path(f"/proc/{pid}/status").read_text()
        if "Name:\ttidegate" in status:
            uids[int(pid)] = int(status.split("Uid:\t")[1].split()[0])
    expected = int(machine.run("id", "-u", "tidegate-edge").stdout)
    workers = [uid for pid, uid in uids.items() if pid != edge.process.pid]
    check("workers run as their user", workers and set(workers) == {expected}, str(uids))


def try_the_store(machine, store):
    store.start()
    check("the store takes a write", ask_store("SET", "greeting", "hello") == "+OK\r\n")
    rewritten = ask_store("CONFIG", "REWRITE")
    check("it writes its settings", rewritten == "+OK\r\n", rewritten)
    owner = machine.path("/var/lib/tidegate/shard-0").stat().st_uid
    check("its data is its user's", owner == int(machine.run("id", "-u", "tidegate").stdout))
    machine.path("/run/store-runs").touch()


def try_an_upgrade(machine, edge, later):
    origin = SlowOrigin(8000)
    configuration = machine.path("/etc/tidegate/edge/haproxy.cfg")
    configuration.write_text(configuration.read_text() + "\nlisten slow\n    bind :8081\n    server origin 127.0.0.1:8000\n")
    mine = digest(configuration)
    machine.path("/run/reload").write_text(edge.reload_commands())
    machine.run("sh", "-e", "/run/reload")

    def slow_port_is_there():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", 8081)) == 0

    wait_for("the reload", slow_port_is_there)
    slow = {}

    def ask():
        slow["answer"] = get(8081)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    check("a long answer is under way", origin.half_sent.wait(PATIENCE))
    load = Load(80)
    wait_for("some requests", lambda: load.served > 20)

    machine.path("/run/systemd/system").mkdir(parents=True)
    machine.path("/usr/local/bin/systemctl").write_text(SYSTEMCTL)
    os.chmod(machine.path("/usr/local/bin/systemctl"), 0o755)
    running = machine.path(f"/proc/{edge.process.pid}/exe")
    former = os.stat(running).st_ino
    output = install(machine, later)
    installed = machine.path("/usr/bin/tidegate").stat().st_ino
    check("the package brings another file", installed != former, output)
    wait_for("the new program", lambda: os.stat(running).st_ino == installed)

    def new_worker_serves():
        status = machine.run("tidegate", "status", check=False)
        return status.returncode == 0

    wait_for("the master", new_worker_serves)
    before = load.served
    wait_for("requests behind it", lambda: load.served > before + 20)
    load.end()
    check(f"none of {load.served} requests failed while it was upgraded", not load.failed, str(load.failed[:3]))
    origin.go_on.set()
    asking.join(PATIENCE)
    check("what was under way came to its end", slow.get("answer") == (200, "begin-end."), str(slow))
    check("the same master goes on as the new program", edge.process.poll() is None)
    check("a configuration that was changed stays", digest(configuration) == mine)
    asked = machine.path("/run/systemctl.log").read_text()
    check("the store is to be started anew", "restart tidegate-store.service" in asked, asked)


def try_to_remove(machine, before):
    machine.run("dpkg", "-r", "tidegate")
    check("the program is gone", not machine.path("/usr/bin/tidegate").exists())
    check("configurations stay", machine.path("/etc/tidegate/edge/haproxy.cfg").exists())
    machine.path("/usr/local/bin/systemctl").unlink(missing_ok=True)
    output = machine.run("dpkg", "-P", "tidegate").stdout
    left = {name for name in machine.files() - before if not name.startswith("var/lib/tidegate/")}
    # Locks and copies of the file of users, which Debian's own tools leave.
    left -= {f"etc/{name}{end}" for name in ["passwd", "group", "shadow", "gshadow", "subuid", "subgid"] for end in ["-", ""]}
    left -= {"etc/.pwd.lock"}
    return left, output


def main():
    root, package = sys.argv[1:]
    machine = Machine(root)
    # No doubt that what is there is what a bare Debian has.
    check("nothing of it is there before", not machine.path("/usr/bin/tidegate").exists())
    before = machine.files()
    install(machine, package)
    try_what_is_installed(machine)
    edge, store = Service(machine, EDGE), Service(machine, STORE)
    try_the_edge(machine, edge)
    try_the_store(machine, store)
    later = later_version(package, machine.path("/tmp"))
    try_an_upgrade(machine, edge, later)
    check("what the store wrote to its settings stays", "told by" not in machine.path("/etc/tidegate/store/redis.conf").read_text())
    store.stop()
    store.start()
    check("the data is there behind it", ask_store("GET", "greeting") == "$5\r\nhello\r\n")
    store.stop()
    edge.stop()

    left, output = try_to_remove(machine, before)
    check("purging leaves nothing but the data", left == {"var/lib/tidegate"}, f"{left}\n{output}")
    check("its owner stays, the other user goes", "tidegate" in machine.users() and "tidegate-edge" not in machine.users())
    shutil.rmtree(machine.path("/var/lib/tidegate"))
    install(machine, package)
    left, output = try_to_remove(machine, before)
    check("purging without data leaves nothing", not left, f"{left}\n{output}")
    check("no user stays", not {"tidegate", "tidegate-edge"} & machine.users(), str(machine.users()))


if __name__ == "__main__":
    main()
