"""The first words of PostgreSQL's protocol, spoken through the proxy to a real server; the other one never comes up."""

import struct


def startup(user):
    body = struct.pack(">I", 196608) + b"user\0" + user + b"\0database\0postgres\0\0"
    return struct.pack(">I", 4 + len(body)) + body


def query(text):
    body = text.encode() + b"\0"
    return b"Q" + struct.pack(">I", 4 + len(body)) + body


def message(wire):
    kind = wire.exactly(1)
    length = struct.unpack(">I", wire.exactly(4))[0]
    return kind, wire.exactly(length - 4)


def select(site, to, sql):
    """The one value of a query through the proxy."""
    wire = site.connect(to)
    wire.send(startup(b"haproxy"))
    while message(wire)[0] != b"Z":
        pass
    wire.send(query(sql))
    value = None
    while (part := message(wire))[0] != b"Z":
        if part[0] == b"D":
            value = part[1][6:].decode()
    wire.send(b"X\0\0\0\4")
    wire.rest()
    wire.close()
    site.note(f"{to} {sql} = {value}")
    return value


def servers(site):
    site.postgres("127.0.0.11:5432")


def play(site):
    # How many bytes a greeting has depends on the server's process number and secret.
    site.wait_status("UP", "primary/pg1", "replicas/pg1")
    site.wait_status("DOWN", "primary/pg2", "replicas/pg2")
    site.expect(select(site, "127.0.0.1:5432", "select 6 * 7"), "42")
    site.expect([select(site, "127.0.0.1:5433", f"select {n}") for n in (1, 2)], ["1", "2"])
