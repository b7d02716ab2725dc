"""Real files from nginx, pages from scripted servers."""

FILES = {"static/app.js": "let a = 1;\n", "images/cat.png": "PNG" * 20_000, "logo.css": "body {}\n"}


def servers(site):
    site.light = [site.nginx(f"127.0.0.{11 + at}:80", "location /nginx-health { return 204; }") for at in (0, 1)]
    for server in site.light:
        for name, text in FILES.items():
            path = server.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for at in (1, 2):
        site.http(f"127.0.0.{20 + at}:8000", f"heavy{at}")


def play(site):
    # Dates of the files and of the answers.
    site.mask(r"(?i)((?:date|last-modified): )\w{3}, .*", r"\1DATE")
    site.mask(r'(?i)(etag: )"[0-9a-f]+-', r'\1"TIME-')
    site.wait_status("UP", "static/light1", "static/light2", "app/heavy1", "app/heavy2")
    for path, text in FILES.items():
        site.expect(site.get(f"/{path}").text, text)
    site.expect(site.get("/static/app.js", method="HEAD").field("content-length"), "11")
    site.expect(site.get("/images/cat.png", headers=[("Range", "bytes=10-19")]).status, 206)
    site.expect(site.get("/missing.JPG").status, 404)
    site.expect(site.get("/page").field("vary"), "Cookie")
    site.expect(site.get("/page", host="img.example.com").status, 404)
    wire = site.connect()
    for path in ("/page", "/static/app.js", "/page/2", "/logo.css"):
        site.expect(site.ask(wire, path).status, 200)
    wire.close()
    for at, server in enumerate(site.light):
        server.stop()
        site.wait_status("DOWN", f"static/light{1 + at}")
    site.expect(site.get("/static/app.js").text[:5], "heavy")
