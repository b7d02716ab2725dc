"""Lines that are JSON whatever a client sends; a log that keeps two lines of four; captures that are cut."""

import json


def servers(site):
    site.http("127.0.0.11:8000", "app1")


def play(site):
    site.mask(r'"times":\[[-0-9,+]+\]', '"times":[T]')
    site.mask(r'"port":\d+', '"port":0')
    site.mask(r"<(\d+)>1 \S+ (\S+) (\S+) \d+ ", r"<\1>1 DATE \3 PID ")
    site.get("/plain", headers=[("User-Agent", "curl/7.88"), ("X-Trace", "t-1"), ("Referer", "http://www.example.com/")])
    site.get('/quo"te?a=b\\c', headers=[("User-Agent", 'say "hi" \\ ' + "x" * 60), ("Referer", "caf\xe9 \t tab")])
    site.get("/post", method="POST", body="a" * 100)
    site.exchange(b"NOT HTTP\r\n\r\n")
    for number in range(8):
        site.get(f"/sample/{number}?q={number}", to="127.0.0.1:8081", headers=[("X-A", "abcdef")])
    site.pause(0.1)
    lines = [line.split("]: ", 1)[1] for line in site.log_lines if "edge[" in line]
    for line in lines:
        json.loads(line.rstrip("\n\0"))
    site.expect(len(lines), 4)
