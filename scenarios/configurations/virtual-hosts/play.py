"""Names in all spellings, with ports, by wildcard, and without any site."""

QUICK = True


def servers(site):
    for at, name in enumerate(["shop", "blog", "tenants"]):
        site.http(f"127.0.0.{11 + at}:8000", name)


def play(site):
    for host in ("www.example.com", "EXAMPLE.com", "example.com:8080"):
        site.expect(site.get("/x", host=host).text, "shop GET /x\n")
    site.expect(site.get("/today", host="blog.example.com").text, "blog GET /blog/today\n")
    site.expect(site.get("/", host="acme.tenants.example.com").text, "tenants GET /\n")
    site.expect(site.get("/", host="other.example.org").text, "No site other.example.org\n")
    site.expect(site.get("http://blog.example.com/abs", host="blog.example.com").text, "blog GET http://blog.example.com/blog/abs\n")
    site.get("/", host="broken.example.com")
    site.expect(site.get("/", host=None, version="1.0").status, 404)
