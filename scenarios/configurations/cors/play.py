"""Preflights that pass and fail, and answers with and without an origin."""

from judge.http import response


def servers(site):
    site.http("127.0.0.11:8000", "api", {"/open": response(200, [("Access-Control-Allow-Origin", "*"), ("access-control-expose-headers", "x")], "open\n")})


def play(site):
    def preflight(origin):
        headers = [("Origin", origin), ("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "x-token, content-type")]
        return site.get("/items", method="OPTIONS", headers=headers)

    site.expect(preflight("https://www.example.com").field("access-control-allow-origin"), "https://www.example.com")
    site.expect(preflight("https://pr-7.preview.example.com").status, 204)
    site.expect(preflight("https://evil.example").status, 403)
    site.expect(site.get("/items", method="OPTIONS").status, 200)
    answer = site.get("/items", headers=[("Origin", "https://admin.example.com")])
    site.expect((answer.field("access-control-allow-origin"), answer.field("vary")), ("https://admin.example.com", "Origin"))
    site.get("/items", headers=[("Origin", "https://evil.example")])
    site.expect(site.get("/open").field("access-control-allow-origin"), None)
