"""The cookie is set once, obeyed, and replaced when its server is gone or unknown."""

import re


def servers(site):
    site.shops = [site.http(f"127.0.0.{11 + at}:8000", f"shop{1 + at}") for at in range(3)]


def play(site):
    # The dates in the cookie, in units of their own.
    site.mask(r"(ADMIN=[0-9a-f]+)\|\w+\|\w+", r"\1|DATE|DATE")
    site.wait_status("UP", "shop/shop1", "shop/shop2")
    site.expect(site.get("/").field("set-cookie"), "SRV=s1; path=/; HttpOnly; SameSite=Lax")
    for number in range(3):
        answer = site.get(f"/cart/{number}", headers=[("Cookie", "a=b; SRV=s2; c=d")])
        site.expect((answer.text.split()[0], answer.fields("set-cookie")), ("shop2", []))
    site.expect(site.shops[1].received[-1].field("cookie"), "a=b; c=d")
    site.get("/", headers=[("Cookie", "SRV=unknown")])
    site.get("/", headers=[("Cookie", "SRV=s3")])
    first = site.get("/admin/").field("set-cookie")
    site.expect(re.sub(r"\|\S+;", ";", first).split("; ", 1)[1], "path=/; domain=example.com; Secure")
    key = first.split("=")[1].split(";")[0]
    site.expect(len({site.get("/admin/", headers=[("Cookie", f"ADMIN={key}")]).text.split()[0] for _ in range(3)}), 1)
    site.get("/admin/", headers=[("Cookie", "ADMIN=0123456789abcdef|AAAAA|AAAAA")])
    site.shops[1].pause()
    site.wait_status("DOWN", "shop/shop2")
    moved = site.get("/cart", headers=[("Cookie", "SRV=s2")])
    site.expect((moved.text.split()[0], moved.field("set-cookie")[:6]), ("shop1", "SRV=s1"))
    site.command("enable server shop/shop3")
    site.wait_status("UP", "shop/shop3")
    site.expect(site.get("/", headers=[("Cookie", "SRV=s3")]).text.split()[0], "shop3")
    # Who is put out keeps its clients, but gets no new ones.
    site.command("set server shop/shop3 state drain")
    site.expect(site.get("/", headers=[("Cookie", "SRV=s3")]).text.split()[0], "shop3")
    site.expect({site.get("/").text.split()[0] for _ in range(3)}, {"shop1"})
