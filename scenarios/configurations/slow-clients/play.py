"""Heads and bodies that never become whole, connections that say nothing, traps."""

import time


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app1")


def play(site):
    # Whether the first bytes are there when the connection is looked at is a matter of luck.
    site.mask(r"^(raw/FRONTEND bin)=\d+", r"\1=N")
    site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n")
    site.exchange(b"")
    site.exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    site.expect(len(site.app.received), 0)
    site.exchange(b"GET /keep HTTP/1.1\r\nHost: a\r\n\r\n")
    site.expect(site.get("/trap").status, 500)
    site.exchange(b"GET /reject HTTP/1.1\r\nHost: a\r\n\r\n")
    wire = site.connect()
    wire.send(b"POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    time.sleep(0.1)
    wire.send(b"67890")
    site.expect(wire.message().status, 200)
    wire.close()
    to = "127.0.0.1:8081"
    site.exchange(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n12345", to=to, wait=0.6)
    site.expect(site.get("/b", to=to, method="POST", body="x" * 51).status, 413)
    site.expect(site.get("/c", to=to, method="POST", body="x" * 50).status, 200)
    site.exchange(b"", to="127.0.0.1:8082")
    site.exchange(b"abc", to="127.0.0.1:8082")
    site.exchange(b"GET / HTTP/1.0\r\n\r\n", to="127.0.0.1:8082")
