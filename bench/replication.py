#!/usr/bin/env python3
"""Benchmarks of replication beside redis-server: ratios from one run on one machine.

    bench/replication.py [--tidegate PATH] [--short] [load|copy|ack|failover ...]

load      SETs at full rate (redis-benchmark, 64 connections) without and with one replica: the share that is left of the master's rate, and how
          far the replica is behind while it lasts (largest and median difference of offsets, as time at the rate of the log).
copy      a copy of --gb gigabytes to a new replica: seconds, the master's longest pause (a client that sends PING without end), and
          the most memory that its process has.
ack       64 clients, one SET each in turn: `replica-ack 1` beside Redis' SET followed by WAIT 1 0. Commands a second.
failover  Sentinels over a master and one replica with `replica-ack 1`, a client that counts up; the master is killed --kills times: seconds
          until the new master answers a write (with `replica-ack` it says NOREPLICAS until the old one is back), and acknowledged writes that are gone (ours alone: Redis with WAIT is not asked).

Master, replica and load share the machine: a figure is only worth something beside the other server's of the same run. The
two take turns (--turns); medians.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from redis_client import Client, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONNECTIONS = 64


class Server:
    """One of either kind in a folder of its own."""

    def __init__(self, kind, tidegate, *options, port=None):
        self.kind, self.port = kind, port or free_port()
        self.folder = tempfile.mkdtemp(prefix="bench-replication.", dir=os.environ.get("BENCH_DIR"))
        self.words = [*([tidegate, "store"] if kind == "tidegate" else ["redis-server"]), "--port", str(self.port),
                      "--bind", "127.0.0.1", "--dir", self.folder, *options]
        if kind == "redis":
            self.words += ["--appendonly", "yes", "--save", "", "--repl-diskless-sync-delay", "0"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                client = Client(self.port)
                client.ask("PING")
                client.close()
                return
            except (OSError, RuntimeError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit(f"{self.words} does not start") from None
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def memory_mb(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) / 1024

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def servers(kind, arguments, count, *options):
    all_of_them = [Server(kind, arguments.tidegate, *options) for _ in range(count)]
    try:
        yield all_of_them
    finally:
        for server in all_of_them:
            server.close()


def follow(replica, master):
    client = Client(replica.port)
    client.ask("REPLICAOF", "127.0.0.1", master.port)
    asked = Client(master.port)
    deadline = time.monotonic() + 3600
    while "state=online" not in asked.info().get("slave0", "") or client.info().get("master_link_status") != "up":
        if time.monotonic() > deadline:
            raise SystemExit("the replica does not come")
        time.sleep(0.005)


def benchmark(port, count):
    words = ["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", str(count), "-t", "set", "-r", "100000", "-q",
             "--csv"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return float(next(line for line in output.splitlines() if line.startswith('"SET"')).split(",")[1].strip('"'))


def load(arguments):
    count = 50_000 if arguments.short else 1_000_000
    results = {}
    for kind in ["tidegate", "redis"] * arguments.turns:
        with servers(kind, arguments, 2) as (master, replica):
            benchmark(master.port, count // 10)
            alone = benchmark(master.port, count)
            follow(replica, master)
            behind, is_over = [], threading.Event()

            def watch(master=master, replica=replica, behind=behind, is_over=is_over):
                first, second = Client(master.port), Client(replica.port)
                begin, at = None, None
                while not is_over.wait(0.05):
                    have = int(second.info()["slave_repl_offset"])
                    end = int(first.info()["master_repl_offset"])
                    now = time.monotonic()
                    begin, at = (end, now) if begin is None else (begin, at)
                    rate = (end - begin) / (now - at) if now > at and end > begin else 0
                    if rate:
                        behind.append(max(end - have, 0) / rate * 1000)

            watcher = threading.Thread(target=watch)
            watcher.start()
            followed = benchmark(master.port, count)
            is_over.set()
            watcher.join()
            lag = (statistics.median(behind), max(behind)) if behind else (0, 0)
            results.setdefault(kind, []).append((followed / alone, followed, *lag))
    for kind, turns in results.items():
        share, rate, median, longest = (statistics.median(column) for column in zip(*turns))
        print(f"load      {kind:<9} with a replica {share:.2f} of the rate without, {rate:,.0f}/s; behind by "
              f"{median:.1f} ms, {longest:.1f} ms at most")


def pauses(port, is_over, longest):
    client = Client(port)
    while not is_over.is_set():
        begin = time.monotonic()
        client.ask("PING")
        longest[0] = max(longest[0], time.monotonic() - begin)


def copy(arguments):
    bytes_wanted = (0.05 if arguments.short else arguments.gb) * 1e9
    results = {}
    for kind in ["tidegate", "redis"] * arguments.turns:
        with servers(kind, arguments, 2) as (master, replica):
            client = Client(master.port)
            for begin in range(0, int(bytes_wanted), 100_000_000):
                keys = int(min(100_000_000, bytes_wanted - begin)) // 1000
                fill(client, begin, keys)
            longest, is_over = [0.0], threading.Event()
            watcher = threading.Thread(target=pauses, args=(master.port, is_over, longest))
            watcher.start()
            begin = time.monotonic()
            follow(replica, master)
            seconds = time.monotonic() - begin
            is_over.set()
            watcher.join()
            results.setdefault(kind, []).append((seconds, longest[0] * 1000, master.memory_mb()))
    for kind, turns in results.items():
        seconds, pause, memory = (statistics.median(column) for column in zip(*turns))
        print(f"copy      {kind:<9} {bytes_wanted / 1e9:.2f} GB in {seconds:.2f} s; longest pause {pause:.1f} ms; "
              f"master {memory:,.0f} MB at most")


def fill(client, prefix, keys):
    """Writes keys of 1000 random bytes each: what can be compressed would measure something else."""
    value = os.urandom(1000)
    for begin in range(0, keys, 1000):
        count = min(1000, keys - begin)
        for number in range(begin, begin + count):
            client.send("SET", f"k{prefix}:{number}", value)
        for _ in range(count):
            client.reply()


def ack(arguments):
    seconds = 2 if arguments.short else 15
    results = {}
    for kind in ["tidegate", "redis"] * arguments.turns:
        with servers(kind, arguments, 2) as (master, replica):
            follow(replica, master)
            if kind == "tidegate":
                Client(master.port).ask("CONFIG", "SET", "replica-ack", "1")
            clients = [Client(master.port) for _ in range(CONNECTIONS)]
            deadline, count = time.monotonic() + seconds, 0
            begin = time.monotonic()
            while time.monotonic() < deadline:
                # One thread for all: a turn of 64 commands, and the answers of all of them.
                for number, client in enumerate(clients):
                    client.send("SET", f"key:{number}", "value")
                    if kind == "redis":
                        client.send("WAIT", 1, 0)
                for client in clients:
                    client.reply()
                    if kind == "redis":
                        client.reply()
                count += len(clients)
            results.setdefault(kind, []).append(count / (time.monotonic() - begin))
    rates = {kind: statistics.median(turns) for kind, turns in results.items()}
    for kind, rate in rates.items():
        print(f"ack       {kind:<9} {rate:,.0f} SETs a second that a replica has")
    print(f"ack       ratio     {rates['tidegate'] / rates['redis']:.2f}")


def sentinel(folder, port, master):
    file = pathlib.Path(folder) / f"sentinel-{port}.conf"
    file.write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor group 127.0.0.1 {master} 2\n"
                    "sentinel down-after-milliseconds group 1000\nsentinel failover-timeout group 10000\n")
    return subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def failover(arguments):
    kills = 2 if arguments.short else arguments.kills
    for kind in ["tidegate", "redis"]:
        options = ["--replica-ack", "1"] if kind == "tidegate" else []
        with servers(kind, arguments, 2, *options) as group, tempfile.TemporaryDirectory() as folder:
            by_port = {server.port: server for server in group}
            follow(group[1], group[0])
            ports = [free_port() for _ in range(3)]
            sentinels = [sentinel(folder, port, group[0].port) for port in ports]
            try:
                took, lost = [], 0
                for _ in range(kills):
                    seconds, gone = one_failover(by_port, ports)
                    took.append(seconds)
                    lost += gone
                print(f"failover  {kind:<9} {statistics.median(took):.1f} s until the new master answers, {max(took):.1f} s at most; "
                      f"{lost} acknowledged writes lost in {kills} kills")
            finally:
                for process in sentinels:
                    process.send_signal(signal.SIGTERM)
                    process.wait()


def one_failover(by_port, sentinels):
    """Kills the master while a client counts up; seconds until writes go on, and how many of those answered are gone."""
    def master():
        return int(Client(sentinels[0]).ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group")[1])

    def ready():
        for port in sentinels:
            state = Client(port).ask("SENTINEL", "MASTER", "group")
            state = dict(zip(state[::2], state[1::2]))
            if state[b"num-slaves"] != b"1" or state[b"num-other-sentinels"] != b"2" or state[b"flags"] != b"master":
                return False
        return "state=online" in Client(master()).info().get("slave0", "")

    wait(ready, 120)
    port, answered = master(), 0
    client = Client(port)
    client.ask("SET", "counter", 0)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        answered = client.ask("INCR", "counter")
    by_port[port].kill()
    begin = time.monotonic()
    wait(lambda: master() != port, 120)
    value, answered_at = [], []

    def writes():
        try:
            value[:] = [Client(master()).ask("INCR", "counter")]
            answered_at.append(time.monotonic())
            return True
        except (OSError, RuntimeError, ConnectionError) as reason:
            # The new master is there. With replica-ack it takes writes when the old one is back as its replica.
            if "NOREPLICAS" in str(reason):
                answered_at.append(time.monotonic())
                if by_port[port].process.poll() is not None:
                    by_port[port].start()
            return False

    wait(writes, 120)
    seconds = answered_at[0] - begin
    if by_port[port].process.poll() is not None:
        by_port[port].start()
    return seconds, max(answered + 1 - value[0], 0)


def wait(condition, seconds):
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, RuntimeError, IndexError, KeyError, ConnectionError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain")
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", default=str(ROOT / "target/release/tidegate"))
    parser.add_argument("--short", action="store_true", help="seconds: to see that it works")
    parser.add_argument("--turns", type=int, default=None)
    parser.add_argument("--gb", type=float, default=5)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("cases", nargs="*", choices=["load", "copy", "ack", "failover", []])
    arguments = parser.parse_args()
    arguments.turns = arguments.turns or (1 if arguments.short else 3)
    for case in arguments.cases or ["load", "copy", "ack", "failover"]:
        {"load": load, "copy": copy, "ack": ack, "failover": failover}[case](arguments)


if __name__ == "__main__":
    main()
