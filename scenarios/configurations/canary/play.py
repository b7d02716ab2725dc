"""Nine of ten see the old version, then all, then half."""

from collections import Counter

QUICK = True


def servers(site):
    site.servers_named = {
        name: site.http(f"127.0.0.{11 + at}:8000", name) for at, name in enumerate(["stable1", "stable2", "canary1"])
    }


def spread(site, count):
    return Counter(site.get("/", recorded=False).text.split()[0] for _ in range(count))


def play(site):
    site.wait_status("UP", "mixed/stable1", "mixed/stable2", "mixed/canary1")
    first = spread(site, 40)
    site.note(str(first))
    site.expect(first["canary1"] in (3, 4, 5), True, str(first))
    site.expect(site.get("/", headers=[("Cookie", "canary=always")]).text.split()[0], "canary1")
    site.expect(site.get("/", headers=[("Cookie", "canary=never; release=c1")]).text.split()[0][:6], "stable")
    site.expect(site.get("/", headers=[("Cookie", "release=c1")]).text.split()[0], "canary1")
    site.command("set server mixed/canary1 weight 0")
    site.expect(spread(site, 10)["canary1"], 0)
    site.command("set weight mixed/canary1 90")
    site.command("get weight mixed/canary1")
    site.expect(spread(site, 20)["canary1"] in (9, 10, 11), True)
    site.servers_named["canary1"].pause()
    site.wait_status("DOWN", "mixed/canary1", "canary/canary1")
    site.expect(site.get("/", headers=[("Cookie", "release=c1")]).text.split()[0][:6], "stable")
    site.expect(site.get("/", headers=[("Cookie", "canary=always")]).text.split()[0][:6], "stable")
