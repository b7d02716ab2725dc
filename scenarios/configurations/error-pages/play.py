"""Every page once, from rules, from servers, from what goes wrong with them."""

import time

from judge.http import response


def servers(site):
    pages = {
        "/gone": response(404, [("Content-Type", "text/plain")], "the application's own words\n"),
        "/slow": lambda message, wire: time.sleep(0.5) or b"",
        "/closes": b"",
        "/nonsense": b"this is not HTTP\r\n\r\n",
    }
    site.http("127.0.0.11:8000", "app1", pages)


def play(site):
    for path, status in [("/", 200), ("/private", 403), ("/nowhere", 404), ("/gone", 404), ("/often", 429), ("/closes", 502), ("/nonsense", 502)]:
        site.expect(site.get(path).status, status)
    site.expect(site.get("/broken").field("location"), "/static/500.html")
    site.expect("504" in site.get("/slow").text, True)
    site.expect(site.get("/empty").field("location"), "http://status.example.com/")
    site.expect(site.get("/nowhere", method="HEAD").status, 404)
    site.exchange(b"GET / HTTP/1.1\r\n broken\r\n\r\n")
    wire = site.connect()
    for path in ("/nowhere", "/often", "/", "/private"):
        site.ask(wire, path)
    wire.close()
