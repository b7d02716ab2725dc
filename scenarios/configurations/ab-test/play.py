"""Visitors fall into their halves by a hash, and stay there by the cookie."""


def servers(site):
    site.http("127.0.0.11:8000", "a1")
    site.http("127.0.0.12:8000", "b1")


def play(site):
    seen = {}
    for number in range(16):
        answer = site.get("/", headers=[("X-Visitor", f"visitor-{number}")])
        seen[number] = answer.field("set-cookie").split(";")[0]
        site.expect(answer.text[0], seen[number][-1])
    site.expect(set(seen.values()), {"variant=a", "variant=b"})
    for number in range(4):
        site.expect(site.get("/", headers=[("Cookie", seen[number])]).fields("set-cookie"), [])
    site.get("/", headers=[("Cookie", "variant=B")])
    site.get("/", headers=[("Cookie", "variant=c")])
    site.get("/")
