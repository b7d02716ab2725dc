#!/usr/bin/env python3
"""What the store does with more data than memory holds: figures that have no peer.

    load      a load of GIGABYTES: commands a second, the longest time in which nothing was answered, peak memory beside
              `maxmemory`, disk; then kill -9, and how long until the store answers about this data
    zipf      reads as Zipf's law has them (0.99), with data ten times as large as `maxmemory`, the process bound by a cgroup (root),
              beside the same reads with all data in memory: throughput, latency, CPU, peak memory
    new-keys  3 million small new keys from one client that sends 100 in one go, at `maxmemory` 150 MB beside no bound: commands a
              second, CPU, peak memory
    churn     values that change their sizes, all in memory: what the machine holds beside what is allocated
    shrink    collections of half a million and of a million members from which commands take all, while checkpoints run: CPU a member. It
              is to be about the same for both

The disk takes up to three times GIGABYTES (values do not compress; merges need room, the log keeps 1 GB); nothing is begun without it.
As the issue wants it: `--gigabytes 10 load`, then `--gigabytes 5 load` for the restart, then `zipf`.

The load generator is crates/data/store/examples/load.rs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

VALUE = 1000
MB = 1 << 20
# What the process may take besides `maxmemory`: the program, stacks, what the allocator keeps for its threads.
BESIDE = 16 * MB
# What the kernel counts for the group besides: its tables of pages, sockets, the page cache, which it gives up first.
KERNEL = 32 * MB


class Store:
    def __init__(self, program, port, folder, maxmemory, limit=None):
        self.port = port
        self.group = cgroup(limit) if limit else None
        words = [*program.split(), "--port", str(port), "--dir", folder, "--maxmemory", str(maxmemory)]
        enter = (lambda: (self.group / "cgroup.procs").write_text(str(os.getpid()))) if self.group else None
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter)

    def wait(self):
        """Seconds until it answers."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(64).startswith(b"+PONG"):
                    return time.monotonic() - began
            if self.process.poll() is not None:
                raise SystemExit("the store ended")
            time.sleep(0.01)

    def resident_mb(self, name):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) // 1024

    def figures(self, section):
        with socket.create_connection(("127.0.0.1", self.port), 30) as connection:
            connection.sendall(f"INFO {section}\r\n".encode())
            reply = connection.makefile("rb")
            text = reply.read(int(reply.readline()[1:])).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def cpu_us(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 10_000

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()
        if self.group:
            self.group.rmdir()


def cgroup(limit):
    """A group of processes that may have so many bytes of memory, the page cache included."""
    root = pathlib.Path("/sys/fs/cgroup")
    one = root / "memory" if (root / "memory").is_dir() else root
    group = one / f"tidegate-bench-{os.getpid()}"
    group.mkdir()
    file = "memory.limit_in_bytes" if one != root else "memory.max"
    (group / file).write_text(str(int(limit)))
    return group


def load(arguments, keys, *words):
    size = [] if "--size" in words else ["--size", str(VALUE)]
    command = [arguments.load, "--port", str(arguments.port), "--keys", str(keys), *size, *words]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def fill(arguments, keys):
    return load(arguments, keys, "--op", "set", "--order", "sequence", "--count", str(keys), "--pipeline", "4")


def disk_mb(folder):
    return sum(path.stat().st_blocks * 512 for path in pathlib.Path(folder).rglob("*") if path.is_file()) // MB


def forget(folder):
    """Has the machine's memory let go of the files in a folder: whoever wrote them had no bound, so they would stay."""
    os.sync()
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check_disk(folder, gigabytes):
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes * 3 + 1:
        raise SystemExit(f"{folder} has {free:.0f} GB free, {gigabytes * 3 + 1:.0f} may be needed")


def load_and_restart(arguments, folder):
    check_disk(folder, arguments.gigabytes)
    keys = int(arguments.gigabytes * 1e9 / VALUE)
    bound = arguments.maxmemory * MB
    store = Store(arguments.ours, arguments.port, folder, bound)
    store.wait()
    found = fill(arguments, keys)
    print(
        f"load of {arguments.gigabytes} GB, maxmemory {arguments.maxmemory} MB: {found['rate']:.0f} SET/s,"
        f" p99 {found['p99_us'] / 1000:.1f} ms, longest silence {found['silence_us'] / 1000:.0f} ms, peak RSS"
        f" {store.resident_mb('VmHWM')} MB (bound {(bound + BESIDE) // MB}), CPU {store.cpu_us() / keys:.1f} us a SET,"
        f" errors {found['errors']}, disk {disk_mb(folder)} MB",
        flush=True,
    )
    store.end(signal.SIGKILL)
    store = Store(arguments.ours, arguments.port, folder, bound)
    seconds = store.wait()
    found = load(arguments, keys, "--op", "get", "--count", "20000")
    print(f"restart after kill -9: answers after {seconds:.2f} s; of 20,000 keys at random {found['misses']} are missing", flush=True)
    store.end()


def zipf(arguments, folder):
    keys = arguments.keys
    check_disk(folder, keys * VALUE / 1e9)
    maxmemory = keys * VALUE // 10
    all_memory = keys * VALUE * 3
    store = Store(arguments.ours, arguments.port, folder, maxmemory)
    store.wait()
    fill(arguments, keys)
    store.end()
    results = {}
    for name, bound, limit in [("in memory", all_memory, None), ("tenth", maxmemory, maxmemory + BESIDE + KERNEL)]:
        forget(folder)
        store = Store(arguments.ours, arguments.port, folder, bound, limit)
        store.wait()
        reads = ["--op", "get", "--order", "zipf:0.99"]
        # All of it, or what belongs there.
        first = ["--order", "sequence", "--count", str(keys), "--pipeline", "8"] if limit is None else [*reads[2:], "--count", "600000"]
        load(arguments, keys, "--op", "get", *first)
        rates = []
        for _ in range(arguments.turns):
            cpu = store.cpu_us()
            found = load(arguments, keys, *reads, "--seconds", "5")
            rates.append((found["rate"], found["p50_us"], found["p99_us"], (store.cpu_us() - cpu) / found["count"]))
        results[name] = sorted(rates)[len(rates) // 2]
        rate, p50, p99, cpu = results[name]
        print(
            f"zipf 0.99, {name}: {rate:.0f} GET/s, p50 {p50} us, p99 {p99} us, CPU {cpu:.1f} us,"
            f" peak RSS {store.resident_mb('VmHWM')} MB (bound {(bound + BESIDE) // MB})",
            flush=True,
        )
        store.end()
    rate, cpu = (results["tenth"][part] / results["in memory"][part] for part in (0, 3))
    print(f"zipf 0.99, ratio: {rate:.2f}; of CPU a command: {cpu:.2f}", flush=True)


def new_keys(arguments, folder):
    """In turns, each with a folder of its own; ratios are those of neighbouring turns."""
    keys, bound = 3_000_000, 150 * MB
    ratios = []
    for turn in range(arguments.turns):
        results = {}
        for name, maxmemory in [("bound", bound), ("no bound", 0)]:
            inner = pathlib.Path(folder) / f"{name}-{turn}"
            store = Store(arguments.ours, arguments.port, str(inner), maxmemory)
            store.wait()
            words = ["--op", "set", "--order", "sequence", "--count", str(keys), "--connections", "1", "--pipeline", "100", "--size", "10"]
            found = load(arguments, keys, *words)
            results[name] = (found["rate"], store.cpu_us() / keys)
            print(
                f"new keys, {name}: {found['rate']:.0f} SET/s, CPU {results[name][1]:.1f} us, peak RSS {store.resident_mb('VmHWM')} MB,"
                f" longest silence {found['silence_us'] / 1000:.0f} ms, errors {found['errors']}",
                flush=True,
            )
            store.end(signal.SIGKILL)
            shutil.rmtree(inner)
        ratios.append([results["bound"][part] / results["no bound"][part] for part in (0, 1)])
    rate, cpu = (sorted(ratio[part] for ratio in ratios)[len(ratios) // 2] for part in (0, 1))
    print(f"new keys, bound beside no bound: {rate:.2f} of the commands a second, {cpu:.2f} of the CPU a command", flush=True)


def churn(arguments, folder):
    store = Store(arguments.ours, arguments.port, folder, 0)
    store.wait()
    for size in (200, 600, 60, 900, 30):
        found = load(arguments, 200_000, "--op", "set", "--order", "uniform", "--count", "600000", "--pipeline", "16", "--size", str(size))
        time.sleep(3)
        figures = store.figures("memory")
        used, resident = int(figures["used_memory"]) // MB, int(figures["used_memory_rss"]) // MB
        print(
            f"churn, values of {size}: used {used} MB, RSS {resident} MB, {figures['mem_fragmentation_ratio']} times as much,"
            f" of that free places {figures['allocator_frag_ratio']}; {found['rate']:.0f} SET/s",
            flush=True,
        )
    store.end()


def words_of(command):
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)


def ask(port, commands):
    """Sends commands in one go and reads an answer to each; answers are not looked at."""
    with socket.create_connection(("127.0.0.1", port), 600) as connection:
        sender = threading.Thread(target=lambda: connection.sendall(b"".join(map(words_of, commands)) + words_of([b"ECHO", b"the end"])))
        sender.start()
        received = b""
        while not received.endswith(b"$7\r\nthe end\r\n"):
            more = connection.recv(1 << 20)
            if not more:
                raise SystemExit("the store ended")
            received = received[-64:] + more
        sender.join()


def shrink(arguments, folder):
    def filled(command, numbered, count):
        pair = (lambda number: [b"%d" % number, b"member:%d" % number]) if numbered else (lambda number: [b"member:%d" % number, b"1"])
        if command == b"SADD":
            pair = lambda number: [b"member:%d" % number]
        return [[command, b"key", *[word for number in range(at, at + 500) for word in pair(number)]] for at in range(0, count, 500)]

    some = lambda command, count: [[command, b"key", *[b"member:%d" % number for number in range(at, at + 1000)]] for at in range(0, count, 1000)]
    cases = {
        "ZREMRANGEBYRANK 0 -1": (b"ZADD", True, lambda count: [[b"ZREMRANGEBYRANK", b"key", b"0", b"-1"]]),
        "ZPOPMIN by 1,000": (b"ZADD", True, lambda count: [[b"ZPOPMIN", b"key", b"1000"]] * (count // 1000)),
        "ZREM of 1,000": (b"ZADD", True, lambda count: some(b"ZREM", count)),
        "HDEL of 1,000": (b"HSET", False, lambda count: some(b"HDEL", count)),
        "SPOP by 1,000": (b"SADD", False, lambda count: [[b"SPOP", b"key", b"1000"]] * (count // 1000)),
    }
    for name, (command, numbered, emptied) in cases.items():
        costs = []
        for count in (500_000, 1_000_000):
            inner = pathlib.Path(folder) / f"{name.split()[0]}-{count}"
            store = Store(arguments.ours, arguments.port, str(inner), 0)
            store.wait()
            ask(arguments.port, filled(command, numbered, count))
            cpu = store.cpu_us()
            ask(arguments.port, emptied(count))
            costs.append((store.cpu_us() - cpu) / count)
            store.end(signal.SIGKILL)
            shutil.rmtree(inner)
        print(f"shrink, {name}: CPU {costs[0]:.2f} us a member of 500,000, {costs[1]:.2f} of 1,000,000", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="target/release/tidegate store")
    parser.add_argument("--load", default="target/release/examples/load")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--port", type=int, default=17811)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--maxmemory", type=int, default=1024, help="of the load, in MB")
    parser.add_argument("--keys", type=int, default=1_500_000, help="of zipf, of 1,000 bytes each")
    parser.add_argument("--folder", help="where the data goes: on a real disk")
    parser.add_argument("cases", nargs="*", default=["load", "zipf"])
    arguments = parser.parse_args()
    for case in arguments.cases:
        folder = tempfile.mkdtemp(prefix="tidegate-bench-", dir=arguments.folder)
        try:
            {"load": load_and_restart, "zipf": zipf, "new-keys": new_keys, "churn": churn, "shrink": shrink}[case](arguments, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
