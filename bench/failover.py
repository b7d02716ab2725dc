#!/usr/bin/env python3
"""How soon commands succeed again after a master's death: a cluster of ours beside redis-server under Sentinel, in turns.

    bench/failover.py [--ours target/release/tidegate] [--kills 34] [--stops 33] [--silence 1000]

kill  the master's process is killed (SIGKILL)
stop  it is stopped (SIGSTOP), and goes on after --frozen seconds, when the other one has taken over

A client counts up (INCR), one at a time, and tries again at once when that fails. Printed is the longest time between two answers of the
client around each fault (median, 90th percentile, longest), and acknowledged counts that are gone. Ours: one group of a master and
two replicas, `--ack 1`, the client at the proxy. Redis: a master and two replicas with `min-replicas-to-write 1`, three Sentinels; the
client asks them for the master, and follows each INCR by WAIT 1, so that both promise the same. Both give a silent master up after --silence
milliseconds, the least that Sentinel's manual calls safe on a local network.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from redis_client import Client, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
PATIENCE = 60
# How long a client waits for a connection.
CLIENT_PATIENCE = 5


class Ours:
    name = "tidegate"

    def __init__(self, folder, given):
        self.program, self.folder, self.port = given.ours, folder, free_port()
        words = ["cluster", "up", "--groups", "1", "--replicas", "2", "--ack", "1", "--port", self.port, "--api", "off"]
        words += ["--failover-after", given.silence]
        self.agent = subprocess.Popen([self.program, *map(str, words), "--dir", folder], **QUIET)

    def cluster(self, *words):
        return subprocess.run([self.program, "cluster", *words, "--dir", self.folder], capture_output=True, text=True)

    def is_well(self):
        return self.cluster("check").returncode == 0

    def master(self):
        servers = json.loads(self.cluster("status", "--json").stdout)["groups"][0]["servers"]
        return next(server["pid"] for server in servers if server["role"] == "master")

    def connect(self):
        return Client(self.port, CLIENT_PATIENCE)

    def count(self, client):
        return client.ask("INCR", "counter")

    def revive(self):
        """The agent starts what has ended."""

    def close(self):
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait()


class Sentinel:
    name = "redis"

    def __init__(self, folder, given):
        self.folder, self.running = folder, {}
        self.ports = [free_port() for _ in range(3)]
        for port in self.ports:
            self.start(port, [] if port == self.ports[0] else ["--replicaof", "127.0.0.1", str(self.ports[0])])
        self.sentinels = [free_port() for _ in range(3)]
        time.sleep(1)
        for port in self.sentinels:
            file = pathlib.Path(folder) / f"sentinel-{port}.conf"
            file.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor group 127.0.0.1 {self.ports[0]} 2\n"
                f"sentinel down-after-milliseconds group {given.silence}\nsentinel failover-timeout group 5000\n"
            )
            self.running[port] = subprocess.Popen(["redis-server", str(file), "--sentinel"], **QUIET)

    def start(self, port, more=()):
        words = ["--port", port, "--save", "", "--appendonly", "yes", "--appenddirname", f"log-{port}", "--dbfilename", f"{port}.rdb"]
        words += ["--dir", self.folder, "--min-replicas-to-write", 1, "--min-replicas-max-lag", 10, "--repl-diskless-sync-delay", 0, *more]
        self.running[port] = subprocess.Popen(["redis-server", *map(str, words)], **QUIET)

    def master_port(self):
        for port in self.sentinels:
            with contextlib.suppress(OSError, RuntimeError):
                client = Client(port, 1)
                found = int(client.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group")[1])
                client.close()
                return found
        raise ConnectionError("no Sentinel answers")

    def is_well(self):
        master = None
        for port in self.sentinels:
            client = Client(port, 1)
            state = client.ask("SENTINEL", "MASTER", "group")
            client.close()
            state = dict(zip(map(bytes.decode, state[::2]), map(bytes.decode, state[1::2])))
            if state["num-slaves"] != "2" or state["num-other-sentinels"] != "2" or state["flags"] != "master":
                return False
            if master not in (None, state["port"]):
                return False
            master = state["port"]
        client = Client(int(master), 1)
        info = client.ask("INFO", "replication").decode()
        client.close()
        return info.count("state=online") == 2 and "role:master" in info

    def master(self):
        return self.running[self.master_port()].pid

    def connect(self):
        return Client(self.master_port(), CLIENT_PATIENCE)

    def count(self, client):
        count = client.ask("INCR", "counter")
        if client.ask("WAIT", 1, 1000) < 1:
            raise RuntimeError("no replica has it")
        return count

    def revive(self):
        for port in self.ports:
            if self.running[port].poll() is not None:
                self.start(port)

    def close(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()


class Counter(threading.Thread):
    """Counts up as fast as it can, and notes when it was answered."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self.site, self.is_over, self.answers = site, False, []

    def run(self):
        client = None
        while not self.is_over:
            try:
                client = client or self.site.connect()
                client.socket.settimeout(0.2)
                self.answers.append((time.monotonic(), self.site.count(client)))
            except (OSError, RuntimeError, ConnectionError, ValueError):
                with contextlib.suppress(AttributeError, OSError):
                    client.close()
                client = None
                time.sleep(0.005)


def wait(condition):
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError, StopIteration):
            if condition():
                return
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain")
        time.sleep(0.05)


def one_fault(site, kind, given):
    """Seconds without an answer, and how many acknowledged counts are gone."""
    wait(site.is_well)
    counter = Counter(site)
    counter.start()
    time.sleep(0.5)
    pid = site.master()
    began, before = time.monotonic(), len(counter.answers)
    os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
    try:
        time.sleep(given.frozen)
        wait(lambda: len(counter.answers) > before and counter.answers[-1][0] > began + 0.3)
    finally:
        if kind == "stop":
            os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)
    counter.is_over = True
    counter.join()
    site.revive()
    answers = counter.answers
    times = [at for at, _ in answers]
    gap = max(after - at for at, after in zip(times, times[1:]))
    # A count that does not grow was given before: what was acknowledged in between is gone.
    lost = sum(max(0, count - after + 1) for (_, count), (_, after) in zip(answers, answers[1:]))
    return gap, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "target/release/tidegate"))
    parser.add_argument("--kills", type=int, default=34)
    parser.add_argument("--stops", type=int, default=33)
    parser.add_argument("--silence", type=int, default=1000, help="milliseconds after which a silent master is given up")
    parser.add_argument("--frozen", type=float, default=4, help="seconds that each fault is left alone")
    given = parser.parse_args()
    seen = {}
    with contextlib.ExitStack() as stack:
        sites = []
        for kind in (Ours, Sentinel):
            site = kind(stack.enter_context(tempfile.TemporaryDirectory()), given)
            stack.callback(site.close)
            sites.append(site)
        for fault, times in (("kill", given.kills), ("stop", given.stops)):
            for _ in range(times):
                for site in sites:
                    seen.setdefault((fault, site.name), []).append(one_fault(site, fault, given))
    print(f"{'fault':<6} {'what':<9} {'times':>5} {'median s':>9} {'p90 s':>7} {'longest s':>9} {'lost':>5}")
    for (fault, name), results in seen.items():
        gaps = sorted(gap for gap, _ in results)
        p90 = gaps[min(len(gaps) - 1, len(gaps) * 9 // 10)]
        lost = sum(lost for _, lost in results)
        print(f"{fault:<6} {name:<9} {len(gaps):>5} {statistics.median(gaps):>9.2f} {p90:>7.2f} {gaps[-1]:>9.2f} {lost:>5}")


if __name__ == "__main__":
    main()
