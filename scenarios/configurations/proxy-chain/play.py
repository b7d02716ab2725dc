"""The client's address arrives at the application through both."""

import struct


def header(wire):
    """The PROXY protocol's second version."""
    first = wire.exactly(16)
    wire.exactly(struct.unpack(">H", first[14:16])[0])


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app1", banner=header)


def play(site):
    site.wait_status("UP", "inner/inner")
    for source in (30, 31):
        site.expect(site.get("/", source=source).status, 200)
        site.expect(site.place.named(site.app.received[-1].field("x-forwarded-for")), f"127.0.0.{source}")
    site.expect(site.get("/", source=32).status, 403)
    # Whether the outer one sees an end or a reset is a matter of luck.
    site.mask(r"(127.0.0.33:PORT \[DATE\] outer .* 0) (--|SD) ", r"\1 ENDED ")
    site.mask(r"(inner/(?:inner|BACKEND) (?:srv_abrt|eresp))=\d", r"\1=N")
    site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", source=33)
    site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", to="127.0.0.1:9080")
    address = site.place.real("127.0.0.77")
    site.exchange(f"PROXY TCP4 {address} 127.0.0.1 1234 443\r\nGET /v1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode(), to="127.0.0.1:9080")
    site.exchange(b"PROXY UNKNOWN\r\nGET /unknown HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", to="127.0.0.1:9080")
