"""Calls of every kind through an edge: answers, errors, metadata, deadlines, many at a time, a reload, a server that restarts."""

import concurrent.futures
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc

PROGRAM = sys.argv[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service(grpc.GenericRpcHandler):
    """Methods without a schema: requests and replies are bytes."""

    cancelled = threading.Event()

    def service(self, call):
        kinds = {
            "/t/Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "/t/Down": grpc.unary_stream_rpc_method_handler(self.down),
            "/t/Up": grpc.stream_unary_rpc_method_handler(self.up),
            "/t/Both": grpc.stream_stream_rpc_method_handler(self.both),
            "/t/Fails": grpc.unary_unary_rpc_method_handler(self.fails),
            "/t/Waits": grpc.unary_unary_rpc_method_handler(self.waits),
        }
        return kinds.get(call.method)

    def unary(self, request, context):
        seen = dict(context.invocation_metadata())
        context.set_trailing_metadata((("x-trailing", "yes"), ("x-binary-bin", b"\x00\xff")))
        return request + seen.get("x-leading", "").encode()

    def down(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number + b"." * 5_000

    def up(self, requests, context):
        return b"%d" % sum(len(request) for request in requests)

    def both(self, requests, context):
        for request in requests:
            yield request[::-1]

    def fails(self, request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today: %s" % request.decode())

    def waits(self, request, context):
        context.add_callback(self.cancelled.set)
        while context.is_active():
            time.sleep(0.02)
        return b""


def serve(port):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((Service(),))
    assert server.add_insecure_port(f"127.0.0.1:{port}") == port
    server.start()
    return server


def calls(channel):
    unary, down = channel.unary_unary("/t/Unary"), channel.unary_stream("/t/Down")
    up, both = channel.stream_unary("/t/Up"), channel.stream_stream("/t/Both")
    reply, call = unary.with_call(b"hello", metadata=(("x-leading", "-there"),), timeout=20)
    assert reply == b"hello-there", reply
    trailing = dict(call.trailing_metadata())
    assert trailing["x-trailing"] == "yes" and trailing["x-binary-bin"] == b"\x00\xff", trailing
    large = os.urandom(1_000_000)
    assert unary(large, timeout=20) == large
    pieces = list(down(b"300", timeout=20))
    assert [int(piece.split(b".")[0]) for piece in pieces] == list(range(300)), len(pieces)
    assert up((b"x" * 10_000 for _ in range(200)), timeout=20) == b"2000000"

    # Each piece waits for the answer to the one before it.
    heard, turn = [], threading.Semaphore(1)

    def questions():
        for number in range(50):
            turn.acquire()
            yield b"%03d" % number

    for answer in both(questions(), timeout=20):
        heard.append(answer)
        turn.release()
    assert heard == [(b"%03d" % number)[::-1] for number in range(50)], heard

    try:
        channel.unary_unary("/t/Fails")(b"monday", timeout=20)
        raise AssertionError("it does not fail")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and error.details() == "not today: monday", error
    try:
        channel.unary_unary("/t/Nowhere")(b"", timeout=20)
        raise AssertionError("it is found")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error

    # A call that the client gives up is given up at the server.
    Service.cancelled.clear()
    try:
        channel.unary_unary("/t/Waits")(b"", timeout=0.3)
        raise AssertionError("it does not wait")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    assert Service.cancelled.wait(20), "the server is not told"
    assert unary(b"still", timeout=20) == b"still"


def many(channel, count):
    unary = channel.unary_unary("/t/Unary")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        asked = [b"%d" % number for number in range(count)]
        assert list(pool.map(lambda request: unary(request, timeout=30), asked)) == asked


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain, secure, port = free_port(), free_port(), free_port()
        certificate = os.path.join(folder, "site.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
            + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
            + ["-keyout", certificate + ".key", "-out", certificate],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        configuration = os.path.join(folder, "haproxy.cfg")
        with open(configuration, "w") as file:
            file.write(
                f"defaults\n mode http\n timeout client 1m\n timeout server 1m\n timeout connect 5s\n"
                f"frontend grpc\n bind 127.0.0.1:{plain} proto h2\n"
                f" bind 127.0.0.1:{secure} ssl crt {certificate} alpn h2\n default_backend services\n"
                f"backend services\n server service 127.0.0.1:{port} proto h2\n"
            )
        server = serve(port)
        log = open(os.path.join(folder, "log"), "w+")
        edge = subprocess.Popen([PROGRAM, "edge", "-W", "-f", configuration], stdout=log, stderr=log)
        try:
            with open(certificate, "rb") as file:
                trusted = grpc.ssl_channel_credentials(file.read())
            for name, channel in (
                ("without TLS", grpc.insecure_channel(f"127.0.0.1:{plain}")),
                ("with TLS", grpc.secure_channel(f"localhost:{secure}", trusted)),
            ):
                grpc.channel_ready_future(channel).result(timeout=20)
                calls(channel)
                many(channel, 1_000)
                print(f"{name}: ok", flush=True)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                calling = pool.submit(many, channel, 3_000)
                edge.send_signal(signal.SIGUSR2)
                calling.result()
            calls(channel)
            print("reload: ok", flush=True)
            server.stop(5).wait()
            server = serve(port)
            calls(channel)
            print("a server that restarts: ok", flush=True)
        except BaseException:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
        finally:
            edge.terminate()
            edge.wait()
            server.stop(0)


main()
