"""One request holds the server, five wait; then a robot's patience ends before its turn comes."""

import time

from judge.http import request

QUICK = True


def servers(site):
    def slow(message, wire):
        time.sleep(0.5 if "long" in message.target else 0.05)

    site.app = site.http("127.0.0.11:8000", "app", {"*": slow})
    site.http("127.0.0.11:8001", "robots", {"*": lambda message, wire: time.sleep(0.7)})


def play(site):
    wanted = ["/long", "/report/1", "/plain/2", "/paid/3", "/checkout/4", "/plain/5"]
    wires = []
    for number, path in enumerate(wanted):
        wire = site.connect()
        wire.send(request(path, headers=[("Cookie", "plan=gold")] if "paid" in path else []))
        wires.append(wire)
        site.until(f"{path} is there", lambda: f"app,app1,{max(number, 0)}," in site.command("show stat", recorded=False))
    for wire in wires:
        site.expect(wire.message().status, 200)
        wire.close()
    order = [message.target for message in site.app.received]
    site.expect(order, ["/long", "/checkout/4", "/paid/3", "/plain/2", "/plain/5", "/report/1"])

    robot = [("User-Agent", "Examplebot/2.0")]
    first, second = site.connect(), site.connect()
    first.send(request("/a", headers=robot))
    site.until("the robot works", lambda: "robots,app1,0,0,1," in site.command("show stat", recorded=False))
    second.send(request("/b", headers=robot))
    site.expect((second.message().status, first.message().status), (503, 200))
    first.close()
    second.close()
