"""Round robin, a cookie with the server's name before it, and a server that dies."""

from judge.http import request, response

QUICK = True


def login(message, _):
    return response(200, [("Set-Cookie", "JSESSIONID=s3cret; Path=/"), ("Server", "farm")], "hello\n")


def servers(site):
    site.web = [
        site.http(f"127.0.0.{11 + at}:80", name, {"/login": login}, checks=["/check.txt"])
        for at, name in enumerate(["webA", "webB"])
    ]


def play(site):
    # The page has columns of each program's own.
    site.mask(r"(<STATS> \S+ 200) \d+", r"\1 N")
    site.mask(r"(webfarm/(?:FRONTEND|BACKEND) bout)=\d+", r"\1=N")
    site.wait_status("UP", "webfarm/webA", "webfarm/webB")
    names = [site.get(f"/{number}").text.split()[0] for number in range(4)]
    site.expect(names, ["webA", "webB"] * 2)

    answer = site.get("/login")
    site.expect(answer.field("set-cookie"), "JSESSIONID=A~s3cret; Path=/")
    for number in range(3):
        kept = site.get(f"/kept{number}", headers=[("Cookie", "lang=en; JSESSIONID=A~s3cret")])
        site.expect(kept.text, f"webA GET /kept{number}\n")
    # The server sees the cookie as it made it.
    site.expect(site.web[0].received[-1].field("cookie"), "lang=en; JSESSIONID=s3cret")

    site.expect(site.get("/haproxy?stats").status, 401)
    page = site.get("/haproxy?stats;csv", headers=[("Authorization", "Basic YWRtaW46d29uZGVybGFuZA==")], recorded=False)
    site.expect(page.text.startswith("# pxname,svname,"), True)

    site.web[0].pause()
    site.wait_status("DOWN", "webfarm/webA")
    moved = site.get("/moved", headers=[("Cookie", "JSESSIONID=A~s3cret")])
    site.expect(moved.text, "webB GET /moved\n")
    site.web[0].resume()
    site.wait_status("UP", "webfarm/webA")
    back = site.get("/back", headers=[("Cookie", "JSESSIONID=A~s3cret")])
    site.expect(back.text, "webA GET /back\n")

    wire = site.connect()
    for number in range(3):
        site.ask(wire, f"/same{number}")
    wire.close()
    site.exchange(request("/old", version="1.0", host=None))
