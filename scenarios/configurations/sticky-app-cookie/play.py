"""Sessions begin on any server and stay there."""

from judge.http import response


def servers(site):
    def begin(name):
        def login(message, _):
            session = message.target.split("user=")[1]
            return response(200, [("Set-Cookie", f"PHPSESSID={session}; path=/")], f"{name}\n")

        return login

    site.apps = [
        site.http(f"127.0.0.{11 + at}:8000", name, {"/login": begin(name)})
        for at, name in enumerate(["app1", "app2", "app3"])
    ]


def play(site):
    site.wait_status("UP", "app/app1", "app/app2", "app/app3")
    homes = {user: site.get(f"/login?user={user}").text.strip() for user in ("ann", "bob", "cid", "dee")}
    site.expect([homes[user] for user in ("ann", "bob", "cid", "dee")], ["app1", "app2", "app3", "app1"])
    for user in ("bob", "dee", "cid", "bob"):
        kept = site.get("/cart", headers=[("Cookie", f"lang=de; PHPSESSID={user}")])
        site.expect(kept.text.split()[0], homes[user])
    site.expect(site.get("/cart;PHPSESSID=cid").text.split()[0], "app3")
    site.get("/cart", headers=[("Cookie", "PHPSESSID=stranger")])
    site.apps[1].pause()
    site.wait_status("DOWN", "app/app2")
    moved = site.get("/cart", headers=[("Cookie", "PHPSESSID=bob")])
    site.expect(moved.text.split()[0] in ("app1", "app3"), True)
    site.command("clear table app key ann")
