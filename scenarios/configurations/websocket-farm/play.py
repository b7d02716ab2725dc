"""Handshakes, frames both ways, a tunnel that falls silent, a server that refuses the upgrade."""

import base64
import hashlib

QUICK = True

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HEADERS = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Version", "13"),
    ("Origin", "http://www.example.com"),
]


def chat(name):
    def upgrade(message, wire):
        digest = hashlib.sha1(message.field("sec-websocket-key").encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        accept = base64.b64encode(digest.digest()).decode()
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        greeting = f"{name} here".encode()
        wire.send(bytes([0x81, len(greeting)]) + greeting)
        while wire.buffer or wire.fill():
            wire.send(wire.take(len(wire.buffer)))
        return b""

    return upgrade


def servers(site):
    for at in (1, 2):
        site.http(f"127.0.0.{10 + at}:8000", f"page{at}")
        site.http(f"127.0.0.{20 + at}:9000", f"chat{at}", {"/chat": chat(f"chat{at}")})


def enter(site):
    wire = site.connect()
    answer = site.ask(wire, "/chat", headers=HEADERS)
    site.expect((answer.status, answer.field("sec-websocket-accept")), (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    head = wire.exactly(2)
    wire.greeting = wire.exactly(head[1]).decode()
    site.note(wire.greeting)
    return wire


def play(site):
    site.expect([site.get("/").text.split()[0] for _ in range(2)], ["page1", "page2"])
    wires = [enter(site), enter(site)]
    site.expect([wire.greeting for wire in wires], ["chat1 here", "chat2 here"])
    for wire in wires:
        wire.send(b"\x82\x05hello")
        site.expect(wire.exactly(7), b"\x82\x05hello")
    wires[0].close()
    # The other one says nothing more and is ended.
    site.expect((wires[1].rest(), wires[1].ended), (b"", "end"))
    foreign = [pair if pair[0] != "Origin" else ("Origin", "http://evil.example") for pair in HEADERS]
    site.expect(site.get("/chat", headers=foreign).status, 403)
    site.expect(site.get("/lobby", headers=HEADERS).status, 200)
    # Without `Connection: upgrade` it is a page like others.
    alone = [("Upgrade", "websocket"), ("Origin", "http://www.example.com")]
    site.expect(site.get("/talk", headers=alone).text.split()[0], "page1")
