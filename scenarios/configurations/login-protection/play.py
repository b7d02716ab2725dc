"""A guesser, and a user who mistypes once."""

from judge.http import response


def servers(site):
    def login(message, _):
        good = message.method == "GET" or message.body == b"password=correct"
        return response(200 if good else 401, [("Content-Type", "text/plain")], "welcome\n" if good else "wrong\n")

    site.app = site.http("127.0.0.11:8000", "app1", {"/login": login})


def play(site):
    def attempt(source, password):
        return site.get("/login", method="POST", body=f"password={password}", source=source).status

    site.expect([attempt(31, "mistyped"), attempt(31, "correct")], [401, 200])
    site.expect([attempt(32, f"guess{number}") for number in range(9)], [401] * 5 + [429] * 3 + [423])
    site.expect(attempt(32, "correct"), 423)
    site.expect(site.get("/login", source=32).status, 200, "the form itself")
    site.expect(site.app.received[-2].field("x-failures"), "4")
    site.command("set table failures key 127.0.0.32 data.gpc0 0")
    site.expect(attempt(32, "correct"), 200)
