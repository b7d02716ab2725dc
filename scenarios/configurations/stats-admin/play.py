"""Looking, changing by the page's form, and what the stats socket says of it afterwards."""

import base64


def servers(site):
    for at in (1, 2):
        site.http(f"127.0.0.{10 + at}:8000", f"app{at}")


def play(site):
    to = "127.0.0.1:8404"
    who = [("Authorization", "Basic " + base64.b64encode(b"admin:secret").decode())]
    form = [*who, ("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")]
    # The page is Tidegate's own; what scripts read of it is not.
    site.mask(r"stats/(FRONTEND|BACKEND) bout=\d+", r"stats/\1 bout=N")
    site.mask(r"(PORT \[DATE\] stats stats/<(STATS|PROMEX|NOSRV)> \S+ \d+) \d+", r"\1 N")
    site.expect(site.get("/", to=to).status, 401)
    page = site.get("/", to=to, headers=who, recorded=False)
    site.expect(page.status, 200)
    rows = site.get("/;csv;norefresh", to=to, headers=who, recorded=False).text.split("\n")
    site.expect([row.split(",")[:2] for row in rows[1:] if row][:4], [["www", "FRONTEND"], ["app", "app1"], ["app", "app2"], ["app", "BACKEND"]])

    def change(action, *names):
        # The page's forms know a backend by its number.
        backend = 3
        body = "&".join(f"s={name}" for name in names) + f"&action={action}&b=%23{backend}"
        answer = site.get("/", to=to, method="POST", headers=form, body=body)
        site.command("show servers state app", recorded=False)
        return answer.status, answer.field("location")

    site.expect(change("drain", "app1"), (303, "/;st=DONE"))
    site.expect({site.get("/").text.split()[0] for _ in range(3)}, {"app2"})
    site.expect(change("maint", "app2"), (303, "/;st=DONE"))
    site.expect(site.get("/").status, 503)
    site.expect(change("ready", "app1", "app2")[0], 303)
    site.expect({site.get("/").text.split()[0] for _ in range(4)}, {"app1", "app2"})
    site.expect(change("nonsense", "app1"), (303, "/;st=ERRP"))
    site.expect(change("ready", "app9"), (303, "/;st=ERRP"))
    metrics = site.get("/metrics", to=to, recorded=False)
    site.expect('haproxy_server_status{proxy="app",server="app1",state="DOWN"} 0' in metrics.text, True)
    names = sorted({line.split("{")[0].split(" ")[0] for line in metrics.text.split("\n") if line.startswith("haproxy_backend")})
    site.note("\n".join(names))
    site.command("get weight app/app1")
