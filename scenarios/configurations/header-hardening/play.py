"""A request full of lies, an answer that tells too much."""

from judge.http import response

QUICK = True


def servers(site):
    loud = response(
        200,
        [
            ("Server", "Apache/2.2.3 (CentOS)"),
            ("X-Powered-By", "PHP/5.1.6"),
            ("X-Debug-Token", "1"),
            ("x-debug-time", "2"),
            ("Via", "1.1 old"),
            ("Set-Cookie", "SID=1; path=/"),
            ("Set-Cookie", "LANG=en; path=/"),
            ("Cache-Control", "private, max-age=0"),
            ("Content-Type", "text/html"),
            ("X-Frame-Options", "SAMEORIGIN"),
        ],
        "<p>hello\n",
    )
    site.app = site.http("127.0.0.11:8000", "app1", {"/loud": loud})


def play(site):
    lies = [
        ("X-Forwarded-For", "1.2.3.4"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Real-IP", "1.2.3.4"),
        ("X-Client", "root"),
        ("X-Client-Name", "kept"),
        ("Proxy", "http://evil.example"),
        ("X_Forwarded_For", "1.2.3.4"),
        ("Cookie", "a=b; tracking=12345; c=d"),
        ("Accept-Language", "de-AT, en;q=0.5, de-CH"),
        ("User-Agent", "x" * 60),
    ]
    site.expect(site.get("/loud", headers=lies).field("server"), None)
    seen = site.app.received[-1]
    site.expect((seen.field("x-real-ip"), seen.field("x-client-name"), seen.field("proxy")), (None, "kept", None))
    site.expect(seen.field("cookie"), "a=b; ; c=d")
    for path in ("/a/../b", "/%2e%2E/etc", "/a\\b"):
        site.expect(site.get(path).status, 400)
    site.expect(site.get("/", headers=[("X-Long", "y" * 2100)]).status, 413)
    site.expect(site.get("/").field("content-security-policy"), None)
