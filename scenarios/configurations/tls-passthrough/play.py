"""First messages with and without a name, in one piece and in two, and what is no TLS at all."""

import struct
import time

QUICK = True


def hello(name):
    """A client's first message of TLS 1.2."""
    names = b""
    if name:
        entry = b"\0" + struct.pack(">H", len(name)) + name.encode()
        names = struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry
    extensions = struct.pack(">H", len(names)) + names if names else b""
    body = b"\x03\x03" + b"r" * 32 + b"\0" + struct.pack(">H", 2) + b"\x13\x01" + b"\x01\0" + extensions
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def servers(site):
    for at in (1, 2, 3):
        site.tcp(f"127.0.0.{10 + at}:9000", f"s{at}", lambda wire, at=at: (wire.fill(), wire.send(f"server {at}\n")))


def ask(site, data, source=None):
    wire = site.connect("127.0.0.1:8443", source)
    for part in (data[:5], data[5:]):
        wire.send(part)
        time.sleep(0.03)
    answer = wire.rest(2)
    site.note(f"{data!r} from {source}: {answer!r}, then {wire.ended}")
    wire.close()
    time.sleep(0.02)
    return answer


def play(site):
    for name, server in (
        ("one.example.com", b"server 1\n"),
        ("ONE.example.COM", b"server 1\n"),
        ("www.two.example.com", b"server 2\n"),
        ("example.org", b"server 2\n"),
        ("a.guarded.example.com", b"server 3\n"),
        ("unknown.example.com", b""),
        ("", b""),
    ):
        site.expect(ask(site, hello(name)), server, name)
    site.expect(ask(site, hello("a.guarded.example.com"), source=66), b"", "from where nobody may come")
    site.expect(ask(site, hello("unknown.example.com"), source=67), b"", "no rule after the map")
    site.expect(ask(site, b"GET / HTTP/1.1\r\n\r\n"), b"", "no TLS")
    site.expect(ask(site, hello("one.example.com")[:20]), b"", "half a message")
