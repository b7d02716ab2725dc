"""Starts an edge and a server behind it, and has clients ask for pages. Each line that is printed is a client and what it has done."""

import asyncio
import hashlib
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, StreamReset

BIG = os.urandom(3_000_000)
PATIENCE = 30


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(BIG if self.path == "/big" else self.path.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.answer(hashlib.sha256(body).hexdigest().encode())

    def log_message(self, *_):
        pass


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http, self.streams, self.closed = None, {}, None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if isinstance(event, ConnectionTerminated):
            self.closed = event
            for _, done, _ in self.streams.values():
                if not done.done():
                    done.set_exception(RuntimeError(f"closed: {event.error_code:#x} {event.reason_phrase}"))
        if isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id][1].set_exception(RuntimeError(f"reset: {event.error_code:#x}"))
        for piece in self.http.handle_event(event) if self.http else []:
            head, done, body = self.streams.get(piece.stream_id, (None, None, None))
            if isinstance(piece, HeadersReceived) and head is not None:
                head.extend(piece.headers)
            if isinstance(piece, DataReceived) and head is not None:
                body.extend(piece.data)
            if head is not None and piece.stream_ended and not done.done():
                done.set_result(None)

    async def ask(self, path, method=b"GET", body=None, more=()):
        stream = self._quic.get_next_available_stream_id()
        self.streams[stream] = ([], asyncio.get_running_loop().create_future(), bytearray())
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]
        if body is not None:
            head.append((b"content-length", str(len(body)).encode()))
        self.http.send_headers(stream, head + list(more), end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        head, done, body = self.streams[stream]
        await asyncio.wait_for(done, PATIENCE)
        return dict(head)[b":status"], bytes(body)


def configuration(authority, **named):
    settings = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", **named)
    settings.load_verify_locations(authority)
    return settings


async def aioquic(port, authority):
    tickets = []
    settings = configuration(authority)
    session = connect("127.0.0.1", port, configuration=settings, create_protocol=Client, session_ticket_handler=tickets.append)
    async with session as client:
        assert await client.ask(b"/own") == (b"200", b"HTTP/3.0 TLSv1.3"), "a page of the edge"
        assert await client.ask(b"/path?query") == (b"200", b"/path?query"), "a page of the server"
        assert (await client.ask(b"/denied"))[0] == b"403", "a rule's answer"
        status, told = await client.ask(b"/", b"POST", BIG)
        assert (status, told) == (b"200", hashlib.sha256(BIG).hexdigest().encode()), "a large request"
        answers = await asyncio.gather(*(client.ask(b"/%d" % number) for number in range(80)))
        assert all(answer == (b"200", b"/%d" % number) for number, answer in enumerate(answers)), "many at a time"
        assert all(answer == (b"200", BIG) for answer in await asyncio.gather(*(client.ask(b"/big") for _ in range(5))))
        client.change_connection_id()
        assert (await client.ask(b"/after"))[0] == b"200", "another id of the connection"
        client.request_key_update()
        assert (await client.ask(b"/after"))[0] == b"200", "other keys"
    print("aioquic: pages, bodies both ways, 80 at a time, another id, other keys")
    assert tickets, "a ticket"
    settings = configuration(authority, session_ticket=tickets[0])
    async with connect("127.0.0.1", port, configuration=settings, create_protocol=Client) as client:
        assert (await client.ask(b"/own"))[0] == b"200"
        assert client._quic.tls.session_resumed, "the session is resumed"
        assert not client._quic.tls.early_data_accepted, "early data is refused"
    print("aioquic: a resumed session")
    bad = configuration(authority)
    bad.alpn_protocols = ["hq-interop"]
    try:
        async with connect("127.0.0.1", port, configuration=bad, create_protocol=Client):
            raise SystemExit("a protocol that is not spoken was taken")
    except ConnectionError:
        print("aioquic: a protocol that is not spoken is refused")


def edge(program, work):
    key, certificate = f"{work}/key.pem", f"{work}/cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    with open(f"{work}/site.pem", "w") as site:
        site.write(open(certificate).read() + open(key).read())
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(f"{work}/haproxy.cfg", "w") as text:
        text.write(f"""
global
    nbthread 2
defaults
    mode http
    timeout client 20s
    timeout server 20s
    timeout connect 5s
frontend site
    bind 127.0.0.1:{port} ssl crt {work}/site.pem alpn h2,http/1.1
    bind quic4@127.0.0.1:{port} ssl crt {work}/site.pem alpn h3
    http-after-response add-header alt-svc 'h3=":{port}"; ma=60'
    http-request deny if {{ path /denied }}
    http-request return status 200 content-type text/plain lf-string "%HV %[ssl_fc_protocol]" if {{ path /own }}
    default_backend servers
backend servers
    server s1 127.0.0.1:{origin.server_address[1]}
""")
    running = subprocess.Popen([program, "edge", "-f", f"{work}/haproxy.cfg"])
    for _ in range(100):
        with socket.socket() as look:
            if look.connect_ex(("127.0.0.1", port)) == 0:
                return running, port, certificate
        time.sleep(0.1)
    raise SystemExit("the edge does not listen")


def chromium(port, certificate, work):
    """A page as the browser sees it, which is told to begin with HTTP/3."""
    key = subprocess.run(
        f"openssl x509 -in {certificate} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
        shell=True, check=True, capture_output=True, text=True,
    ).stdout.strip()
    page = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}/chromium",
         f"--origin-to-force-quic-on=localhost:{port}", f"--ignore-certificate-errors-spki-list={key}",
         "--host-resolver-rules=MAP localhost 127.0.0.1", "--dump-dom", f"https://localhost:{port}/own"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout
    assert "HTTP/3.0 TLSv1.3" in page, page
    print("chromium: a page")


def main():
    program, go = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        running, port, certificate = edge(program, work)
        try:
            asyncio.run(aioquic(port, certificate))
            if shutil.which("chromium"):
                chromium(port, certificate, work)
            else:
                print("chromium is not there: left out")
            subprocess.run([go, f"localhost:{port}", certificate], check=True, timeout=60)
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(20)


main()
