//! Words of `server` and `default-server` lines.

use super::{Group, Keyword};
use crate::keywords::{server, tls::server as secure};

const NO_VERIFY_HOST: &str = "leave out 'verifyhost' of default-server";
const fn word(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Server, name, arguments, "5.2")
}

const fn tls(name: &'static str, arguments: &'static str, doc: &'static str, example: &'static str) -> Keyword {
    word(name, arguments).doc(doc, example).server(secure::word)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Server, "accept-legacy-http-response", "", "")
        .doc(
            "Passes answers on whose heads break the rules but leave no doubt about their end, put in order.",
            "server old1 192.0.2.1:80 accept-legacy-http-response",
        )
        .server(server::flag),
    word("addr", "<address>")
        .doc(
            "Address that checks connect to instead of the server's.",
            "server web1 192.0.2.1:80 check addr 192.0.2.101",
        )
        .server(server::addr),
    word("agent-addr", "<address>")
        .doc("Address of the agent.", "server web1 192.0.2.1:80 agent-check agent-addr 192.0.2.101 agent-port 9000")
        .server(server::agent_addr),
    word("agent-check", "")
        .doc(
            "Asks an agent on the server for its state and weight.",
            "server web1 192.0.2.1:80 agent-check agent-port 9000",
        )
        .server(server::flag),
    word("agent-inter", "<time>")
        .doc(
            "Interval between questions to the agent.",
            "server web1 192.0.2.1:80 agent-check agent-port 9000 agent-inter 5s",
        )
        .server(server::time),
    word("agent-port", "<port>")
        .doc("Port of the agent.", "server web1 192.0.2.1:80 agent-check agent-port 9000")
        .server(server::number),
    word("agent-send", "<text>")
        .doc("What is sent to the agent.", "server web1 192.0.2.1:80 agent-check agent-port 9000 agent-send hello")
        .server(server::text),
    tls("allow-0rtt", "", "Sends early data of TLS 1.3.", "server web1 192.0.2.1:443 ssl allow-0rtt")
        .without_effect("early data is not sent yet: all goes after the handshake"),
    tls("alpn", "<protocols>", "Protocols that TLS negotiates.", "server web1 192.0.2.1:443 ssl alpn h2,http/1.1"),
    word("backup", "")
        .doc("Used only when no other server is up.", "server spare 192.0.2.9:80 backup")
        .server(server::flag),
    tls(
        "ca-file",
        "<file>",
        "CAs that the server's certificate is verified with.",
        "server web1 192.0.2.1:443 ssl verify required ca-file ca.pem",
    ),
    word("check", "").doc("Checks the server's health.", "server web1 192.0.2.1:80 check").server(server::flag),
    tls(
        "check-alpn",
        "<protocols>",
        "Protocols that TLS negotiates for checks.",
        "server web1 192.0.2.1:443 check-ssl check-alpn h2",
    ),
    word("check-proto", "<name>")
        .doc(
            "Protocol of checks: h1 or h2 for those of HTTP, none for others.",
            "server web1 192.0.2.1:80 check check-proto none",
        )
        .server(server::protocol),
    word("check-send-proxy", "")
        .doc(
            "Checks begin with a PROXY header even if 'port' or 'addr' is there.",
            "server web1 192.0.2.1:80 check check-send-proxy",
        )
        .server(server::flag),
    tls(
        "check-sni",
        "<name>",
        "Name that TLS asks for in checks.",
        "server web1 192.0.2.1:443 check-ssl check-sni www.example.com",
    ),
    tls("check-ssl", "", "Checks use TLS.", "server web1 192.0.2.1:443 check check-ssl verify none"),
    word("check-via-socks4", "")
        .doc(
            "Checks go through the SOCKS4 proxy.",
            "server web1 192.0.2.1:80 check check-via-socks4 socks4 192.0.2.200:1080",
        )
        .server(server::flag),
    tls("ciphers", "<ciphers>", "Ciphers up to TLS 1.2.", "server web1 192.0.2.1:443 ssl ciphers ECDHE+AESGCM"),
    tls(
        "ciphersuites",
        "<ciphersuites>",
        "Cipher suites from TLS 1.3.",
        "server web1 192.0.2.1:443 ssl ciphersuites TLS_AES_128_GCM_SHA256",
    ),
    word("cookie", "<value>")
        .doc("Value of the persistence cookie that stands for this server.", "server web1 192.0.2.1:80 cookie w1")
        .server(server::text),
    tls(
        "crl-file",
        "<file>",
        "Revoked certificates.",
        "server web1 192.0.2.1:443 ssl verify required ca-file ca.pem crl-file crl.pem",
    ),
    tls("crt", "<file>", "Certificate that is shown to the server.", "server web1 192.0.2.1:443 ssl crt client.pem"),
    word("disabled", "").doc("Starts in maintenance.", "server web1 192.0.2.1:80 disabled").server(server::flag),
    word("downinter", "<time>")
        .doc("Interval between checks while the server is down.", "server web1 192.0.2.1:80 check downinter 10s")
        .server(server::time),
    word("enabled", "")
        .doc("Does not start in maintenance, whatever default-server says.", "server web1 192.0.2.1:80 enabled")
        .server(server::flag),
    word("error-limit", "<number>")
        .doc(
            "Observed errors in a row after which 'on-error' acts.",
            "server web1 192.0.2.1:80 check observe layer7 error-limit 50",
        )
        .server(server::number),
    word("fall", "<number>")
        .doc("Failed checks in a row after which the server is down.", "server web1 192.0.2.1:80 check fall 5")
        .server(server::number),
    word("fastinter", "<time>")
        .doc(
            "Interval between checks while the state is about to change.",
            "server web1 192.0.2.1:80 check fastinter 500",
        )
        .server(server::time),
    word("force-sslv3", "")
        .doc("Only SSL 3.0.", "server web1 192.0.2.1:443 ssl force-sslv3")
        .removed("'force-sslv3' : SSL 3.0 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    word("force-tlsv10", "")
        .doc("Only TLS 1.0.", "server web1 192.0.2.1:443 ssl force-tlsv10")
        .removed("'force-tlsv10' : TLS 1.0 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    word("force-tlsv11", "")
        .doc("Only TLS 1.1.", "server web1 192.0.2.1:443 ssl force-tlsv11")
        .removed("'force-tlsv11' : TLS 1.1 is never spoken: it is broken, and left out on purpose. Write 'ssl-min-ver TLSv1.2' instead."),
    tls("force-tlsv12", "", "Only TLS 1.2.", "server web1 192.0.2.1:443 ssl force-tlsv12"),
    tls("force-tlsv13", "", "Only TLS 1.3.", "server web1 192.0.2.1:443 ssl force-tlsv13"),
    word("id", "<number>")
        .doc("Number of the server in statistics and state files.", "server web1 192.0.2.1:80 id 5")
        .server(server::id),
    word("init-addr", "{last | libc | none | <ip>},...")
        .doc(
            "How a name gets its address at start, in order.",
            "server web1 web1.example.com:80 init-addr last,libc,none",
        )
        .server(server::init_addr),
    Keyword::new(Group::Server, "initial", "<number>", "")
        .doc(
            "Checks of the window that are taken for good at the start; all but one of the threshold if nothing is said.",
            "server web1 192.0.2.1:80 check window 8 threshold 3 initial 0",
        )
        .server(server::number),
    word("inter", "<time>")
        .doc("Interval between checks.", "server web1 192.0.2.1:80 check inter 5s")
        .server(server::time),
    word("log-proto", "<proto>")
        .doc("Framing of log lines, for servers of rings.", "server log1 192.0.2.1:514 log-proto octet-count")
        .server(server::log_proto),
    word("max-reuse", "<number>")
        .doc("Most times that a connection is used again; -1 is no limit.", "server web1 192.0.2.1:80 max-reuse 1000")
        .server(server::number),
    word("maxconn", "<number>")
        .doc("Connections to the server; further requests are queued.", "server web1 192.0.2.1:80 maxconn 100")
        .server(server::number),
    word("maxqueue", "<number>")
        .doc(
            "Requests in the queue of the server; further ones go to another.",
            "server web1 192.0.2.1:80 maxconn 100 maxqueue 50",
        )
        .server(server::number),
    word("minconn", "<number>")
        .doc(
            "Connections to the server while the backend is idle; grows to maxconn with the load.",
            "server web1 192.0.2.1:80 minconn 10 maxconn 100",
        )
        .server(server::number),
    word("namespace", "<name>")
        .doc("Network namespace of the connection.", "server web1 192.0.2.1:80 namespace blue")
        .server(server::namespace),
    word("no-agent-check", "")
        .doc("Asks no agent, whatever default-server says.", "server web1 192.0.2.1:80 no-agent-check")
        .server(server::flag),
    Keyword::new(Group::Server, "no-accept-legacy-http-response", "", "")
        .doc(
            "Refuses answers that break the rules, whatever default-server says.",
            "server web1 192.0.2.1:80 no-accept-legacy-http-response",
        )
        .server(server::flag),
    word("no-backup", "")
        .doc("Is no backup, whatever default-server says.", "server web1 192.0.2.1:80 no-backup")
        .server(server::flag),
    word("no-check", "")
        .doc("Is not checked, whatever default-server says.", "server web1 192.0.2.1:80 no-check")
        .server(server::flag),
    word("no-check-send-proxy", "")
        .doc(
            "Checks have no PROXY header, whatever default-server says.",
            "server web1 192.0.2.1:80 no-check-send-proxy",
        )
        .server(server::flag),
    word("no-check-ssl", "")
        .doc("Checks use no TLS, whatever default-server says.", "server web1 192.0.2.1:80 no-check-ssl")
        .server(secure::word),
    word("no-send-proxy", "")
        .doc("Sends no PROXY header version 1, whatever default-server says.", "server web1 192.0.2.1:80 no-send-proxy")
        .server(server::flag),
    word("no-send-proxy-v2", "")
        .doc(
            "Sends no PROXY header version 2, whatever default-server says.",
            "server web1 192.0.2.1:80 no-send-proxy-v2",
        )
        .server(server::flag),
    word("no-send-proxy-v2-ssl", "")
        .doc("Sends no PROXY header version 2, whatever default-server says.", "server web1 192.0.2.1:80 no-send-proxy-v2-ssl")
        .server(server::flag),
    word("no-send-proxy-v2-ssl-cn", "")
        .doc(
            "Sends no PROXY header version 2, whatever default-server says.",
            "server web1 192.0.2.1:80 no-send-proxy-v2-ssl-cn",
        )
        .server(server::flag),
    word("no-ssl", "")
        .doc("Uses no TLS, whatever default-server says.", "server web1 192.0.2.1:80 no-ssl")
        .server(secure::word),
    tls("no-ssl-reuse", "", "Does not resume TLS sessions.", "server web1 192.0.2.1:443 ssl no-ssl-reuse"),
    tls("no-sslv3", "", "No SSL 3.0.", "server web1 192.0.2.1:443 ssl no-sslv3"),
    tls("no-tls-tickets", "", "No TLS session tickets.", "server web1 192.0.2.1:443 ssl no-tls-tickets"),
    tls("no-tlsv10", "", "No TLS 1.0.", "server web1 192.0.2.1:443 ssl no-tlsv10"),
    tls("no-tlsv11", "", "No TLS 1.1.", "server web1 192.0.2.1:443 ssl no-tlsv11"),
    tls("no-tlsv12", "", "No TLS 1.2.", "server web1 192.0.2.1:443 ssl no-tlsv12"),
    tls("no-tlsv13", "", "No TLS 1.3.", "server web1 192.0.2.1:443 ssl no-tlsv13"),
    word("no-tfo", "")
        .doc("No TCP Fast Open, whatever default-server says.", "server web1 192.0.2.1:80 no-tfo")
        .server(server::flag),
    word("no-verifyhost", "")
        .doc("Verifies no name in the certificate.", "server web1 192.0.2.1:443 no-verifyhost")
        .not_yet(NO_VERIFY_HOST),
    word("non-stick", "")
        .doc("Is not remembered in stick tables.", "server web1 192.0.2.1:80 non-stick")
        .server(server::flag),
    tls(
        "npn",
        "<protocols>",
        "Protocols that TLS negotiates, in the old way.",
        "server web1 192.0.2.1:443 ssl npn http/1.1",
    ),
    word("observe", "{ none | layer4 | layer7 }")
        .doc(
            "Learns the health of the server from connections or responses of real traffic.",
            "server web1 192.0.2.1:80 check observe layer7",
        )
        .server(server::observe),
    word("on-error", "{ fastinter | fail-check | sudden-death | mark-down }")
        .doc("What too many observed errors do.", "server web1 192.0.2.1:80 check observe layer7 on-error mark-down")
        .server(server::on),
    word("on-marked-down", "shutdown-sessions")
        .doc(
            "Ends the sessions of a server that goes down.",
            "server db1 192.0.2.1:3306 check on-marked-down shutdown-sessions",
        )
        .server(server::on),
    word("on-marked-up", "shutdown-backup-sessions")
        .doc(
            "Ends the sessions of backup servers when this one comes up.",
            "server db1 192.0.2.1:3306 check on-marked-up shutdown-backup-sessions",
        )
        .server(server::on),
    word("pool-low-conn", "<number>")
        .doc(
            "Idle connections that are kept though they are not needed, and up to which workers ask each other for none.",
            "server web1 192.0.2.1:80 pool-low-conn 10",
        )
        .server(server::number),
    word("pool-max-conn", "<number>")
        .doc(
            "Idle connections that are kept; -1 is no limit, 0 keeps none.",
            "server web1 192.0.2.1:80 pool-max-conn 100",
        )
        .server(server::number),
    word("pool-purge-delay", "<time>")
        .doc(
            "Half of the idle connections beyond need are closed each time this passes.",
            "server web1 192.0.2.1:80 pool-purge-delay 5s",
        )
        .server(server::time),
    word("port", "<port>")
        .doc("Port that checks connect to instead of the server's.", "server web1 192.0.2.1:80 check port 8080")
        .server(server::number),
    word("proto", "<name>")
        .doc(
            "Protocol of connections: h1, h2, fcgi, scgi, uwsgi, or none in TCP mode; without TLS, h2 is spoken with prior knowledge.",
            "server web1 192.0.2.1:80 proto h2",
        )
        .server(server::protocol),
    word(
        "proxy-v2-options",
        "{ authority | crc32c | unique-id | ssl | cert-cn | cert-key | cert-sig | ssl-cipher },...",
    )
    .doc(
        "Further fields of the PROXY header version 2.",
        "server web1 192.0.2.1:80 send-proxy-v2 proxy-v2-options unique-id",
    )
    .server(server::proxy_options),
    word("redir", "<prefix>")
        .doc(
            "Redirects GET and HEAD requests to this prefix instead of forwarding them.",
            "server web1 192.0.2.1:80 redir http://web1.example.com",
        )
        .server(server::text),
    word("resolve-net", "<network>,...")
        .doc("Networks whose addresses are preferred.", "server web1 web1.example.com:80 resolve-net 10.0.0.0/8")
        .server(server::resolve_net),
    word("resolve-opts", "{ allow-dup-ip | ignore-weight | prevent-dup-ip },...")
        .doc("Options of resolution.", "server web1 web1.example.com:80 resolve-opts allow-dup-ip")
        .server(server::resolve_opts),
    word("resolve-prefer", "{ ipv4 | ipv6 }")
        .doc(
            "Address family that a name resolves to when it has both.",
            "server web1 web1.example.com:80 resolve-prefer ipv4",
        )
        .server(server::resolve_prefer),
    word("resolvers", "<id>")
        .doc("Section of name servers that resolve the name.", "server web1 web1.example.com:80 resolvers dns")
        .server(server::resolvers),
    word("rise", "<number>")
        .doc("Good checks in a row after which the server is up.", "server web1 192.0.2.1:80 check rise 3")
        .server(server::number),
    word("send-proxy", "")
        .doc("Begins connections with a PROXY header version 1.", "server web1 192.0.2.1:80 send-proxy")
        .server(server::flag),
    word("send-proxy-v2", "")
        .doc("Begins connections with a PROXY header version 2.", "server web1 192.0.2.1:80 send-proxy-v2")
        .server(server::flag),
    word("send-proxy-v2-ssl", "")
        .doc(
            "PROXY header version 2 with what is known of TLS.",
            "server web1 192.0.2.1:80 send-proxy-v2-ssl",
        )
        .server(server::flag),
    word("send-proxy-v2-ssl-cn", "")
        .doc(
            "PROXY header version 2 with the name of the client's certificate.",
            "server web1 192.0.2.1:80 send-proxy-v2-ssl-cn",
        )
        .server(server::flag),
    word("shard", "<number>")
        .doc("Part of the keys that a peer gets.", "server peer1 192.0.2.1:1024 shard 1")
        .not_yet("every peer gets every key; HAProxy has it from 2.7 on"),
    word("slowstart", "<time>")
        .doc(
            "Time over which a server that comes up gets its full weight and maxconn.",
            "server web1 192.0.2.1:80 check slowstart 30s",
        )
        .server(server::time),
    tls("sni", "<expression>", "Name that TLS asks for.", "server web1 192.0.2.1:443 ssl sni req.hdr(host)"),
    word("socks4", "<address>:<port>")
        .doc("SOCKS4 proxy on the way.", "server web1 192.0.2.1:80 socks4 192.0.2.200:1080")
        .server(server::socks4),
    word("source", "<address>[:<port>[-<port>]] [usesrc { <address> | client | clientip | hdr_ip(<name>[,<number>]) }] [interface <name>]")
        .doc(
            "Address that connections to the server come from.",
            "server web1 192.0.2.1:80 source 192.0.2.200:10000-20000",
        )
        .server(server::source),
    tls("ssl", "", "TLS.", "server web1 192.0.2.1:443 ssl verify required ca-file ca.pem"),
    tls("ssl-max-ver", "<version>", "Highest TLS version.", "server web1 192.0.2.1:443 ssl ssl-max-ver TLSv1.3"),
    tls("ssl-min-ver", "<version>", "Lowest TLS version.", "server web1 192.0.2.1:443 ssl ssl-min-ver TLSv1.2"),
    tls("ssl-reuse", "", "Resumes TLS sessions.", "server web1 192.0.2.1:443 ssl ssl-reuse"),
    word("stick", "")
        .doc("Is remembered in stick tables, whatever default-server says.", "server web1 192.0.2.1:80 stick")
        .server(server::flag),
    word("tcp-ut", "<time>")
        .doc(
            "Closes the connection when data is not acknowledged for this time.",
            "server web1 192.0.2.1:80 tcp-ut 30s",
        )
        .server(server::time),
    word("tfo", "")
        .doc("TCP Fast Open: the request goes with the first packet, where the server and both systems allow it.", "server web1 192.0.2.1:80 tfo")
        .server(server::flag),
    tls("tls-tickets", "", "TLS session tickets.", "server web1 192.0.2.1:443 ssl tls-tickets"),
    Keyword::new(Group::Server, "threshold", "<number>", "")
        .doc("Good checks that the window must have.", "server web1 192.0.2.1:80 check window 8 threshold 3")
        .server(server::number),
    word("track", "[<backend>/]<server>")
        .doc("Takes its state from another server that is checked.", "server api1 192.0.2.1:81 track web/web1")
        .server(server::text),
    word("usesrc", "{ <address> | client | clientip | hdr_ip(<name>[,<number>]) }")
        .doc("Belongs to 'source'.", "server web1 192.0.2.1:80 source 0.0.0.0 usesrc client")
        .server(server::usesrc),
    tls(
        "verify",
        "[none|required]",
        "Whether the server's certificate is verified.",
        "server web1 192.0.2.1:443 ssl verify none",
    ),
    tls(
        "verifyhost",
        "<name>",
        "Name that the server's certificate must have.",
        "server web1 192.0.2.1:443 ssl verify required ca-file ca.pem verifyhost www",
    ),
    word("weight", "<0..256>")
        .doc("Share of the load; 0 gets none.", "server web1 192.0.2.1:80 weight 10")
        .server(server::number),
    Keyword::new(Group::Server, "window", "<1..64>", "")
        .doc(
            "Counts checks as Varnish does: of the last ones, so many (threshold) must be good, whatever their order.",
            "server web1 192.0.2.1:80 check window 8 threshold 3",
        )
        .server(server::number),
    word("ws", "{ auto | h1 | h2 }")
        .doc("Protocol of WebSockets to the server.", "server web1 192.0.2.1:80 ws h1")
        .server(server::websocket),
];
