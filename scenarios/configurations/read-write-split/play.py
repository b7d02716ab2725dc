"""Reads, writes, queries by POST, and readers that are gone."""

from judge.http import response

QUICK = True


def servers(site):
    site.nodes = [site.http(f"127.0.0.{10 + at}:5984", name, checks=["/_up"]) for at, name in enumerate(["primary", "r1", "r2"])]
    feed = response(200, [("Transfer-Encoding", "chunked")]) + b'4\r\n{"a"\r\n6\r\n:true}\r\n0\r\n\r\n'
    for node in site.nodes:
        node.pages["/db/_changes"] = feed


def play(site):
    site.wait_status("UP", "readers/replica1", "readers/replica2", "readers/primary", "writer/primary", "changes/replica2")
    for number in range(4):
        site.expect(site.get(f"/db/doc{number}").field("x-served-by"), f"replica{1 + number % 2}")
    site.expect(site.get("/db/doc", method="HEAD").status, 200)
    for method in ("PUT", "POST", "DELETE", "COPY", "PATCH"):
        answer = site.get("/db/doc", method=method, body='{"a":1}')
        site.expect(answer.text, f"primary {method} /db/doc\n")
    site.expect(site.get("/db/_find", method="POST", body="{}").text, "r2 POST /db/_find\n")
    site.expect(site.get("/db/_design/app/_view/by_date?limit=3", method="POST", body="{}").text[:2], "r1")
    site.expect(site.get("/db/_changes?feed=longpoll").text, '{"a":true}')
    site.nodes[1].pause()
    site.wait_status("DOWN", "readers/replica1", "changes/replica1")
    site.expect(site.get("/db/doc").field("x-served-by"), "replica2")
    site.nodes[2].pause()
    site.wait_status("DOWN", "readers/replica2")
    site.expect(site.get("/db/doc").field("x-served-by"), "primary")
    site.expect(site.get("/db/_changes").status, 503)
    site.nodes[0].pause()
    site.wait_status("DOWN", "writer/primary", "readers/primary")
    site.expect(site.get("/db/doc", method="PUT", body="{}").status, 503)
