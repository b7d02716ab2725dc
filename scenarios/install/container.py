#!/usr/bin/env -S python3 -u
"""Runs the steps of the Containerfile where there is no podman, and what comes of them.

container.py build FILE DEBIAN IMAGE PROGRAM   the steps of its first stage in the folder DEBIAN, which stands for the image that it begins
                                               with; `make build` alone is left out, and PROGRAM taken for what it builds
container.py try FILE IMAGE                    starts what came of it: the load balancer as it stands there, and the store
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from machine import Machine, check, wait_for
from package import ask_store, get

# Without the program itself, which is far larger when it is built for tests.
LIBRARIES_MAX = 10 << 20


def steps(file):
    """Instructions and what stands behind them, without comments."""
    text = Path(file).read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def stages(file):
    found = []
    for name, rest in steps(file):
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def ignored(file):
    return [line for line in Path(file).read_text().splitlines() if line and not line.startswith("#")]


def build(file, debian, image, program):
    machine = Machine(debian)
    # Packages come over the network.
    shutil.copy("/etc/resolv.conf", machine.path("/etc/resolv.conf"))
    first, last = stages(file)
    folder = "/"
    for name, rest in first:
        if name == "WORKDIR":
            folder = rest
            machine.path(folder).mkdir(parents=True, exist_ok=True)
        elif (name, rest) == ("COPY", ". ."):
            copied = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, stdout=subprocess.PIPE)
            names = [name for name in copied.stdout.decode().split("\0") if name and Path(name).is_file()]
            for path in names:
                check_not_ignored(path)
                target = machine.path(folder) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        elif (name, rest) == ("RUN", "make build"):
            built = machine.path(folder) / "target/release/tidegate"
            built.parent.mkdir(parents=True)
            shutil.copy2(program, built)
            print("left out: make build")
        elif name == "RUN":
            machine.run("sh", "-c", rest, cwd=folder)
            print(f"ok: RUN {rest}")
        elif name != "FROM":
            raise SystemExit(f"FAILED: the first stage has a step that is not known here: {name} {rest}")
    copies = [rest for name, rest in last if name == "COPY"]
    check("the last stage is made of the first one alone", copies == ["--from=build /image /"], str(copies))
    shutil.copytree(machine.path("/image"), image, symlinks=True)
    for path in [Path(image), *Path(image).rglob("*")]:
        made = machine.path("/image") / path.relative_to(image)
        shutil.chown(path, made.stat().st_uid, made.stat().st_gid)


def check_not_ignored(path):
    for pattern in ignored(".containerignore"):
        if path == pattern or path.startswith(pattern + "/"):
            raise SystemExit(f"FAILED: .containerignore leaves {path} out, which is part of the project")


def size(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink())


def run_as_image_says(file, image):
    last = dict(stages(file)[-1])
    user = int(last["USER"].split(":")[0])
    entry, command = json.loads(last["ENTRYPOINT"]), json.loads(last["CMD"])
    check("it does not run as root", user > 0)
    machine = Machine(image)
    # What a runtime makes: /run is the image's own.
    subprocess.run(["umount", machine.path("/run")], check=True)
    log = machine.path("/tmp/log")

    edge = machine.start([*entry, *command], user, log=log)

    def answers():
        if edge.poll() is not None:
            raise SystemExit(f"FAILED: the load balancer ended with {edge.returncode}\n{log.read_text()}")
        try:
            return get(8080)
        except OSError:
            return None

    status, body = wait_for("the load balancer", answers)
    check("the load balancer answers on port 8080", status == 200 and "haproxy.cfg" in body, body)
    check("its statistics are there", get(8404)[0] == 200)
    owner = int(machine.path(f"/proc/{edge.pid}/status").read_text().split("Uid:\t")[1].split()[0])
    check("it is the image's user", owner == user, str(owner))
    reloaded = machine.run(*entry, "reload", user=user)
    check("it reloads", "serves the new configuration" in reloaded.stdout, reloaded.stdout)
    edge.terminate()
    check("it ends when it is told", edge.wait(60) in (0, 143), log.read_text())

    store = machine.start([*entry, "store", "/etc/tidegate/store/redis.conf"], user, log=log)

    def stored():
        if store.poll() is not None:
            raise SystemExit(f"FAILED: the store ended with {store.returncode}\n{log.read_text()}")
        try:
            return ask_store("SET", "greeting", "hello")
        except OSError:
            return None

    check("the store takes a write", wait_for("the store", stored) == "+OK\r\n")
    store.terminate()
    check("it ends when it is told", store.wait(60) == 0, log.read_text())
    check("its data is in the volume", machine.path("/var/lib/tidegate/shard-0").is_dir())


def main():
    if sys.argv[1] == "build":
        build(*sys.argv[2:])
        image = sys.argv[4]
        program = size(Path(image) / "usr/bin")
        check("the image has little but the program", size(image) - program < LIBRARIES_MAX, str(size(image)))
        print(f"the image has {size(image) / 1e6:.1f} MB, {program / 1e6:.1f} of them the program")
    else:
        run_as_image_says(*sys.argv[2:])


if __name__ == "__main__":
    main()
