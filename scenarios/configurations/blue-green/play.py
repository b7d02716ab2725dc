"""The switch from blue to green and back through the stats socket, without a reload."""


def servers(site):
    for at, name in enumerate(["blue1", "blue2", "green1", "green2"]):
        site.http(f"127.0.0.{11 + at}:8000", name)


def play(site):
    site.wait_status("UP", "blue/blue1", "blue/blue2", "green/green1", "green/green2")
    site.expect([site.get("/").field("x-version") for _ in range(3)], ["blue"] * 3)
    site.expect(site.get("/", headers=[("X-Version", "Green")]).field("x-version"), "green")
    wire = site.connect()
    site.expect(site.ask(wire, "/before").field("x-version"), "blue")
    site.command("set map /etc/haproxy/live.map live green")
    site.expect(site.ask(wire, "/after").field("x-version"), "green")
    wire.close()
    site.expect([site.get("/").text.split()[0] for _ in range(4)], ["green1", "green2"] * 2)
    # Blue is drained and taken away for the next version.
    for server in ("blue1", "blue2"):
        site.command(f"set server blue/{server} state drain")
    site.expect(site.get("/", headers=[("X-Version", "blue")]).status, 503)
    site.command("set server blue/blue1 state ready")
    site.expect(site.get("/", headers=[("X-Version", "blue")]).status, 200)
    site.command("set map /etc/haproxy/live.map live blue")
    site.expect(site.get("/").field("x-version"), "blue")
