"""Writes find the primary, reads the replica, and both do again after the roles have changed."""


def talk(site, to, *commands):
    wire = site.connect(to)
    answers = []
    for command in commands:
        wire.send(command + "\r\n")
        line = wire.through(b"\r\n") or b"closed"
        if line.startswith(b"$"):
            line = wire.through(b"\r\n")
        answers.append(line.decode().strip())
    wire.close()
    site.note(f"{to} {commands} {answers}")
    return answers


def servers(site):
    site.redis("127.0.0.11:6379")
    host = site.place.address("127.0.0.11:6379")[0]
    site.redis("127.0.0.12:6379", "--replicaof", host, "6379", "--repl-diskless-sync-delay", "0")


def play(site):
    site.mask(r"(status|conn|code)=\S+ dur=\d+", r"\1")
    site.wait_status("UP", "primary/redis1", "replicas/redis2", "sessions/redis2")
    site.wait_status("DOWN", "primary/redis2", "replicas/redis1")
    site.expect(talk(site, "127.0.0.1:6379", "SET color blue", "GET color"), ["+OK", "blue"])
    site.expect(talk(site, "127.0.0.1:6380", "SET color red")[0][:9], "-READONLY")
    site.expect(talk(site, "127.0.0.1:6381", "PING"), ["+PONG"])
    host = site.place.address("127.0.0.12:6379")[0]
    direct = site.connect("127.0.0.12:6379")
    direct.send("REPLICAOF NO ONE\r\n")
    direct.through(b"\r\n")
    direct = site.connect("127.0.0.11:6379")
    direct.send(f"REPLICAOF {host} 6379\r\n")
    direct.through(b"\r\n")
    site.wait_status("UP", "primary/redis2", "replicas/redis1")
    site.wait_status("DOWN", "primary/redis1", "replicas/redis2")
    site.expect(talk(site, "127.0.0.1:6379", "SET color green"), ["+OK"])
