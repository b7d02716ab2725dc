"""A server that says it is busy, one that is gone, and what the pages say of it."""

from judge.http import response


def servers(site):
    site.healthy = {name: b"OK\n" for name in ("app1", "app2", "app3")}
    for at, name in enumerate(site.healthy):
        page = lambda message, wire, name=name: response(200, [("Content-Type", "text/plain")], site.healthy[name])
        site.http(f"127.0.0.{11 + at}:8000", name, {"/health": page})


def play(site):
    site.wait_status("UP", "app/app1", "app/app2", "app/app3")
    site.expect(site.get("/haproxy-alive").status, 200)
    site.expect(site.get("/haproxy-alive", method="HEAD").status, 200)
    site.expect(site.get("/status/app", source=9).text, "app 3 of 3, queue 0, connections 0\n")
    site.healthy["app1"] = b"BUSY\n"
    site.wait_status("DOWN", "app/app1")
    site.expect(site.get("/status/app1", source=9).status, 503)
    site.expect(site.get("/haproxy-alive").status, 200)
    site.healthy["app2"] = b"BUSY\n"
    site.wait_status("DOWN", "app/app2")
    site.expect(site.get("/haproxy-alive").status, 503)
    site.expect(site.get("/status/app").text, "app 1 of 3, queue 0, connections 0\n")
    site.healthy["app1"] = b"READY\n"
    site.wait_status("UP", "app/app1")
    site.expect(site.get("/status/app1", source=9).status, 200)
    site.expect(site.get("/page").status, 200)
