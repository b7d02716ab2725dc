"""Two addresses, then another one more, then one less; ports by SRV."""


def servers(site):
    for at in (1, 2, 3):
        site.http(f"127.0.0.{10 + at}:8000", f"web{at}")
    site.http("127.0.0.21:9001", "api1")
    site.http("127.0.0.22:9002", "api2")
    site.names = site.dns(
        "127.0.0.53:5353",
        {
            ("web.cluster.local", 1): ["127.0.0.11", "127.0.0.12"],
            ("_http._tcp.api.cluster.local", 33): [(1, 10, 9001, "api1.cluster.local"), (1, 10, 9002, "api2.cluster.local")],
            ("api1.cluster.local", 1): ["127.0.0.21"],
            ("api2.cluster.local", 1): ["127.0.0.22"],
            ("lone.cluster.local", 1): ["127.0.0.99"],
        },
    )


def play(site):
    # In which order names get their places is chance.
    def up(proxy):
        rows = site.command("show stat", recorded=False).split("\n")
        return sum(row.split(",")[0] == proxy and row.split(",")[17][:2] in ("UP", "no") for row in rows if row.count(",") > 17 and "BACKEND" not in row)

    def names(path):
        return {site.get(path, recorded=False).text.split()[0] for _ in range(6)}

    site.mask(r"^by_\w+/(web|api)\d .*", "")
    site.mask(r"(?m)^web\d received.*", "web received")
    site.until("two addresses are known", lambda: up("by_name") == 2 and up("by_srv") == 2)
    site.expect(names("/"), {"web1", "web2"})
    site.expect(names("/srv"), {"api1", "api2"})
    site.names.records["web.cluster.local", 1] = [site.place.real(f"127.0.0.{at}") for at in (11, 12, 13)]
    site.until("three addresses are known", lambda: up("by_name") == 3)
    site.expect(names("/"), {"web1", "web2", "web3"})
    site.names.records["web.cluster.local", 1] = [site.place.real("127.0.0.13")]
    site.until("one address is left", lambda: up("by_name") == 1)
    site.expect(names("/"), {"web3"})
    site.expect(site.place.named(site.get("/resolve", headers=[("X-Host", "LONE.cluster.local")]).text), "127.0.0.99\n")
    site.get("/resolve", headers=[("X-Host", "missing.cluster.local")])
