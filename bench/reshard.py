#!/usr/bin/env python3
"""Half of a data set moves to a new group under a write load: what clients see of it, and how quick it is beside Redis' MIGRATE key by key.

    bench/reshard.py --ours target/packaged/tidegate [--size 64mb] [--value 100] [--rate 50mb] [--clients 4] [--idle]

--size    how large the data set is (keys and values; 10gb is what issue 22 names: it takes about three times that on the disk)
--value   bytes of a value
--rate    as `slot rebalance --rate`: without it as fast as it goes
--idle    no load while slots move: the figure for keys a second

Says: commands that failed, p99 and the longest command before and during the move, the longest pause of slots as the agent measured it, keys a
second of the whole move, and the same for MIGRATE between two redis-server: one key a command, and ten (as `redis-cli --cluster reshard` does).
All run on one machine and share it: what counts are ratios of one run.
"""
import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from redis_client import Client, free_port

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
TICK = os.sysconf("SC_CLK_TCK")
BATCH = 500
# How long a client waits for an answer.
CLIENT_PATIENCE = 60
BEFORE_S = 5
MIGRATED = 20_000


def size_of(text):
    for unit, factor in (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)):
        if text.lower().endswith(unit):
            return int(float(text[:-2]) * factor)
    return int(text)


def fill(port, keys, value):
    client = Client(port, CLIENT_PATIENCE)
    text = b"x" * value
    for first in range(0, keys, BATCH):
        some = range(first, min(first + BATCH, keys))
        client.send_all([("SET", f"key:{number}", text) for number in some])
        try:
            for _ in some:
                client.reply()
        except RuntimeError as error:
            sys.exit(f"the data set cannot be written: {error}")


def write(port, keys, value, stop, results, seed):
    """One client: a command after the other, each with when it began and how long it took."""
    source, text, seen, failed = random.Random(seed), b"y" * value, [], []
    client = Client(port, CLIENT_PATIENCE)
    while not stop.is_set():
        key = f"key:{source.randrange(keys)}"
        began = time.monotonic()
        try:
            reply = client.ask("SET", key, text) if source.random() < 0.5 else client.ask("GET", key)
        except RuntimeError as error:
            reply = error
        seen.append((began, time.monotonic() - began))
        if isinstance(reply, RuntimeError) or reply is None:
            failed.append(f"{key}: {reply}")
    results.put((seen, failed))


class Load:
    def __init__(self, port, keys, value, clients):
        self.stop, self.results = multiprocessing.Event(), multiprocessing.Queue()
        arguments = (port, keys, value, self.stop, self.results)
        self.all = [multiprocessing.Process(target=write, args=(*arguments, seed)) for seed in range(clients)]
        for one in self.all:
            one.start()

    def end(self):
        self.stop.set()
        results = [self.results.get() for _ in self.all]
        for one in self.all:
            one.join()
        return [one for seen, _ in results for one in seen], [one for _, failed in results for one in failed]


def said(milliseconds):
    ordered = sorted(milliseconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    return p99, f"{len(ordered)} commands, p50 {statistics.median(ordered):.2f} ms, p99 {p99:.2f} ms, longest {ordered[-1]:.1f} ms"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def ours(given, keys, folder):
    port = free_port()
    def command(*words):
        done = subprocess.run([given.ours, "cluster", *words, "--dir", folder, "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{words}: {done.stderr}")
        return json.loads(done.stdout)

    log = open(Path(folder) / "up.out", "w")
    # No master is given up because the machine is busy.
    up = subprocess.Popen([given.ours, "cluster", "up", "--groups", "1", "--replicas", "0", "--dir", folder, "--port", str(port), "--failover-after", "20000", "--api", "off"],
                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        while subprocess.run([given.ours, "cluster", "check", "--dir", folder], **QUIET).returncode:
            time.sleep(0.2)
        fill(port, keys, given.value)
        command("server", "add-group")
        servers = [server["pid"] for group in command("status")["groups"] for server in group["servers"]]
        load = None if given.idle else Load(port, keys, given.value, given.clients)
        if load:
            time.sleep(BEFORE_S)
        began, spent = time.monotonic(), [cpu_seconds(pid) for pid in servers]
        rate = ["--rate", given.rate] if given.rate else []
        command("slot", "rebalance", "--yes", *rate)
        ended = time.monotonic()
        spent = [cpu_seconds(pid) - before for pid, before in zip(servers, spent)]
        pause = command("slot", "rate")["longest_pause_ms"]
        moved = Client(int(command("status")["groups"][1]["master"].rpartition(":")[2])).ask("DBSIZE")
        speed = moved / (ended - began)
        print(f"ours      {moved} keys moved in {ended - began:.1f} s: {speed:.0f} keys a second; longest pause of slots {pause} ms (as the agent saw it)")
        print(f"          CPU of the source {spent[0] / moved * 1e6:.1f} us a key, of the target {spent[1] / moved * 1e6:.1f} us a key" + ("" if given.idle else ", the load's part included"))
        if load:
            time.sleep(1)
            seen, failed = load.end()
            before, text = said([took * 1000 for at, took in seen if at + took < began])
            print(f"before    {text}")
            during, text = said([took * 1000 for at, took in seen if at + took >= began and at < ended])
            print(f"during    {text}; p99 {during / before:.1f} times")
            print(f"failed    {len(failed)} commands{': ' + failed[0] if failed else ''}")
        return speed, spent
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait()


def migrate(given, keys):
    with tempfile.TemporaryDirectory() as folder:
        ports = [free_port(), free_port()]
        running = [subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--dir", folder], **QUIET) for port in ports]
        try:
            time.sleep(0.5)
            keys = min(keys, 4 * MIGRATED)
            fill(ports[0], keys, given.value)
            client, speeds = Client(ports[0]), {}
            at = 0
            for batch in (1, 10):
                count = min(MIGRATED, keys // 2 // batch * batch)
                spent, began = [cpu_seconds(one.pid) for one in running], time.monotonic()
                for first in range(at, at + count, batch):
                    words = [f"key:{number}" for number in range(first, first + batch)]
                    reply = client.ask("MIGRATE", "127.0.0.1", ports[1], words[0], 0, 5000) if batch == 1 else client.ask("MIGRATE", "127.0.0.1", ports[1], "", 0, 5000, "KEYS", *words)
                    if reply != b"OK":
                        sys.exit(f"MIGRATE: {reply}")
                speeds[batch] = count / (time.monotonic() - began)
                cost = [(cpu_seconds(one.pid) - before) / count * 1e6 for one, before in zip(running, spent)]
                print(f"MIGRATE   {batch} keys a command: {speeds[batch]:.0f} keys a second; CPU of the source {cost[0]:.1f} us a key, of the target {cost[1]:.1f} us")
                at += count
            return speeds[1]
        finally:
            for one in running:
                one.terminate()
                one.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--size", type=size_of, default="64mb")
    parser.add_argument("--value", type=int, default=100)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rate")
    parser.add_argument("--idle", action="store_true")
    given = parser.parse_args()
    keys = given.size // (given.value + 12)
    print(f"{keys} keys, values of {given.value} bytes")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        speed, _ = ours(given, keys, folder)
    theirs = migrate(given, keys)
    print(f"ratio     {speed / theirs:.1f} times the keys a second of MIGRATE key by key")


if __name__ == "__main__":
    main()
