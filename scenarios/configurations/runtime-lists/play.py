"""Bans by rule and by hand, features switched on and off, and what the socket shows of them."""


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app1")


def play(site):
    site.mask(r"0x[0-9a-f]{6,}", "POINTER")
    site.expect([site.get("/", source=source).status for source in (41, 42, 245)], [200, 200, 403])
    site.expect([site.get("/phpmyadmin/", source=41).status, site.get("/", source=41).status], [403, 403])
    site.expect(site.get("/", source=42).status, 200)
    site.get("/forgive", source=9, headers=[("X-Forgive", site.place.real("127.0.0.41"))])
    site.expect(site.get("/", source=41).status, 200)
    site.expect(site.app.received[-1].field("x-last"), "/")

    def feature(name):
        site.get("/", headers=[("X-Feature", name)])
        return site.app.received[-1].field("x-feature-on")

    site.expect([feature("search"), feature("basket"), feature("other")], ["1", None, None])
    for command in (
        "set map /etc/haproxy/features.map basket on",
        "del map /etc/haproxy/features.map search",
        "add map /etc/haproxy/features.map other on",
    ):
        site.command(command)
    site.expect([feature("search"), feature("basket"), feature("other")], [None, "1", "1"])
    site.command("show map /etc/haproxy/features.map")
    site.command("get map /etc/haproxy/features.map basket")
    site.command("add acl /etc/haproxy/banned.lst 127.0.0.42")
    site.command("show acl /etc/haproxy/banned.lst")
    site.expect(site.get("/", source=42).status, 403)
    site.command("clear acl /etc/haproxy/banned.lst")
    site.expect(site.get("/", source=42).status, 200)
    site.command("set map /etc/haproxy/rates.map www.example.com 20")
    site.expect(site.get("/", source=42).field("x-rate"), "20")
    site.command("set map /etc/haproxy/nothing.map a b")
    site.command("add map /etc/haproxy/features.map @0 lost on")
