#!/usr/bin/env python3
"""Benchmarks of Tidegate's store beside redis-server: ratios from one run on one machine.

Server on one core, redis-benchmark on the other; the two take turns, each begins with an empty folder. Both have a log, with
the same `appendfsync`. CPU time is that of all of the server's threads, from /proc. Medians of the turns.

`threads` compares one core with two, ours and Redis' (`io-threads`). Server and load share both cores, and the load costs as much
as the server: so that the server is what all wait for, a group of processes (cgroup, root) lets it have a part of a core for each
core that it is to use, 0.4 unless --share says otherwise. Without root there is no such bound, and the rates say little; what two
whole cores could do follows from the CPU time of a command on all threads and on the busiest. Redis' threads wait in a circle, and
would use up such a bound by waiting: with two threads Redis has none, and its rate is left out.

`--tls` has the load speak TLS with both, certificates of P-256. `idle` compares the memory that a connection takes which is idle, with TLS and without.

`always` compares SETs with `appendfsync always`, 1 to 64 clients, by the store's example `load` (--load PATH), which takes less than
redis-benchmark: --flush-ms or --write-ms has all of them on a disk whose flush takes so long (root).
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import tempfile
import time

from slow_disk import slow_disk

TICKS_US = 10_000
CONNECTIONS = 64
KEYS = 100_000

# appendfsync, redis-benchmark's test or a command of its own, commands in one go, commands.
CASES = [
    ("everysec", "get", 1, 200_000),
    ("everysec", "set", 1, 200_000),
    ("everysec", "get", 16, 1_000_000),
    ("everysec", "set", 16, 1_000_000),
    ("everysec", "incr", 1, 200_000),
    ("everysec", "lpush", 1, 200_000),
    ("everysec", "rpop", 1, 200_000),
    ("everysec", "hset", 1, 200_000),
    ("everysec", "zadd", 1, 200_000),
    ("everysec", "xadd", 1, 200_000),
    ("everysec", "zrange", 1, 100_000),
    ("everysec", "mset", 1, 100_000),
    ("always", "set", 1, 60_000),
]

# What redis-benchmark has no test for. `mset` is its own: ten keys.
COMMANDS = {
    "xadd": ["XADD", "stream:__rand_int__", "*", "field", "value"],
    "zrange": ["ZRANGE", "sorted", "0", "99"],
}

# What has to be there first.
BEFORE = {
    "zrange": ["ZADD", "sorted", "__rand_int__", "member:__rand_int__"],
    "rpop": ["-t", "lpush"],
}


# Who is compared over cores, and with what; the first is what the others are compared with.
THREADS = [("ours", 1, []), ("ours", 2, ["--io-threads", "2"])]
THREADS += [("redis", 1, []), ("redis", 2, ["--io-threads", "2", "--io-threads-do-reads", "yes"])]
THREAD_CASES = [("get", 1, 300_000), ("set", 1, 300_000), ("get", 16, 1_500_000), ("set", 16, 1_500_000)]


def command(peer, arguments, port, fsync, folder):
    if peer == "floor":
        return [arguments.floor, "resp", str(port)]
    common = ["--port", str(port), "--dir", folder, "--appendfsync", fsync, *secure(arguments, port)]
    if peer == "redis":
        return ["redis-server", *common, "--save", "", "--appendonly", "yes"]
    return [arguments.ours, "store", *common]


def secure(arguments, port):
    """The settings of TLS, at the port behind the plain one."""
    if not arguments.certificates:
        return []
    at = arguments.certificates
    names = ["--tls-cert-file", f"{at}/server.crt", "--tls-key-file", f"{at}/server.key", "--tls-ca-cert-file", f"{at}/ca.crt"]
    return ["--tls-port", str(port + 1), *names, "--tls-auth-clients", "no"]


def certify(folder):
    """An authority, and a certificate of a server."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for line in (
        ["req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=Authority"],
        ["req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server"],
        ["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
        + ["-out", "server.crt", "-extfile", "names"],
    ):
        subprocess.run(["openssl", *line], cwd=folder, check=True, capture_output=True)


def load_at(arguments):
    """How redis-benchmark reaches the server."""
    if not arguments.tls:
        return ["-p", str(arguments.port)]
    return ["-p", str(arguments.port + 1), "--tls", "--cacert", f"{arguments.certificates}/ca.crt"]


def cpu_ticks(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def wait_until_ready(server, port):
    """Waits until it answers. redis-benchmark would try forever."""
    for _ in range(200):
        if server.poll() is not None:
            raise SystemExit(f"{' '.join(map(str, server.args))}: ended with {server.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
            client.sendall(b"PING\r\n")
            # The floor's answer to everything begins so, too.
            if client.recv(5)[:1] in (b"+", b"$"):
                return
        time.sleep(0.05)
    raise SystemExit(f"{' '.join(map(str, server.args))}: does not answer")


def resident_mb(process):
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def run(peer, arguments, fsync, test, pipeline, count):
    """CPU microseconds a command, commands a second, peak memory in MB."""
    folder = tempfile.mkdtemp(prefix="tidegate-bench-")
    server = subprocess.Popen(
        ["taskset", "-c", "0", *command(peer, arguments, arguments.port, fsync, folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(server, arguments.port)
        load = ["taskset", "-c", "1", "redis-benchmark", *load_at(arguments), "-c", str(CONNECTIONS)]
        load += ["-P", str(pipeline), "-r", str(KEYS), "-q", "--csv"]
        if before := BEFORE.get(test):
            subprocess.run([*load, "-n", str(count * 2), *before], capture_output=True, check=True)
        what = COMMANDS.get(test, ["-t", test])
        subprocess.run([*load, "-n", str(count // 4), *what], capture_output=True, check=True)
        before = cpu_ticks(server)
        output = subprocess.run([*load, "-n", str(count), *what], capture_output=True, check=True, text=True).stdout
        spent = cpu_ticks(server) - before
        rate = float(output.strip().splitlines()[-1].split(",")[1].strip('"'))
        return spent * TICKS_US / count, rate, resident_mb(server)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def cores(share):
    """A group of processes that may use so much of a core; nothing if that is not allowed."""
    root = pathlib.Path("/sys/fs/cgroup")
    old = root / "cpu"
    group = (old if old.is_dir() else root) / f"tidegate-bench-{os.getpid()}"
    period = 50_000
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        if old.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(int(period * share)))
        else:
            (group / "cpu.max").write_text(f"{int(period * share)} {period}")
        yield group
    finally:
        group.rmdir()


def thread_times(process):
    """CPU microseconds of each thread."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1000 for task in tasks}


def run_threads(peer, words, share, arguments, test, pipeline, count):
    """Commands a second, CPU microseconds a command of all threads, and of the busiest."""
    folder = tempfile.mkdtemp(prefix="tidegate-bench-")
    with cores(share) if share else contextlib.nullcontext() as group:
        enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None
        server = subprocess.Popen(
            [*command(peer, arguments, arguments.port, "everysec", folder), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=enter,
        )
        try:
            wait_until_ready(server, arguments.port)
            load = ["redis-benchmark", *load_at(arguments), "-c", str(CONNECTIONS), "--threads", "2"]
            load += ["-P", str(pipeline), "-r", str(KEYS), "-q", "--csv", "-t", test]
            subprocess.run([*load, "-n", str(count // 4)], capture_output=True, check=True)
            before = thread_times(server)
            output = subprocess.run([*load, "-n", str(count)], capture_output=True, check=True, text=True).stdout
            spent = [time - before.get(task, 0) for task, time in thread_times(server).items()]
            rate = float(output.strip().splitlines()[-1].split(",")[1].strip('"'))
            return rate, sum(spent) / count, max(spent) / count
        finally:
            server.terminate()
            server.wait()
            shutil.rmtree(folder, ignore_errors=True)


def compare_threads(arguments):
    print("case       server   threads  commands/s  ratio   CPU us  busiest thread   whole cores could, a second  ratio")
    for test, pipeline, count in THREAD_CASES:
        turns = [[] for _ in THREADS]
        for _ in range(arguments.turns):
            for (peer, threads, words), found in zip(THREADS, turns):
                share = 0 if peer == "redis" and threads > 1 else threads * arguments.share
                found.append(run_threads(peer, words, share, arguments, test, pipeline, count))
        first = None
        for (peer, threads, _), found in zip(THREADS, turns):
            rate, spent, busiest = (statistics.median(turn[part] for turn in found) for part in range(3))
            could = 1e6 * min(threads / spent, 1 / busiest)
            first = first or (rate, could)
            is_bound = peer != "redis" or threads == 1
            rates = f"{rate:11.0f} {rate / first[0]:6.2f}" if is_bound else f"{'-':>11} {'-':>6}"
            print(
                f"{test} -P {pipeline:<3} {peer:8} {threads:7} {rates} {spent:8.2f} {busiest:15.2f}"
                f" {could:29.0f} {could / first[1]:6.2f}",
                flush=True,
            )


IDLE = 2_000


def resident_bytes(process):
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def run_idle(peer, arguments, is_secure):
    """Bytes of memory that a connection takes which has asked once and is idle."""
    folder = tempfile.mkdtemp(prefix="tidegate-bench-")
    server = subprocess.Popen(
        command(peer, arguments, arguments.port, "everysec", folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    context = ssl.create_default_context(cafile=f"{arguments.certificates}/ca.crt")

    def connect():
        client = socket.create_connection(("127.0.0.1", arguments.port + is_secure))
        if is_secure:
            client = context.wrap_socket(client, server_hostname="localhost")
        client.sendall(b"PING\r\n")
        client.recv(16)
        return client

    def settled():
        last = -1
        while (now := resident_bytes(server)) != last:
            last = now
            time.sleep(1.5)
        return now

    clients = []
    try:
        wait_until_ready(server, arguments.port)
        clients += [connect() for _ in range(50)]
        before = settled()
        clients += [connect() for _ in range(IDLE)]
        return (settled() - before) / IDLE
    finally:
        for client in clients:
            client.close()
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def compare_idle(arguments):
    print(f"bytes of resident memory for each of {IDLE} idle connections")
    for is_secure in (False, True):
        turns = [[run_idle(peer, arguments, is_secure) for peer in ("ours", "redis")] for _ in range(arguments.turns)]
        ours, redis = (statistics.median(turn[part] for turn in turns) for part in range(2))
        print(f"{'TLS' if is_secure else 'plain':6} ours {ours:8.0f}   redis {redis:8.0f}   ratio {ours / redis:.2f}", flush=True)


ALWAYS_CLIENTS = (1, 8, 64)


def run_always(peer, arguments, clients):
    """SETs a second, milliseconds of p50 and p99, and CPU microseconds a command."""
    folder = tempfile.mkdtemp(prefix="tidegate-bench-")
    server = subprocess.Popen(
        ["taskset", "-c", "0", *command(peer, arguments, arguments.port, "always", folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(server, arguments.port)
        load = ["taskset", "-c", "1", arguments.load, "--port", str(arguments.port), "--connections", str(clients)]
        load += ["--keys", str(KEYS), "--size", "3", "--op", "set", "--order", "uniform", "--seconds"]
        subprocess.run([*load, "1"], capture_output=True, check=True)
        before = cpu_ticks(server)
        found = json.loads(subprocess.run([*load, "3"], capture_output=True, check=True, text=True).stdout)
        spent = cpu_ticks(server) - before
        return found["rate"], found["p50_us"] / 1000, found["p99_us"] / 1000, spent * TICKS_US / found["count"]
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def compare_always(arguments):
    print("clients  server   SET/s  of Redis  p50 ms  p99 ms  CPU us")
    for clients in ALWAYS_CLIENTS:
        peers = ["redis", "ours", *(["floor"] if arguments.floor else [])]
        turns = {peer: [] for peer in peers}
        for number in range(arguments.turns):
            for peer in peers if number % 2 == 0 else reversed(peers):
                turns[peer].append(run_always(peer, arguments, clients))
        for peer, found in turns.items():
            rate, p50, p99, spent = (statistics.median(turn[part] for turn in found) for part in range(4))
            ratio = statistics.median(turn[0] / redis[0] for turn, redis in zip(found, turns["redis"]))
            print(f"{clients:7}  {peer:6} {rate:7.0f} {ratio:9.2f} {p50:7.2f} {p99:7.2f} {spent:7.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="target/release/tidegate")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--port", type=int, default=17801)
    parser.add_argument("--share", type=float, default=0.3, help="with `threads`: what the server may have of each core")
    parser.add_argument("--alone", action="store_true", help="without redis-server: every ratio is 1")
    parser.add_argument("--floor", help="runtime's example of that name, to be measured beside them where a reply ends a message")
    parser.add_argument("--load", default="target/release/examples/load", help="with `always`: the store's example of that name")
    parser.add_argument("--flush-ms", type=float, help="data is on a disk whose flush takes so long (root)")
    parser.add_argument("--tls", action="store_true", help="the load speaks TLS")
    parser.add_argument("cases", nargs="*", help="tests, `threads`, `idle` or `always`; without them, all tests")
    parser.add_argument("--write-ms", type=float, help="the same, of a disk without a cache, whose writes take so long (root)")
    arguments = parser.parse_args()
    arguments.certificates = None
    if arguments.tls or "idle" in arguments.cases:
        # Both servers make the folder of their data the current one.
        made = tempfile.TemporaryDirectory(prefix="tidegate-bench-tls-")
        arguments.certificates = made.name
        certify(pathlib.Path(made.name))
    is_slow = arguments.flush_ms or arguments.write_ms
    with slow_disk(arguments.flush_ms or 0, arguments.write_ms or 0) if is_slow else contextlib.nullcontext() as folder:
        tempfile.tempdir = folder
        compare(arguments)


def compare(arguments):
    if "threads" in arguments.cases:
        compare_threads(arguments)
        return
    if "idle" in arguments.cases:
        compare_idle(arguments)
        return
    if "always" in arguments.cases:
        compare_always(arguments)
        return
    print("case                 CPU us ours  redis  ratio   commands/s ours  ratio   peak MB ours  redis")
    for fsync, test, pipeline, count in CASES:
        if arguments.cases and test not in arguments.cases:
            continue
        has_floor = arguments.floor and pipeline == 1 and test in ("get", "set", "incr")
        others = [] if arguments.alone else ["redis", *(["floor"] if has_floor else [])]
        turns = {peer: [] for peer in (*others, "ours")}
        for _ in range(arguments.turns):
            for peer, found in turns.items():
                found.append(run(peer, arguments, fsync, test, pipeline, count))
        medians = {peer: [statistics.median(turn[part] for turn in found) for part in range(3)] for peer, found in turns.items()}
        ours = medians["ours"]
        redis = medians.get("redis", ours)
        name = f"{fsync} {test} -P {pipeline}"
        print(
            f"{name:20} {ours[0]:11.2f} {redis[0]:6.2f} {ours[0] / redis[0]:6.2f} {ours[1]:17.0f} {ours[1] / redis[1]:6.2f}"
            f" {ours[2]:14} {redis[2]:6}",
            flush=True,
        )
        if floor := medians.get("floor"):
            print(f"{'  a floor of':20} {floor[0]:11.2f} {'':6} {floor[0] / redis[0]:6.2f} {floor[1]:17.0f} {floor[1] / redis[1]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
