"""Servers fall one after the other and come back."""

QUICK = True


def servers(site):
    names = ["app1", "app2", "spare1", "spare2"]
    site.apps = {name: site.http(f"127.0.0.{11 + at}:8000", name) for at, name in enumerate(names)}


def play(site):
    site.wait_status("UP", "app/app1", "app/app2", "app/spare1", "app/spare2")

    def names(path, count):
        return [site.get(path).text.split()[0] for _ in range(count)]

    site.expect(sorted(names("/", 6)), ["app1"] * 2 + ["app2"] * 4)
    site.apps["app1"].pause()
    site.wait_status("DOWN", "app/app1", "shared/app1")
    site.expect(names("/", 2), ["app2"] * 2)
    site.expect(sorted(names("/shared", 4)), ["spare1"] * 2 + ["spare2"] * 2)
    site.apps["app2"].pause()
    site.wait_status("DOWN", "app/app2")
    site.expect(names("/", 3), ["spare1"] * 3)
    site.apps["spare1"].pause()
    site.wait_status("DOWN", "app/spare1")
    site.expect(names("/", 2), ["spare2"] * 2)
    site.command("disable server app/spare2")
    site.expect(site.get("/").status, 503)
    site.command("enable server app/spare2")
    site.apps["app2"].resume()
    site.wait_status("UP", "app/app2", "app/spare2")
    site.expect(names("/", 2), ["app2"] * 2)
    site.command("show servers conn app", recorded=False)
