"""A letter, an impatient client, and a mailbox that is always found again."""


def smtp(name):
    def talk(wire):
        first = wire.buffer or (wire.fill() and wire.buffer)
        who = ""
        if wire.buffer.startswith(b"PROXY"):
            who = wire.through(b"\r\n").decode().split(" ")[2]
        wire.send(f"220 {name} ESMTP\r\n")
        while line := wire.through(b"\r\n"):
            word = line.split()[0].upper() if line.split() else b""
            if word == b"QUIT":
                wire.send("221 bye\r\n")
                return
            wire.send(f"250 {name} for {who}\r\n")

    return talk


def imap(name):
    def talk(wire):
        wire.send(f"* OK {name} ready\r\n")
        while line := wire.through(b"\r\n"):
            if b"LOGOUT" in line:
                wire.send(f"* BYE {name}\r\n")
                return
            wire.send(f"* {name}\r\n")

    return talk


def servers(site):
    for at in (1, 2):
        site.tcp(f"127.0.0.{10 + at}:25", f"mx{at}", smtp(f"mx{at}"))
        site.tcp(f"127.0.0.{10 + at}:143", f"box{at}", imap(f"box{at}"))


def talk(site, to, source, *lines, wait_first=True):
    wire = site.connect(to, source)
    answers = [wire.through(b"\r\n")] if wait_first else []
    for line in lines:
        wire.send(line + "\r\n")
        answers.append(wire.through(b"\r\n"))
    rest = wire.rest(0.05)
    wire.close()
    answers = [site.place.named((answer or b"closed").decode().strip()) for answer in answers]
    site.note(f"{to} from {source}: {lines} {answers} {rest}")
    return answers


def play(site):
    site.wait_status("UP", "exchangers/mx1", "exchangers/mx2", "imap/box1", "imap/box2")
    first = talk(site, "127.0.0.1:25", 61, "EHLO client", "MAIL FROM:<a@example.com>", "QUIT")
    site.expect(first, ["220 mx1 ESMTP", "250 mx1 for 127.0.0.61", "250 mx1 for 127.0.0.61", "221 bye"])
    site.expect(talk(site, "127.0.0.1:25", 62, "EHLO rude", wait_first=False), ["closed"])
    for source in (63, 64, 65, 66, 67):
        homes = {talk(site, "127.0.0.1:143", source, "a1 NOOP")[0] for _ in range(2)}
        site.expect(len(homes), 1)
