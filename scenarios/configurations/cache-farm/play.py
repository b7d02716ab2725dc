"""Twenty-four addresses, before and after a cache died."""


def servers(site):
    site.caches = [site.http(f"127.0.0.{11 + at}:6081", f"cache{1 + at}", checks=["/cache-health"]) for at in range(3)]
    site.http("127.0.0.21:8000", "app")


def homes(site):
    return [site.get(f"/article/{number}?page=2").text.split()[0] for number in range(24)]


def play(site):
    site.wait_status("UP", *[f"caches/cache{number}" for number in (1, 2, 3)])
    first = homes(site)
    site.expect(set(first), {"cache1", "cache2", "cache3"})
    site.expect(homes(site), first)
    site.expect(site.get("/article/1", headers=[("Cookie", "a=b")]).text.split()[0], "app")
    site.expect(site.get("/article/1", method="POST", body="x").text.split()[0], "app")
    site.caches[1].pause()
    site.wait_status("DOWN", "caches/cache2")
    moved = homes(site)
    site.expect([new for old, new in zip(first, moved) if old != "cache2"], [old for old in first if old != "cache2"])
    for number in (0, 2):
        site.caches[number].pause()
        site.wait_status("DOWN", f"caches/cache{1 + number}")
    site.expect(site.get("/article/1").text.split()[0], "app")
