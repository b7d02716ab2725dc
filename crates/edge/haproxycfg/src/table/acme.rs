//! Lines of `acme` and `crt-store` sections.

use super::{Group, Keyword};
use crate::keywords::{acme, tls::store};

const fn line(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Acme, name, arguments, "3.2:12.8")
}

const fn of_store(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::CrtStore, name, arguments, "3.0:12.7")
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line("account-key", "<file>")
        .doc(
            "The file with the key of the account; '<name>.account.key' unless set. The edge makes a key if there is no file.",
            "account-key /etc/haproxy/letsencrypt.account.key",
        )
        .line(acme::account_key),
    line("acme-vars", "<text>")
        .doc("Variables for HAProxy's dataplaneAPI.", "acme-vars \"ApiKey=1234\"")
        .not_yet("records of DNS are set by a program that 'challenge-program' names; write what it needs there"),
    line("bits", "<number>").doc("Bits of RSA keys: 2048 (the default), 3072 or 4096.", "bits 4096").line(acme::bits),
    line("challenge", "{ http-01 | tls-alpn-01 | dns-01 | dns-persist-01 }")
        .doc(
            "How the edge proves to the authority that a name is its own: by a page at port 80 (the default), by a certificate at \
             port 443 (an addition of Tidegate), or by a record of DNS, which wildcards need.",
            "challenge http-01",
        )
        .line(acme::challenge),
    Keyword::new(Group::Acme, "challenge-program", "<path>", "")
        .doc(
            "dns-01: the program that sets and removes records of DNS. It is started as '<path> set <name> <text>' and \
             '<path> unset <name> <text>', and ends with 0 when the record can be seen or is gone.",
            "challenge-program /usr/local/bin/dns-record",
        )
        .line(acme::text),
    line("challenge-ready", "<condition>[,<condition>]*")
        .doc("What HAProxy waits for before a record of DNS is looked at.", "challenge-ready dns,delay")
        .not_yet("the program of 'challenge-program' ends when the record can be seen"),
    line("contact", "<mail address>")
        .doc("The mail address that the authority gets with the account.", "contact ops@example.com")
        .line(acme::text),
    line("curves", "<curve>").doc("The curve of ECDSA keys: P-256, P-384 (the default) or P-521.", "curves P-256").line(acme::curves),
    line("directory", "<url>")
        .doc(
            "The authority, by the URL of its directory. It must be set.",
            "directory https://acme-v02.api.letsencrypt.org/directory",
        )
        .line(acme::directory),
    line("dns-delay", "<time>")
        .doc("How long HAProxy waits between two looks at a record of DNS.", "dns-delay 30s")
        .not_yet("the program of 'challenge-program' ends when the record can be seen"),
    line("dns-timeout", "<time>")
        .doc("How long HAProxy waits for a record of DNS.", "dns-timeout 10m")
        .not_yet("the program of 'challenge-program' ends when the record can be seen"),
    line("eab-key-id", "<file>")
        .doc("A file with the identifier of the account that a person has at the authority.", "eab-key-id /etc/haproxy/eab.id")
        .line(acme::external_account),
    line("eab-mac-alg", "{ HS256 | HS384 | HS512 }")
        .doc("The algorithm that 'eab-mac-key' is for; HS256 unless set.", "eab-mac-alg HS256")
        .line(acme::mac_algorithm),
    line("eab-mac-key", "<file>")
        .doc("A file with the key of that account, in base64url.", "eab-mac-key /etc/haproxy/eab.key")
        .line(acme::external_account),
    line("keytype", "{ RSA | ECDSA }").doc("The kind of the certificates' keys; ECDSA unless set.", "keytype ECDSA").line(acme::key_type),
    line("map", "<map>")
        .doc(
            "The map that gets tokens and the account's thumbprint, for rules that answer http-01 as HAProxy needs them. The edge \
             answers http-01 without any rule.",
            "map virt@acme",
        )
        .line(acme::text),
    line("profile", "<name>")
        .doc("The profile of certificates that the authority is asked for.", "profile shortlived")
        .line(acme::text),
    line("provider-name", "<name>")
        .doc("The provider of DNS for HAProxy's dataplaneAPI.", "provider-name gandi")
        .not_yet("records of DNS are set by a program that 'challenge-program' names"),
    line("reuse-key", "{ on | off }")
        .doc("Whether a renewed certificate keeps its key; off unless set.", "reuse-key off")
        .line(acme::reuse_key),
    of_store("crt-base", "<dir>")
        .doc("Directory of relative paths of this section's certificates.", "crt-base /etc/ssl/certs")
        .line(store::base),
    of_store("key-base", "<dir>")
        .doc("Directory of relative paths of this section's keys.", "key-base /etc/ssl/private")
        .line(store::base),
    of_store(
        "load",
        "crt <file> [key <file>] [ocsp <file>] [issuer <file>] [alias <name>] [acme <section>] [domains <list>] [ips <list>]",
    )
    .doc(
        "A certificate for 'bind' lines and lists of certificates. With 'acme', it comes by itself, and there need be no file.",
        "load crt example.com.pem acme LE domains example.com,www.example.com",
    )
    .line(store::load),
];
