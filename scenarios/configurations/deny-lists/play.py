"""From where and as whom the same page is asked for."""

QUICK = True


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app")


def play(site):
    agent = ("User-Agent", "Mozilla/5.0")

    def status(path="/", source=1, headers=(agent,), **options):
        return site.get(path, source=source, headers=headers, **options).status

    site.expect(status(), 200)
    site.expect(site.app.received[-1].field("x-country"), "local")
    site.expect(status(source=33), 200)
    site.expect(site.app.received[-1].field("x-country"), "DE")
    site.expect(status(source=40), 451)
    for source in (66, 241):
        site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", source=source)
    site.expect(status(source=9, headers=[agent, ("X-Forwarded-For", "203.0.113.7")]), 200)
    site.expect(site.app.received[-1].field("x-country"), "FR")
    site.expect(status(source=9, headers=[agent, ("X-Forwarded-For", "203.0.113.7, 198.51.100.9")]), 451)
    site.expect(status(headers=[("User-Agent", "xx badbot/1.0")]), 403)
    site.expect(status(headers=[]), 403)
    site.expect(status("/.git/config"), 404)
    site.expect(status("/a.env"), 404)
    site.expect([status("/admin/"), status("/%61dmin/"), status("/admin/", source=200)], [403, 403, 200])
    site.expect(status(method="DELETE"), 405)
