"""Two requests on a connection for each way of keeping it, by clients of both versions and from behind proxies."""

from judge.http import response

QUICK = True


def servers(site):
    missing = response(404, [("Content-Type", "text/plain")], "no such page\n")
    site.http("127.0.0.11:8000", "app1", {"/missing": missing})


def play(site):
    for path in ("/", "/once", "/pretend", "/by-itself"):
        wire = site.connect()
        site.expect([site.ask(wire, f"{path}/{number}").status for number in range(2)], [200, 200], path)
        wire.close()
        for source in (60, 61):
            site.get(path, source=source, headers=[("X-Forwarded-For", "192.0.2.1"), ("X-Client", "192.0.2.2")])
        site.get(path, version="1.0")
        site.get(path, version="1.0", headers=[("Connection", "keep-alive")])
        site.get(path, headers=[("Connection", "close")])
    site.expect(site.get("/straight").status, 200)
    site.expect(site.get("/once", source=66), None, "rejected by the backend")
    # What is made here follows the frontend, too.
    wire = site.connect()
    site.expect([site.ask(wire, "/once/denied").status for _ in range(2)], [410, 410])
    # A redirect of a response comes when the request's body is over.
    for method, body in (("GET", None), ("POST", "a=1"), ("POST", "a=2")):
        site.expect(site.ask(wire, "/missing", method=method, body=body).status, 303)
    wire.close()
    # A pool that there is, and one that there is not, which is for the default.
    for pool in ("once", "nowhere"):
        site.get("/", to="127.0.0.1:8081", headers=[("X-Pool", pool)])
    wire = site.connect("127.0.0.1:8081")
    site.expect(site.ask(wire, "/").field("connection"), "close")
    site.expect(wire.rest(), b"")
    wire.close()
