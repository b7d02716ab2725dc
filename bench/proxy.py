#!/usr/bin/env python3
"""`tidegate proxy` beside Debian's nutcracker: CPU per command, commands a second, p99.

    bench/proxy.py --ours target/packaged/tidegate [--turns 5] [--pipeline 1,100] [--clients 50] [--servers 2]
    bench/proxy.py --ours ... --share 0.3       the proxies may use a part of core 0 (cgroup, root)
    bench/proxy.py --ours ... --groups 1,2,8,32 CPU per command by the number of servers

Both run on core 0 and are loaded in turns by redis-benchmark on core 1, where the servers (redis-server) are too. Ratios are of
neighbouring turns: the median.

One command at a time (-P 1), core 1 has more to do for a command than the proxy on core 0: client and server together are what all
wait for, and throughput says how well their work is batched rather than what the proxy can do. With --share the proxy is what all
wait for, so throughput is what it can do.
"""
import argparse
import contextlib
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PORTS = {"tidegate": 29221, "nutcracker": 29222}
FIRST_SERVER = 29231
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def configuration(port, servers):
    lines = "".join(f"   - 127.0.0.1:{FIRST_SERVER + number}:1\n" for number in range(servers))
    return f"bench:\n  listen: 127.0.0.1:{port}\n  hash: murmur\n  distribution: ketama\n  redis: true\n  servers:\n{lines}"


def load(port, command, pipeline, given):
    requests = given.requests if pipeline == 1 else given.requests * 8
    words = ["taskset", "-c", "1", "redis-benchmark", "-p", str(port), "-c", str(given.clients), "-n", str(requests), "-P", str(pipeline)]
    words += ["-r", "100000", "--csv", *command]
    began = time.monotonic()
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    seconds = time.monotonic() - began
    # "test","rps","avg_latency_ms","min","p50","p95","p99","max"
    fields = re.findall(r'"([^"]*)"', said.splitlines()[-1])
    return requests, float(fields[1]), float(fields[6]), seconds


@contextlib.contextmanager
def part_of_core(share, pids):
    """Lets processes have so much of a core together for each of them."""
    if not share:
        yield
        return
    root, period = Path("/sys/fs/cgroup"), 10_000
    is_old = (root / "cpu").is_dir()
    groups = []
    try:
        for pid in pids:
            group = (root / "cpu" if is_old else root) / f"tidegate-bench-{pid}"
            group.mkdir()
            groups.append(group)
            if is_old:
                (group / "cpu.cfs_period_us").write_text(str(period))
                (group / "cpu.cfs_quota_us").write_text(str(int(period * share)))
            else:
                (group / "cpu.max").write_text(f"{int(period * share)} {period}")
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group, pid in zip(groups, pids):
            with contextlib.suppress(OSError):
                ((root / "cpu" if is_old else root) / "cgroup.procs").write_text(str(pid))
                group.rmdir()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--pipeline", default="1,100")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--share", type=float, default=0, help="of core 0, for each proxy")
    parser.add_argument("--groups", help="numbers of servers, as 1,2,8,32")
    given = parser.parse_args()
    rows = {}
    for servers in map(int, given.groups.split(",")) if given.groups else [given.servers]:
        given.servers = servers
        for case, cpu in run(given).items():
            rows.setdefault(case, []).append((servers, cpu))
    if given.groups:
        print("CPU of ours per command, us, by servers; the last column is the most servers to the fewest")
        for case, columns in rows.items():
            numbers = "  ".join(f"{servers}: {cpu:.2f}" for servers, cpu in columns)
            print(f"  {case:14} {numbers}   {columns[-1][1] / columns[0][1]:.2f}")


def run(given):
    """Measures both with so many servers. Returns our CPU per command by case."""
    running, cpus = [], {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number in range(given.servers):
                words = ["redis-server", "--port", str(FIRST_SERVER + number), "--save", "", "--dir", folder]
                running.append(subprocess.Popen(["taskset", "-c", "1", *words], **QUIET))
            proxies = {}
            for name, port in PORTS.items():
                path = Path(folder, f"{name}.yml")
                path.write_text(configuration(port, given.servers))
                # An example of kvproxy (target/quick/examples/pool) is quicker to build than all of Tidegate.
                is_lean = Path(given.ours).name == "pool"
                program = [given.ours, "nutcracker"] if name == "tidegate" else ["nutcracker", "-o", f"{folder}/log", "-p", f"{folder}/pid"]
                words = [*program, "-c", str(path), "-s", str(port + 100)]
                if name == "tidegate" and is_lean:
                    words = [given.ours, str(path)]
                proxy = subprocess.Popen(["taskset", "-c", "0", *words], **QUIET)
                running.append(proxy)
                proxies[name] = proxy.pid
            time.sleep(1)
            with part_of_core(given.share, list(proxies.values())):
                for pipeline in map(int, given.pipeline.split(",")):
                    for command in (["SET", "key:__rand_int__", "xxxxxxxxxxxxxxxx"], ["GET", "key:__rand_int__"]):
                        cpus[f"{command[0]} -P {pipeline}"] = measure(proxies, command, pipeline, given)
        finally:
            for process in running:
                process.terminate()
                process.wait()
    return cpus


def measure(proxies, command, pipeline, given):
    seen = {name: [] for name in proxies}
    for turn in range(given.turns + 1):
        for name, pid in proxies.items():
            before = cpu_seconds(pid)
            requests, rate, p99, _ = load(PORTS[name], command, pipeline, given)
            # The first turn warms up.
            if turn:
                seen[name].append(((cpu_seconds(pid) - before) * 1e6 / requests, rate, p99))
    print(f"{command[0]} -P {pipeline}, {given.clients} clients, {given.servers} servers")
    for name, turns in seen.items():
        cpu, rate, p99 = (statistics.median(column) for column in zip(*turns))
        print(f"  {name:10} {cpu:8.2f} us/command {rate:10.0f}/s  p99 {p99:.2f} ms")
    pairs = list(zip(seen["tidegate"], seen["nutcracker"]))
    ratios = [statistics.median(ours[place] / theirs[place] for ours, theirs in pairs if theirs[place]) for place in range(3)]
    print(f"  ours / nutcracker: CPU {ratios[0]:.2f}, throughput {ratios[1]:.2f}, p99 {ratios[2]:.2f}", flush=True)
    return statistics.median(cpu for cpu, _, _ in seen["tidegate"])


main()
