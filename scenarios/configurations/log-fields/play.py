"""Field by field what is logged of requests of every fate, and the numbers that requests carry."""

QUICK = True


def servers(site):
    site.http("127.0.0.11:8000", "app1")


def play(site):
    site.mask(r" (T|t|tr|trg|trl|Tl)=\S+( \S\d{4})?", r" \1=DATE")
    site.mask(r"1F90_[0-9A-F]+", "1F90_TIME")
    site.mask(r" (Ts|ms|pid|cp|bp)=\d+", r" \1=N")
    site.mask(r" times=[-+0-9/]+", " times=N")
    site.get("/plain", headers=[("User-Agent", "a browser of some length"), ("X-Kind", "kind"), ("Cookie", "a=1; SESSION=abc; b=2")])
    site.get('/que"ry?a=b&c=%20d[]', headers=[("X-Kind", 'quo"te\\')])
    site.get("/post", method="POST", body="a" * 100)
    site.get("/head", method="HEAD")
    site.get("/denied")
    site.get("/moved")
    site.get("/id")
    site.get("/gone/1?x")
    site.exchange(b"GET http://abso.lute:81/two?q HTTP/1.0\r\n\r\n")
    site.exchange(b"NOT HTTP\r\n\r\n")
    site.exchange(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")
    header = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n"
    site.exchange(header + b"GET /proxied HTTP/1.1\r\nHost: a\r\nX-Kind: k\r\nConnection: close\r\n\r\n", to="127.0.0.1:8081")
    site.exchange(b"GET /tcp HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", to="127.0.0.1:8082", wait=0.2)
    site.pause(0.1)
    lines = [line for line in site.log_lines if "edge[" in line]
    site.expect(len(lines), 13)
