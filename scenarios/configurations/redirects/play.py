"""Where each of the old addresses leads."""

from judge.http import response

QUICK = True


def servers(site):
    pages = {
        "/account": response(401, [("WWW-Authenticate", "Basic")], "who are you?\n"),
        "/go": response(302, [("Location", "http://internal:8000/there?x=1")], ""),
    }
    site.app = site.http("127.0.0.11:8000", "app", pages)


def play(site):
    https = [("X-Forwarded-Proto", "https")]
    for path, location in [
        ("/old.html", "/new.html"),
        ("/shop", "https://shop.example.com/"),
        ("/cart?a=b", "https://www.example.com/cart?a=b"),
    ]:
        site.expect(site.get(path).field("location"), location)
    site.expect(site.get("/x?y", host="example.com").field("location"), "https://www.example.com/x?y")
    site.expect(site.get("/x", method="POST", body="a=1").status, 308)
    site.expect(site.get("/docs/intro?page=2", headers=https).field("location"), "https://www.example.com/docs/intro/?page=2")
    site.expect(site.get("/2019/may?x=1", headers=https).field("location"), "/archive/2019/may/")
    site.get("/logout", headers=https)
    site.expect(site.get("/", headers=https).field("set-cookie"), "SEEN=1; path=/;")
    site.expect(site.get("/", headers=[*https, ("Cookie", "SEEN=1")]).status, 200)
    site.expect(site.get("/v1/items?id=3", headers=https).field("location"), "/v2/v1/items?id=3")
    site.expect(site.get("/account", headers=https).field("location"), "/login")
    site.expect(site.get("/go", headers=https).field("location"), "https://www.example.com/there?x=1")
    wire = site.connect()
    site.expect([site.ask(wire, path, method=m).status for path, m in [("/old.html", "GET"), ("/b", "HEAD"), ("/c", "GET")]], [301, 308, 308])
    wire.close()
