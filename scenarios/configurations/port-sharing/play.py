"""Who speaks first, and how."""


def hello(name):
    """A TLS client's first record with a server name."""
    extension = b"\0\0" + (len(name) + 5).to_bytes(2, "big") + (len(name) + 3).to_bytes(2, "big") + b"\0" + len(name).to_bytes(2, "big") + name
    body = b"\3\3" + b"r" * 32 + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(extension).to_bytes(2, "big") + extension
    shake = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + len(shake).to_bytes(2, "big") + shake


def greet(name):
    def talk(wire):
        wire.send(f"{name}\n")
        while wire.fill():
            wire.send(f"{len(wire.take(len(wire.buffer)))}\n")

    return talk


def servers(site):
    for address, name in [("127.0.0.11:22", "ssh1"), ("127.0.0.12:443", "tls1"), ("127.0.0.13:443", "tls2")]:
        site.tcp(address, name, greet(name))
    site.http("127.0.0.14:80", "web1")


def play(site):
    def first_line(data):
        wire = site.connect()
        wire.send(data)
        line = wire.through(b"\n")
        # Whoever leaves before all of it is there, leaves with a reset or without one, as it happens.
        if data:
            wire.through(b"\n")
        wire.close()
        site.pause(0.01)
        return (line or b"").decode().strip()

    site.mask(r" \d+ (SD|CD|cD|--) ", r" BYTES \1 ")
    site.expect(first_line(b"SSH-2.0-OpenSSH_9.2\r\n"), "ssh1")
    site.expect(first_line(hello(b"www.example.com")), "tls1")
    site.expect(first_line(hello(b"SHOP.example.com")), "tls2")
    site.expect(first_line(b"\0\1\2\3\4\5\6"), "ssh1")
    site.expect(first_line(b""), "ssh1")
    site.expect(site.get("/page").text, "web1 GET /page\n")
    wire = site.connect()
    site.expect([site.ask(wire, path).status for path in ("/a", "/b")], [200, 200])
    wire.close()
