//! Certificates of configurations: what is said of those that cannot be used, and what the others become.

use std::sync::OnceLock;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use tls::{Verify, Versions};

use super::{messages, read_with};
use crate::{diagnostics::Severity, source::Bundle};

/// A certificate that has made itself, and its key.
fn pair(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A file with both.
pub(super) fn site(name: &str) -> String {
    let (certificate, key) = pair(name);
    certificate + &key
}

/// A list of what an authority has revoked: nothing.
fn revocation_list() -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["ca".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::CrlSign];
    let issuer = Issuer::from_params(&params, &key);
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2090, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&issuer).unwrap().pem().unwrap()
}

/// The files that examples of the table name.
pub(crate) fn with_examples(files: Bundle) -> Bundle {
    static FILES: OnceLock<Bundle> = OnceLock::new();
    let ours = FILES.get_or_init(|| {
        let keys = format!("{}\n", "A".repeat(64)).repeat(3);
        let pem = site("www.example.com");
        Bundle::default()
            .with("site.pem", pem.as_bytes())
            .with("client.pem", pem.as_bytes())
            .with("ca.pem", pem.as_bytes())
            .with("crl.pem", revocation_list().as_bytes())
            .with("/etc/ssl/certs/ca-certificates.crt", pem.as_bytes())
            .with("/etc/haproxy/letsencrypt.account.key", pem.as_bytes())
            .with("/etc/haproxy/eab.id", b"kid-1\n")
            .with("/etc/haproxy/eab.key", b"c2VjcmV0\n")
            .with("/etc/ssl/site.pem", pem.as_bytes())
            .with("/etc/ssl//site.pem", pem.as_bytes())
            .with("/etc/ssl/list", b"# all\nsite.pem [alpn h2] www.example.com\n")
            .with("/etc/ssl/tickets", keys.as_bytes())
            .with_directory("/etc/ssl/", &["site.pem"])
    });
    files.merged(ours)
}

/// Files of all kinds.
fn files() -> Bundle {
    let ((certificate, key), (_, other_key)) = (pair("www.example.com"), pair("other.example"));
    let file = |parts: &[&str]| parts.concat().into_bytes();
    Bundle::default()
        .with("good.pem", &file(&[&certificate, &key]))
        .with("reversed.pem", &file(&[&key, &certificate]))
        .with("bare.pem", certificate.as_bytes())
        .with("beside.pem", certificate.as_bytes())
        .with("beside.pem.key", key.as_bytes())
        .with("mismatch.pem", &file(&[&certificate, &other_key]))
        .with("key.pem", key.as_bytes())
        .with("garbage.pem", b"hello\n")
        .with("empty.pem", b"")
        .with("broken.pem", certificate.replace("MII", "M!!").as_bytes())
        .with("encrypted.pem", &file(&[&certificate, &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")]))
        .with(
            "list",
            b"good.pem [verify optional ca-file bare.pem] *.example.com !secret.example.com\n\n# more\nbeside.pem\n",
        )
        .with("bad-list", b"good.pem\ngood.pem [verrify none]\n")
        .with("cut-list", b"good.pem [alpn h2\n")
        .with("tickets", b"x\n")
        .with("folder/a.pem", site("a.example").as_bytes())
        .with("folder/b.pem", certificate.as_bytes())
        .with("folder/b.pem.key", key.as_bytes())
        .with_directory("folder", &["b.pem.key", "b.pem", "a.pem", ".hidden"])
}

/// What is said of a `bind` line, a `server` line and lines of `global`.
fn said(bind: &str, server: &str, global: &str, severity: Severity) -> Vec<String> {
    let text = format!(
        "global\n  {global}\ndefaults\n  mode http\n  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\nlisten l\n  \
         bind :443 {bind}\n  server s 192.0.2.1:443 {server}\n"
    );
    let parsed = read_with(&text, files(), &[]);
    let place = |message: &str| message.split_once(" : ").map_or(message, |(_, rest)| rest).to_owned();
    let of_bind = |message: String| message.replace("'bind :443' in section 'listen' : ", "");
    messages(&parsed, severity).iter().map(|message| of_bind(place(message))).collect()
}

#[test]
fn what_cannot_be_used_is_told() {
    for (bind, server, global, message) in [
        (
            "ssl crt gone.pem",
            "",
            "",
            "unable to stat SSL certificate from file 'gone.pem' : No such file or directory.",
        ),
        ("ssl crt bare.pem", "", "", "No Private Key found in 'bare.pem.key'."),
        ("ssl crt mismatch.pem", "", "", "inconsistencies between private key and certificate loaded 'mismatch.pem'."),
        ("ssl crt key.pem", "", "", "unable to load certificate from file 'key.pem'."),
        ("ssl crt garbage.pem", "", "", "unable to load certificate from file 'garbage.pem'."),
        ("ssl crt empty.pem", "", "", "unable to load certificate from file 'empty.pem'."),
        (
            "ssl crt encrypted.pem",
            "",
            "",
            "the private key of 'encrypted.pem' is encrypted, and nobody could be asked.",
        ),
        ("ssl", "", "", "no SSL certificate specified (use 'crt')"),
        ("ssl crt", "", "", "'crt' : missing certificate location"),
        ("ssl crt good.pem verify required", "", "", "verify is enabled but no CA file specified"),
        ("ssl crt good.pem ciphers AES128-SHA", "", "", "'ciphers' : unable to set SSL cipher list to 'AES128-SHA'"),
        ("ssl crt good.pem curves X448", "", "", "'curves' : unable to set SSL curves list to 'X448'"),
        ("ssl crt good.pem ssl-min-ver TLSv9", "", "", "'TLSv9' : unknown ssl/tls version"),
        ("ssl crt good.pem ssl-max-ver TLSv1.1", "", "", "all SSL/TLS versions are disabled"),
        ("ssl crt good.pem", "", "ssl-default-bind-options force-tlsv10", "all SSL/TLS versions are disabled"),
        ("ssl crt good.pem no-tlsv12", "", "ssl-default-bind-options no-tlsv13", "all SSL/TLS versions are disabled"),
        (
            "ssl crt good.pem crt-ignore-err foo",
            "",
            "",
            "'crt-ignore-err' : ID '0' out of range (1..94) in error IDs list 'foo'",
        ),
        ("ssl crt-list gone", "", "", "'crt-list' : cannot open file 'gone' : No such file or directory"),
        (
            "ssl crt-list bad-list",
            "",
            "",
            "'crt-list' : error processing line 2 in file 'bad-list' : unknown ssl keyword verrify; did you mean 'verify' maybe ?",
        ),
        ("ssl crt-list cut-list", "", "", "'crt-list' : error processing line 1 in file 'cut-list' : missing ']'"),
        ("ssl crt good.pem tls-ticket-keys gone", "", "", "'gone' : unable to load ssl tickets keys file"),
        ("ssl crt good.pem tls-ticket-keys tickets", "", "", "'tickets' : unable to decode base64 key line 1"),
        (
            "ssl crt good.pem ca-file garbage.pem",
            "",
            "",
            "'ca-file' : unable to load garbage.pem: couldn't open the ca-file 'garbage.pem' (no certificate or crl found)",
        ),
        ("", "ssl crt bare.pem verify none", "", "'server l/s' : No Private Key found in 'bare.pem.key'."),
        (
            "",
            "ssl sni nothing",
            "",
            "'server l/s' : error detected while parsing sni expression : unknown fetch method 'nothing'",
        ),
    ] {
        let alerts = said(bind, server, global, Severity::Alert);
        assert_eq!(alerts.first().map(String::as_str), Some(message), "{bind} | {server} | {global}: {alerts:#?}");
    }
    let alerts = said("", "ssl", "", Severity::Alert);
    assert!(alerts[0].contains("verify is enabled by default but no CA file specified."), "{alerts:?}");
}

#[test]
fn what_is_left_out_is_a_warning() {
    for (bind, global, part) in [
        ("ssl crt good.pem ssl-min-ver TLSv1.0", "", "TLSv1.0 is never spoken"),
        (
            "ssl crt good.pem ciphers ECDHE+AESGCM:DHE-RSA-AES128-GCM-SHA256:AES256-SHA",
            "",
            "DHE-RSA-AES128-GCM-SHA256, AES256-SHA.",
        ),
        ("ssl crt good.pem", "ssl-default-bind-curves X25519:X448", "left out, as only X25519"),
        ("ssl crt good.pem npn http/1.1", "", "'npn' is deprecated"),
        ("crt good.pem", "", "A certificate was specified but SSL was not enabled"),
        ("ssl crt good.pem allow-0rtt", "", "'allow-0rtt' has no effect"),
    ] {
        let warnings = said(bind, "", global, Severity::Warning);
        assert!(warnings.len() == 1 && warnings[0].contains(part), "{bind}: {warnings:#?}");
    }
}

#[test]
fn what_generators_write_runs() {
    // As Mozilla's generator has it for old and new clients.
    let global = "ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                  ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
                  DHE-RSA-AES256-GCM-SHA384\n  ssl-default-bind-options prefer-client-ciphers no-sslv3 no-tlsv10 no-tlsv11 no-tls-tickets";
    assert_eq!(said("ssl crt good.pem", "", global, Severity::Alert), Vec::<String>::new());
    let warnings = said("ssl crt good.pem", "", global, Severity::Warning);
    let names = "left out, as only ECDHE with AES-GCM or ChaCha20 is spoken: DHE-RSA-AES128-GCM-SHA256, DHE-RSA-AES256-GCM-SHA384.";
    assert_eq!(warnings, [format!("'ssl-default-bind-ciphers' : {names}")]);
}

#[test]
fn lines_become_certificates_with_options() {
    let text = "listen l\n  mode tcp\n  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\n  bind :443 ssl crt reversed.pem \
                crt-list list crt folder alpn h2,http/1.1 force-tlsv13 strict-sni\n  server s 192.0.2.1:443 ssl verify required ca-file \
                bare.pem verifyhost www.example.com check-sni x.example check port 80\n";
    let parsed = read_with(text, files(), &[]);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    let config = parsed.config.unwrap();
    let bind = config.proxies[0].binds[0].tls.clone().unwrap();
    assert!(bind.strict_sni);
    let entries: Vec<_> = bind
        .entries
        .iter()
        .map(|entry| (entry.identity.names()[0].as_str(), entry.filters.join(" "), entry.options.clients.verify))
        .collect();
    assert_eq!(
        entries,
        [
            ("www.example.com", String::new(), Verify::None),
            ("www.example.com", "*.example.com !secret.example.com".to_owned(), Verify::Optional),
            ("www.example.com", String::new(), Verify::None),
            ("a.example", String::new(), Verify::None),
            ("www.example.com", String::new(), Verify::None),
        ]
    );
    for entry in &bind.entries {
        assert_eq!(entry.options.protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert_eq!(entry.options.versions, Versions { tls12: false, tls13: true });
    }
    let server = config.proxies[0].servers[0].tls.clone().unwrap();
    // Checks go elsewhere, so they are in the clear.
    assert_eq!((server.of_requests, server.of_checks, server.check_sni.as_deref()), (true, false, Some("x.example")));
}

/// What is said of a configuration with this acme section and this line of a crt-store.
fn said_of_acme(section: &str, load: &str) -> String {
    let text = format!(
        "{section}\ncrt-store\n {load}\nfrontend f\n mode http\n timeout client 1s\n bind :443 ssl crt new.pem\n bind :80\n"
    );
    let files = with_examples(Bundle::default().with("t.cfg", text.as_bytes()));
    let parsed = crate::parse(&["t.cfg".to_owned()], &files, Default::default(), &crate::Options::default());
    parsed.diagnostics.iter().map(|said| said.message.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn certificates_that_come_by_themselves_need_no_file() {
    let good = "acme LE\n directory https://ca.example/dir";
    for (section, load, expected) in [
        (
            good,
            "load crt new.pem acme LE domains a.example,*.b.example",
            "no authority gives a wildcard as '*.b.example' for a proof by http-01",
        ),
        (good, "load crt new.pem acme LE domains A.example,www.a.example ips 192.0.2.1", ""),
        (
            good,
            "load crt new.pem acme LX domains a.example",
            "couldn't find the acme section 'LX' referenced by 'new.pem'",
        ),
        (good, "load crt new.pem acme LE", "needs to know what the certificate is for"),
        (good, "load crt new.pem domains a.example", "need 'acme' and the name of an acme section"),
        (good, "load crt new.pem acme LE domains a_b", "'a_b' is no host name"),
        (good, "load crt new.pem acme LE domains 192.0.2.1", "'192.0.2.1' is no host name"),
        (good, "load crt new.pem", "unable to load certificate from file 'new.pem'"),
        (good, "load crt new.pem acmex LE", "'load' : unknown keyword 'acmex'"),
        ("acme LE", "load crt new.pem acme LE domains a.example", "acme section 'LE' has no 'directory'"),
        ("acme LE\n directory ca.example", "load crt new.pem acme LE domains a.example", "is no URL of an authority"),
        (
            "acme LE\n directory http://c/\n challenge dns-01",
            "load crt new.pem acme LE domains a.example",
            "needs a program",
        ),
        (
            "acme LE\n directory http://c/\n keytype RSA\n curves P-256",
            "load crt new.pem acme LE domains a.example",
            "'curves' has no effect on keys of RSA",
        ),
        (
            "acme LE\n directory http://c/\n bits 1024",
            "load crt new.pem acme LE domains a.example",
            "'1024' is not supported",
        ),
        (
            "acme LE\n directory http://c/\n eab-key-id /etc/haproxy/eab.id",
            "load crt new.pem acme LE domains a.example",
            "go together",
        ),
        (
            "acme LE\n directory http://c/\nacme LE",
            "load crt new.pem acme LE domains a.example",
            "acme section 'LE' already exists",
        ),
    ] {
        let said = said_of_acme(section, load);
        assert!(said.contains(expected) && (!expected.is_empty() || said.is_empty()), "{section}\n{load}\n{said}");
    }
}
