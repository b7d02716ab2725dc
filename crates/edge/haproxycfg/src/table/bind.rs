//! Words of `bind` lines and of `stats socket`.

use super::{Group, Keyword};
use crate::keywords::{bind, tls::bind as secure};

const GENERATED: &str = "certificates are not made on the way yet; name a file with 'crt'";
const OCSP: &str = "responses are not renewed by the program yet; a file '.ocsp' beside the certificate is sent along";

const fn word(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Bind, name, arguments, "5.1")
}

const fn tls(name: &'static str, arguments: &'static str, doc: &'static str, example: &'static str) -> Keyword {
    word(name, arguments).doc(doc, example).bind(secure::word)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Bind, "accept", "{ reuseport | shared | dispatch }", "")
        .doc(
            "How workers share the address: a socket for each (the kernel spreads connections), one \
             socket for all, or one worker that gives each connection to the one with the fewest.",
            "bind :80 accept dispatch",
        )
        .bind(bind::accept),
    word("accept-netscaler-cip", "<magic>")
        .doc("Expects NetScaler's header with the client's address.", "bind :80 accept-netscaler-cip 1234")
        .bind(bind::netscaler),
    word("accept-proxy", "")
        .doc("Expects a PROXY header, version 1 or 2, with the client's address.", "bind :80 accept-proxy")
        .bind(bind::flag),
    tls("allow-0rtt", "", "Accepts early data of TLS 1.3.", "bind :443 ssl crt site.pem allow-0rtt")
        .without_effect("early data is not accepted yet: clients send it after the handshake"),
    tls("alpn", "<protocols>", "Protocols that TLS negotiates.", "bind :443 ssl crt site.pem alpn h2,http/1.1"),
    word("backlog", "<number>")
        .doc("How many connections may wait to be accepted.", "bind :80 backlog 10000")
        .bind(bind::numeric),
    tls(
        "ca-file",
        "<file>",
        "CAs that client certificates are verified with.",
        "bind :443 ssl crt site.pem ca-file ca.pem verify required",
    ),
    tls(
        "ca-ignore-err",
        "[all|<id>,...]",
        "Errors of CAs that are ignored.",
        "bind :443 ssl crt site.pem ca-ignore-err all",
    ),
    word("ca-sign-file", "<file>")
        .doc("CA that generated certificates are signed with.", "bind :443 ssl ca-sign-file ca.pem")
        .not_yet(GENERATED),
    word("ca-sign-pass", "<passphrase>")
        .doc("Passphrase of the CA's key.", "bind :443 ssl ca-sign-pass secret")
        .not_yet(GENERATED),
    tls(
        "ca-verify-file",
        "<file>",
        "CAs that are verified with and not announced.",
        "bind :443 ssl crt site.pem ca-verify-file ca.pem",
    ),
    tls("ciphers", "<ciphers>", "Ciphers up to TLS 1.2.", "bind :443 ssl crt site.pem ciphers ECDHE+AESGCM"),
    tls(
        "ciphersuites",
        "<ciphersuites>",
        "Cipher suites from TLS 1.3.",
        "bind :443 ssl crt site.pem ciphersuites TLS_AES_128_GCM_SHA256",
    ),
    tls("crl-file", "<file>", "Revoked certificates.", "bind :443 ssl crt site.pem crl-file crl.pem"),
    tls("crt", "<file|dir>", "Certificate and key.", "bind :443 ssl crt /etc/ssl/site.pem"),
    tls(
        "crt-ignore-err",
        "[all|<id>,...]",
        "Errors of client certificates that are ignored.",
        "bind :443 ssl crt site.pem crt-ignore-err all",
    ),
    tls("crt-list", "<file>", "File that lists certificates.", "bind :443 ssl crt-list /etc/ssl/list"),
    tls("curves", "<curves>", "Elliptic curves.", "bind :443 ssl crt site.pem curves X25519:P-256"),
    word("defer-accept", "")
        .doc("The kernel gives a connection only once its first bytes are there.", "bind :80 defer-accept")
        .bind(bind::flag),
    tls("ecdhe", "<curve>", "Elliptic curve, by its old name.", "bind :443 ssl crt site.pem ecdhe prime256v1"),
    word("expose-fd", "listeners")
        .doc(
            "Lets clients of the statistics socket fetch the listening sockets.",
            "stats socket /run/haproxy/admin.sock expose-fd listeners",
        )
        .bind(bind::expose_fd),
    word("force-sslv3", "")
        .doc("Only SSL 3.0.", "bind :443 ssl crt site.pem force-sslv3")
        .removed("'force-sslv3' : SSL 3.0 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    word("force-tlsv10", "")
        .doc("Only TLS 1.0.", "bind :443 ssl crt site.pem force-tlsv10")
        .removed("'force-tlsv10' : TLS 1.0 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    word("force-tlsv11", "")
        .doc("Only TLS 1.1.", "bind :443 ssl crt site.pem force-tlsv11")
        .removed("'force-tlsv11' : TLS 1.1 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    tls("force-tlsv12", "", "Only TLS 1.2.", "bind :443 ssl crt site.pem force-tlsv12"),
    tls("force-tlsv13", "", "Only TLS 1.3.", "bind :443 ssl crt site.pem force-tlsv13"),
    word("generate-certificates", "")
        .doc("Makes a certificate for each name.", "bind :443 ssl generate-certificates ca-sign-file ca.pem")
        .not_yet(GENERATED),
    word("gid", "<number>").doc("Group of a unix socket, by number.", "bind /run/web.sock gid 99").bind(bind::unix),
    word("group", "<name>").doc("Group of a unix socket, by name.", "bind /run/web.sock group www").bind(bind::unix),
    word("id", "<number>").doc("Number of the socket in statistics.", "bind :80 id 5").bind(bind::id),
    word("interface", "<name>")
        .doc("Only connections that come by this network interface.", "bind :80 interface eth0")
        .bind(bind::text),
    word("level", "{ user | operator | admin }")
        .doc("What clients of the statistics socket may do.", "stats socket /run/haproxy/admin.sock level admin")
        .bind(bind::level),
    word("maxconn", "<number>").doc("Connections on this socket.", "bind :80 maxconn 2000").bind(bind::numeric),
    word("mode", "<octal>").doc("Mode of a unix socket.", "bind /run/web.sock mode 660").bind(bind::unix),
    word("mss", "<number>").doc("Maximum segment size.", "bind :80 mss 1400").bind(bind::numeric),
    word("name", "<name>").doc("Name of the socket in statistics and logs.", "bind :80 name plain").bind(bind::text),
    word("namespace", "<name>").doc("Network namespace.", "bind :80 namespace blue").bind(bind::text),
    word("nice", "<-1024..1024>")
        .doc("Priority of connections of this socket.", "bind :80 nice 100")
        .bind(bind::numeric)
        .without_effect("connections of a worker take turns"),
    tls("no-ca-names", "", "Does not announce CAs to clients.", "bind :443 ssl crt site.pem no-ca-names"),
    tls("no-sslv3", "", "No SSL 3.0.", "bind :443 ssl crt site.pem no-sslv3"),
    tls("no-tls-tickets", "", "No TLS session tickets.", "bind :443 ssl crt site.pem no-tls-tickets"),
    tls("no-tlsv10", "", "No TLS 1.0.", "bind :443 ssl crt site.pem no-tlsv10"),
    tls("no-tlsv11", "", "No TLS 1.1.", "bind :443 ssl crt site.pem no-tlsv11"),
    tls("no-tlsv12", "", "No TLS 1.2.", "bind :443 ssl crt site.pem no-tlsv12"),
    tls("no-tlsv13", "", "No TLS 1.3.", "bind :443 ssl crt site.pem no-tlsv13"),
    tls(
        "npn",
        "<protocols>",
        "Protocols that TLS negotiates, in the old way.",
        "bind :443 ssl crt site.pem npn http/1.1",
    ),
    word("ocsp-update", "[off|on]")
        .doc("Renews OCSP responses.", "bind :443 ssl crt site.pem ocsp-update on")
        .not_yet(OCSP),
    tls(
        "prefer-client-ciphers",
        "",
        "The client's order of ciphers counts.",
        "bind :443 ssl crt site.pem prefer-client-ciphers",
    ),
    word("process", "<process>[/<thread>]")
        .doc("Workers that serve the socket, by the old word.", "bind :80 process 1/1")
        .bind(bind::process),
    word("proto", "<name>")
        .doc(
            "Protocol of connections: h1, h2, or none in TCP mode; h2 without TLS is HTTP/2 with prior knowledge.",
            "bind :80 proto h2",
        )
        .bind(bind::proto),
    word("quic-force-retry", "")
        .doc(
            "Has every QUIC client prove its address by a Retry packet before anything is done for it (experimental).",
            "bind quic4@:443 ssl crt site.pem alpn h3 quic-force-retry",
        )
        .bind(bind::flag),
    word("severity-output", "<format>")
        .doc(
            "Severity in messages of the statistics socket.",
            "stats socket /run/haproxy/admin.sock severity-output string",
        )
        .bind(bind::severity_output),
    word("shards", "{ <number> | by-thread }")
        .doc("Sockets for the address: 1 is 'accept shared', more are 'accept reuseport'.", "bind :80 shards by-thread")
        .bind(bind::shards),
    tls("ssl", "", "TLS.", "bind :443 ssl crt /etc/ssl/site.pem"),
    tls("ssl-max-ver", "<version>", "Highest TLS version.", "bind :443 ssl crt site.pem ssl-max-ver TLSv1.3"),
    tls("ssl-min-ver", "<version>", "Lowest TLS version.", "bind :443 ssl crt site.pem ssl-min-ver TLSv1.2"),
    tls("strict-sni", "", "Refuses names without a certificate.", "bind :443 ssl crt /etc/ssl/ strict-sni"),
    word("tcp-ut", "<time>")
        .doc("Closes the connection when data is not acknowledged for this time.", "bind :80 tcp-ut 30s")
        .bind(bind::tcp_user_timeout),
    word("tfo", "").doc("TCP Fast Open.", "bind :80 tfo").bind(bind::flag),
    word("thread", "[<group>/]<threads>")
        .doc("Workers that serve the socket, from 1.", "bind :80 thread 1")
        .bind(bind::thread),
    tls(
        "tls-ticket-keys",
        "<file>",
        "Keys of TLS session tickets.",
        "bind :443 ssl crt site.pem tls-ticket-keys /etc/ssl/tickets",
    ),
    word("transparent", "")
        .doc("May listen on addresses that are not the machine's.", "bind :80 transparent")
        .bind(bind::flag),
    word("uid", "<number>").doc("Owner of a unix socket, by number.", "bind /run/web.sock uid 99").bind(bind::unix),
    word("user", "<name>").doc("Owner of a unix socket, by name.", "bind /run/web.sock user www").bind(bind::unix),
    word("v4v6", "").doc("An IPv6 socket accepts IPv4 as well.", "bind :::80 v4v6").bind(bind::flag),
    word("v6only", "").doc("An IPv6 socket accepts IPv6 only.", "bind :::80 v6only").bind(bind::flag),
    tls(
        "verify",
        "[none|optional|required]",
        "Whether clients need a certificate.",
        "bind :443 ssl crt site.pem ca-file ca.pem verify required",
    ),
];
