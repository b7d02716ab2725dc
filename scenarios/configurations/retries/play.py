"""The first server answers with nothing, with nonsense, with 503; the second one is well."""

from judge.http import response


def servers(site):
    pages = {"/empty": b"", "/nonsense": b"what?\r\n\r\n", "/busy": response(503, [], "busy\n"), "/order": b""}
    site.bad = site.http("127.0.0.11:8000", "app1", pages)
    site.good = site.http("127.0.0.12:8000", "app2")


def play(site):
    for path in ("/empty", "/nonsense", "/busy"):
        for _ in range(2):
            site.expect(site.get(path).text.split()[0], "app2")
    site.expect(sorted(site.get("/busy", method="POST", body="x").status for _ in range(2)), [200, 503])
    site.expect(sorted(site.get("/order", method="POST", body="x").status for _ in range(2)), [200, 502])
    site.expect(site.get("/refused").status, 503)
    site.bad.pause()
    site.expect({site.get("/order", method="POST", body="x").status for _ in range(2)}, {200})
    site.expect({site.get("/", method="POST", body="x").status for _ in range(2)}, {200})
