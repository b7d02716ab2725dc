"""Who gets where with which password."""

import base64


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app")


def play(site):
    def status(path, who=None):
        headers = [("Authorization", "Basic " + base64.b64encode(who.encode()).decode())] if who else []
        return site.get(path, headers=headers).status

    site.expect(site.get("/office").field("www-authenticate"), 'Basic realm="The back office"')
    site.expect([status("/"), status("/office"), status("/office", "bob:builder"), status("/office", "bob:wrong")], [200, 401, 200, 401])
    site.expect(site.app.received[-1].field("x-user"), "bob")
    site.expect([status("/office/edit", who) for who in ("bob:builder", "cid:boss", "dee:visitor")], [200, 200, 401])
    site.expect([status("/office/admin", who) for who in ("bob:builder", "cid:boss")], [403, 200])
    status("/office", "ann:anything")
    status("/status", "cid:boss")
    status("/status")
    status("/office", "nobody:x")
    site.get("/office", headers=[("Authorization", "Basic !!!")])
    site.get("/office", headers=[("Authorization", "Bearer abc")])
