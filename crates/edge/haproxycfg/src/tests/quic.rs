//! Lines of QUIC: what goes with them, and what does not.

use super::{messages, read_with, tls::site};
use crate::{Parsed, diagnostics::Severity, model::BindAddress, source::Bundle};

fn read(bind: &str, mode: &str) -> Parsed {
    let files = Bundle::default().with("good.pem", site("a.example").as_bytes());
    let text = format!(
        "global\n tune.quic.frontend.max-idle-timeout 7s\n tune.quic.frontend.max-streams-bidi 9\n cluster-secret x\n\
         frontend f\n mode {mode}\n timeout client 1s\n bind {bind}\n default_backend b\n\
         backend b\n mode {mode}\n timeout connect 1s\n timeout server 1s\n server s 127.0.0.1:1\n"
    );
    read_with(&text, files, &[])
}

#[test]
fn a_line_of_quic_speaks_http_3_by_tls_1_3() {
    let parsed = read("quic4@:443,quic6@[::1]:443,:443 ssl crt good.pem alpn h2,h3 quic-force-retry", "http");
    assert_eq!(messages(&parsed, Severity::Warning), Vec::<String>::new());
    let config = parsed.config.unwrap();
    let binds = &config.proxies[0].binds;
    let written: Vec<_> = binds.iter().map(|bind| bind.address.written()).collect();
    assert_eq!(written, ["quic4@0.0.0.0:443", "quic6@[::1]:443", "0.0.0.0:443"]);
    for bind in binds {
        let options = &bind.tls.as_ref().unwrap().entries[0].options;
        let is_quic = matches!(bind.address, BindAddress::Quic(_));
        assert_eq!(options.versions.tls12, !is_quic);
        let expected: &[&[u8]] = if is_quic { &[b"h3"] } else { &[b"h2", b"h3"] };
        assert_eq!(options.protocols, expected);
        assert!(bind.quic_force_retry);
    }
    let global = &config.global;
    assert_eq!((global.tune.quic.idle_timeout.as_secs(), global.tune.quic.streams_max), (7, 9));
    assert_eq!(global.cluster_secret.as_deref(), Some("x"));
}

#[test]
fn what_does_not_go_with_quic_is_told() {
    for (bind, mode, severity, part) in [
        ("quic4@:443", "http", Severity::Alert, "QUIC is always encrypted: 'ssl' is missing"),
        ("quic4@:443 ssl crt good.pem alpn h2", "http", Severity::Alert, "no protocol that is spoken over QUIC"),
        ("quic4@:443 ssl crt good.pem ssl-max-ver TLSv1.2", "http", Severity::Alert, "QUIC needs TLS 1.3"),
        ("quic4@:443 ssl crt good.pem accept-proxy", "http", Severity::Alert, "no room for a header"),
        ("quic4@:443 ssl crt good.pem proto h2", "http", Severity::Alert, "'proto' is not possible with QUIC"),
        (
            "quic4@:443 ssl crt good.pem",
            "tcp",
            Severity::Alert,
            "'bind quic4@0.0.0.0:443' at [t.cfg:8] needs 'mode http'",
        ),
        ("quic4@[::1]:443 ssl crt good.pem", "http", Severity::Alert, "invalid address"),
        ("quic4@:443 ssl crt good.pem tfo", "http", Severity::Warning, "'tfo' has no effect on QUIC"),
        ("quic4@:443 ssl crt good.pem accept shared", "http", Severity::Warning, "a socket for each worker"),
    ] {
        let said = messages(&read(bind, mode), severity);
        assert!(said.len() == 1 && said[0].contains(part), "{bind}: {said:#?}");
    }
    let server = "backend b\n timeout connect 1s\n timeout server 1s\n server s quic4@127.0.0.1:1\n";
    let said = messages(&read_with(server, Bundle::default(), &[]), Severity::Alert);
    assert!(said[0].contains("QUIC is not possible here"), "{said:#?}");
}
