"""Three clients: one that asks too often, one that searches, one that is trusted; and one that guesses addresses."""

from judge.http import response

QUICK = True


def servers(site):
    missing = response(404, [("Content-Type", "text/plain")], "no such page\n")
    for at in (1, 2):
        site.http(f"127.0.0.{10 + at}:80", f"web{at}", {"/missing": missing})


def play(site):
    site.expect([site.get("/", source=21).status for _ in range(13)], [200] * 10 + [429] * 3)
    site.expect(site.get("/", source=21).field("retry-after"), "60")
    site.expect(site.get("/", source=22).status, 200, "another address")
    site.expect([site.get("/search?q=a", source=23).status for _ in range(5)], [200] * 3 + [429] * 2)
    site.expect(site.get("/search/deep", source=23).status, 200, "another path")
    site.expect({site.get("/", source=99).status for _ in range(15)}, {200})
    site.expect([site.get("/missing", source=24).status for _ in range(8)], [404] * 6 + [403] * 2)
    site.command("clear table www key 127.0.0.21")
    site.expect(site.get("/", source=21).status, 200, "forgiven")
    # Requests of one connection count each.
    wire = site.connect(source=25)
    site.expect([site.ask(wire, f"/{number}").status for number in range(11)], [200] * 10 + [429])
    wire.close()
