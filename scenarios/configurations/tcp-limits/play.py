"""Five at once from one address, ten one after the other from another, and what the server sees of them."""


def servers(site):
    def talk(wire):
        while wire.fill():
            wire.send(wire.take(len(wire.buffer)))

    site.service = site.tcp("127.0.0.11:7000", "s1", talk)


def echo(site, source):
    wire = site.connect(source=source)
    wire.send(b"hello")
    return wire, wire.exactly(5)


def play(site):
    first = [echo(site, 51) for _ in range(2)]
    site.expect([answer for _, answer in first], [b"hello", b"hello"])
    # Both places are taken: the third waits in vain, the fourth is refused at the door.
    third = site.connect(source=51)
    site.expect((third.rest(), third.ended), (b"", "end"))
    third.close()
    for wire, _ in first:
        wire.close()
    site.pause(0.05)
    held = [site.connect(source=52) for _ in range(3)]
    site.pause(0.02)
    site.expect(echo(site, 52)[1], b"")
    # The one that waits gives up first.
    for wire in reversed(held):
        wire.close()
        site.pause(0.03)
    site.pause(0.1)
    answers = []
    for _ in range(10):
        wire, answer = echo(site, 53)
        answers.append(answer)
        wire.close()
        site.pause(0.01)
    site.expect(answers, [b"hello"] * 8 + [b""] * 2)
