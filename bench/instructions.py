#!/usr/bin/env python3
"""Instructions that one request costs, by callgrind: bench/instructions.py [--ours PATH] [--ports-from N] [case...]

The edge runs alone under `valgrind --tool=callgrind`, once with few and once with many requests on one kept connection; the
difference is what requests cost, without start and stop. It varies by well under 1%, so it shows small changes that times do not.
Calls of the system count as the few instructions that make them.
"""
import argparse
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

FEW, MANY = 1_000, 5_000
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/plain\r\n\r\nhello world\n"
GET = b"GET /some/path?with=query HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test/1.0\r\nAccept: */*\r\n\r\n"
UNCHANGED = GET[:-2] + b"If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT\r\n\r\n"
POST = b"POST /form HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 20\r\n\r\nname=value&more=less"

# What each case asks, what the frontend says beside its address, and what `global` says.
CASES = {
    "proxied": (GET, "use_backend servers"),
    "proxied-post": (POST, "use_backend servers"),
    "proxied-rules": (
        GET,
        "option forwardfor\n  http-request set-header x-one %[path]\n  http-response set-header x-two %[status]\n"
        "  acl is_some path_beg /some\n  use_backend servers if is_some",
    ),
    "own-answer": (GET, 'http-request return status 200 content-type text/plain string "hello world"'),
    "redirect": (GET, "http-request redirect location /elsewhere"),
    # A file of 612 bytes that is open already.
    "file": (GET, "default_backend files\nbackend files\n  root FOLDER"),
    # The client has it: 304.
    "file-unchanged": (UNCHANGED, "default_backend files\nbackend files\n  root FOLDER"),
    # The cache answers; the object has been fetched before what is counted.
    "hit": (GET, "vcl builtin\n  default_backend servers"),
    # The same, with Varnish's log written.
    "hit-log": (GET, "vcl builtin\n  default_backend servers", "varnish-workdir {folder}/varnish"),
    "hit-program": (GET, f"vcl {pathlib.Path(__file__).resolve().parent}/hit.vcl\n  default_backend servers"),
}
CONFIGURATION = """
global
  nbthread 1
  {settings}
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  {rules}
backend servers
  server s1 127.0.0.1:{origin}
backend default
  server s1 127.0.0.1:{origin}
"""


def read_message(connection, received):
    """Reads one message whose length its head gives; the bytes behind it."""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65_536)
        if not more:
            raise EOFError
        received += more
    head, rest = received.split(b"\r\n\r\n", 1)
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    length = int(length.group(1)) if length else 0
    while len(rest) < length:
        rest += connection.recv(65_536)
    return rest[length:]


def answer(connection):
    received = b""
    try:
        while True:
            received = read_message(connection, received)
            connection.sendall(RESPONSE)
    except (EOFError, OSError):
        connection.close()


def serve(listener):
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def connect(port, child):
    while child.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the edge ended before it listened")


def instructions(ours, case, count, port, origin, folder):
    request, rules, *settings = CASES[case]
    settings = "".join(settings).format(folder=folder)
    configuration = folder / "edge.cfg"
    (folder / "some").mkdir(exist_ok=True)
    (folder / "some" / "path").write_bytes(b"x" * 612)
    rules = rules.replace("FOLDER", str(folder))
    configuration.write_text(CONFIGURATION.format(port=port, origin=origin, rules=rules, settings=settings))
    output = folder / "callgrind.out"
    child = subprocess.Popen(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", ours, "haproxy", "-db", "-f", configuration],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        connection = connect(port, child)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        for _ in range(count):
            connection.sendall(request)
            received = read_message(connection, received)
        connection.close()
    finally:
        child.terminate()
        child.wait()
    total = re.search(r"^(?:totals|summary): (\d+)", output.read_text(), re.MULTILINE)
    return int(total.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="target/quick/tidegate", help="the binary")
    parser.add_argument("--ports-from", type=int, default=24_500)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    arguments = parser.parse_args()
    with socket.create_server(("127.0.0.1", arguments.ports_from + 1)) as listener, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        for case in arguments.cases or CASES:
            few, many = (
                instructions(arguments.ours, case, count, arguments.ports_from, arguments.ports_from + 1, pathlib.Path(folder))
                for count in (FEW, MANY)
            )
            print(f"{case:15} {(many - few) / (MANY - FEW):8.0f}", flush=True)


if __name__ == "__main__":
    main()
