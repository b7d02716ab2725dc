"""By type, by coding, by method; bodies of known length, in chunks, and such as are compressed already."""

import gzip

from judge.http import response

TEXT = "".join(f"line {number} of a text that repeats itself\n" for number in range(400))


def servers(site):
    chunks = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in [TEXT[:5000].encode(), TEXT[5000:].encode(), b""])
    pages = {
        "/text": response(200, [("Content-Type", "text/plain; charset=utf-8"), ("ETag", '"abc"')], TEXT),
        "/chunks": response(200, [("Content-Type", "text/html"), ("Transfer-Encoding", "chunked")]) + chunks,
        "/picture": response(200, [("Content-Type", "image/png")], TEXT),
        "/done": response(200, [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")], gzip.compress(TEXT.encode(), mtime=0)),
        "/fixed": response(200, [("Content-Type", "text/plain"), ("Cache-Control", "no-transform")], TEXT),
        "/error": response(500, [("Content-Type", "text/plain")], TEXT),
        "/empty": response(200, [("Content-Type", "text/plain")], ""),
        "/old": b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" + TEXT.encode(),
    }
    site.app = site.http("127.0.0.11:8000", "app1", pages)


def play(site):
    # What each program's compressor makes of the text differs; what comes out of it must not.
    site.mask(r"^(\w+/\w+) (bout|comp_out|comp_in)=\d+", r"\1 \2=N")
    site.mask(r"(PORT \[DATE\] www app/app1 \S+ 200) \d+", r"\1 N")
    coded = [("Accept-Encoding", "deflate;q=0.5, gzip")]
    for path in ("/text", "/chunks", "/picture", "/fixed", "/error", "/empty", "/done", "/old"):
        site.get(path, headers=coded)
    site.expect(site.app.received[0].field("accept-encoding"), None)
    site.expect(site.get("/text", headers=coded).field("content-encoding"), "gzip")
    site.expect(site.get("/text").field("content-encoding"), None)
    site.expect(site.get("/text", headers=[("Accept-Encoding", "deflate")]).field("content-encoding"), "deflate")
    site.expect(site.get("/text", headers=[("Accept-Encoding", "gzip;q=0")]).field("content-encoding"), None)
    site.get("/text", headers=coded, method="HEAD")
    site.get("/text", headers=coded, version="1.0")
    site.get("/text", headers=coded, to="127.0.0.1:8081")
    wire = site.connect()
    for path in ("/text", "/chunks", "/text"):
        site.ask(wire, path, headers=coded)
    wire.close()
