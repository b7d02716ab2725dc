"""Open, closed on purpose, and closed because all servers died."""

QUICK = True


def servers(site):
    site.apps = [site.http(f"127.0.0.{11 + at}:8000", f"app{1 + at}") for at in range(2)]


def play(site):
    site.wait_status("UP", "app/app1", "app/app2")
    site.expect(site.get("/").status, 200)
    site.expect(site.get("/alive").status, 200)
    site.command("set map /etc/haproxy/closed.map yes on")
    closed = site.get("/shop")
    site.expect((closed.status, closed.field("retry-after")), (503, "1800"))
    site.expect("tidying" in closed.text, True)
    site.expect(site.get("/shop", source=77).status, 200, "the crew")
    site.expect(site.get("/shop", method="HEAD").status, 503)
    site.expect(site.get("/shop", method="POST", body="x=1").status, 503)
    site.command("set map /etc/haproxy/closed.map yes off")
    site.expect(site.get("/").status, 200)
    site.apps[0].pause()
    site.wait_status("DOWN", "app/app1")
    site.apps[1].pause()
    site.wait_status("DOWN", "app/app2")
    sorry = site.get("/")
    site.expect((sorry.status, "Nobody is at home" in sorry.text), (503, True))
    site.expect(site.get("/alive").status, 503)
    site.apps[0].resume()
    site.wait_status("UP", "app/app1")
    site.expect(site.get("/").status, 200)
