"""Tokens that are right, expired, of others and made up."""

TOKENS = {
    "ann": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6ImFubiIsInNjb3BlIjoicmVhZCJ9.Gms_OtLpGd-I4gNV1J-OuictUavC4lK6P7JCYRHyV0ApbWyA-5RLFr_XkAnhq3gwHoFoa9K7b90gIHmWH5HHRQ",
    "bob": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6ImJvYiIsInNjb3BlIjoicmVhZCB3cml0ZSJ9.b5iUc86HYjH_Yj0U5UVHkXzIqD3sGHHkbxY9H5UzfXjAGwTez7wYWI9otdhMOYfQvxhwFrXbGD3zAsoEQL9G2Q",
    "old": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjE3MDAwMDAwMDAsInN1YiI6ImFubiIsInNjb3BlIjoicmVhZCJ9.OjRkgzcUF4bkslpRKR3fqhJ2xkS-Fah0uuB-Ec-XIAotDf0FFox9fhlmLAM68dH8uGwlaBwAadnOGrQtObikug",
    "elsewhere": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2V2aWwuZXhhbXBsZSIsImF1ZCI6ImFwaSIsImV4cCI6NDEwMjQ0NDgwMCwic3ViIjoiYW5uIiwic2NvcGUiOiJyZWFkIn0.X-ESPGehAVgoy3fwXshy2X_ItMnAyKWzCmqyKKtLGIMTRXdPcuD9eziqP1khKORa7D6FNe-GSZRDEbXrL0x5hA",
    "other_key": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6ImFubiIsInNjb3BlIjoicmVhZCJ9.ctSDUpGQE2oaU2Dh-4WOJzWUusF3MacSRBMX29forGxXiaGcqGbcpxJtfL6ScTihgaVtwlqJ5prlBTWINSfsWw",
    "partner": "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL3BhcnRuZXIuZXhhbXBsZSIsImF1ZCI6ImFwaSIsImV4cCI6NDEwMjQ0NDgwMCwic3ViIjoiYWNtZSIsInNjb3BlIjoicmVhZCJ9.X33XwO1mIg2lbwyTBWszxae1SPXExq3GuhbF86SdowWnAT8b4uw218Z-J_Jy5QR8MPA2Mt-r15gIDYcAc3UcVJpaw7WcnvJeTlCn-FJvOwsc0agnHgUy4e3yauafmLl_YlHTtgwSbo80cqxS6mkmJbUxT84jOjW-x5nrgSRf0QAswAcjnSAql6qmU1PLmjcdyYUPdFZnT2jNFBbzwTRzyUB9o2Lhbjj6GXvLXYG7sXWOzhmoOJFxf3j9JhH4chUxRX80igQh4c06F5d0Cp6AEbUNJxK4oGfEmgSDSBFZGQYgYbvc8Qu8XnLZ5MH895an0NbF_YvUQrBLEUY3fcd6nA",
    "machine": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6ImNyb24iLCJzY29wZSI6InJlYWQifQ.cQRKnitRIOBqH8V_vUhK4iBA28dmGV0AKPyfJ6fVA6c",
    "confused": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InJvb3QiLCJzY29wZSI6InJlYWQgd3JpdGUifQ.4tYD5W5giHNqPST1lzhzuXs4hCOOz1Nee2UutDg1Jb8",
    "unsigned": "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InJvb3QiLCJzY29wZSI6InJlYWQgd3JpdGUifQ.",
    "changed": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJhdWQiOiJhcGkiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InJvb3QiLCJzY29wZSI6InJlYWQgd3JpdGUifQ.b5iUc86HYjH_Yj0U5UVHkXzIqD3sGHHkbxY9H5UzfXjAGwTez7wYWI9otdhMOYfQvxhwFrXbGD3zAsoEQL9G2Q",
}


def servers(site):
    site.app = site.http("127.0.0.11:8000", "app")


def play(site):
    def status(path, who=None, method="GET", scheme="Bearer"):
        headers = [("Authorization", f"{scheme} {TOKENS.get(who, who)}")] if who else []
        return site.get(path, method=method, headers=headers).status

    site.expect(site.get("/orders").field("www-authenticate"), 'Bearer realm="api"')
    site.expect([status("/orders", who) for who in ("ann", "bob", "partner", "machine")], [200] * 4)
    site.expect([status("/orders", who, "POST") for who in ("ann", "bob")], [403, 200])
    wrong = ("old", "elsewhere", "other_key", "confused", "unsigned", "changed", "not.a.token", "a", "..", TOKENS["ann"][:-9])
    site.expect([status("/orders", who) for who in wrong], [401] * len(wrong))
    site.expect([status("/orders", "ann", scheme=scheme) for scheme in ("bearer", "Basic", "Token")], [200, 401, 401])
