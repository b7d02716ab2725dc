"""Keys that are missing, wrong and right; paths that are moved; services that are not there."""

QUICK = True


def servers(site):
    site.orders = site.http("127.0.0.11:8001", "orders")
    site.http("127.0.0.12:8001", "orders2")


def play(site):
    site.mask(r"([0-9A-F]{8}:)[0-9A-F]{4}(_[0-9A-F:]+_)[0-9A-F]+_[0-9A-F]+:[0-9A-F]+", r"\1PORT\2TIME_NUMBER")
    site.mask(r"[0-9A-F]{8}:PORT_[0-9A-F]{8}", "CLIENT:PORT_FRONT")
    key = [("X-API-Key", "k-alpha")]
    site.expect(site.get("/v1/orders/7").status, 401)
    site.expect(site.get("/v1/orders/7", headers=[("X-API-Key", "stolen")]).text, '{"error":"Forbidden"}\n')
    site.expect(site.get("/v1/orders/7?full=1", headers=key).text, "orders GET /7?full=1\n")
    site.expect(site.orders.received[-1].field("x-client"), "shop")
    site.expect(site.orders.received[-1].field("x-api-key"), None)
    site.expect(site.get("/v2/orders", headers=key).text, "orders2 GET /\n")
    site.expect(site.get("/orders/8", headers=[("X-API-Key", "k-beta")]).text, "orders GET /8\n")
    site.expect(site.get("/v1/orders", method="POST", body='{"item":1}', headers=key).text, "orders POST /\n")
    site.expect(site.get("/v1/users/3", headers=key).text, '{"error":"Service Unavailable"}\n')
    site.expect(site.get("/v1/status").text, '{"orders":1,"users":1}\n')
    site.expect(site.get("/v3/nothing", headers=key).status, 404)
    site.expect(site.get("/v1/ordersx", headers=key).status, 404)
    site.expect(site.get("/v1/orders", method="POST", body="x" * 10001, headers=key).status, 400)
    answer = site.exchange(b"GET /v1/status HTTP/1.1\r\nHost: a\r\nBroken header: x\r\n\r\n")
    site.expect(b"400" in answer, True)
