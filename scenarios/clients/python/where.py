# Where the store is, and how it is spoken with: REDIS_CA is the authority of its certificate, if it speaks TLS.
import os

PORT = int(os.environ["REDIS_PORT"])
CA = os.environ.get("REDIS_CA")
TLS = {"ssl": True, "ssl_ca_certs": CA} if CA else {}


def url(db):
    if CA:
        return f"rediss://127.0.0.1:{PORT}/{db}?ssl_cert_reqs=required&ssl_ca_certs={CA}"
    return f"redis://127.0.0.1:{PORT}/{db}"
