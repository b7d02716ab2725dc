//! What samples say of TLS, beside Debian's HAProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fmt::Write as _, process::Command};

use support::{Authority, Edge, SecureWire, Wanted, beside_haproxy, free_address};

/// Versions of a client that knows no other.
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Samples of a connection with a client and one with a server, without those that differ on every connection. The client's library shuffles its extensions.
const CONNECTIONS: &[&str] = &[
    "ssl_fc",
    "ssl_bc",
    "ssl_fc_sni",
    "ssl_fc_has_sni",
    "ssl_fc_alpn",
    "ssl_fc_protocol",
    "ssl_fc_cipher",
    "ssl_fc_use_keysize",
    "ssl_fc_alg_keysize",
    "ssl_fc_is_resumed",
    "ssl_fc_has_crt",
    "ssl_fc_has_early",
    "ssl_fc_err",
    "ssl_fc_npn",
    "ssl_bc_alpn",
    "ssl_bc_protocol",
    "ssl_bc_cipher",
    "ssl_bc_use_keysize",
    "ssl_bc_alg_keysize",
    "ssl_bc_is_resumed",
    "ssl_bc_npn",
    "ssl_bc_err",
    "ssl_c_used",
    "ssl_c_verify",
    "ssl_c_err",
    "ssl_c_ca_err",
    "ssl_c_ca_err_depth",
    "ssl_c_chain_der,hex",
    "ssl_s_chain_der,hex",
    "ssl_fc_protocol_hello_id",
    "ssl_fc_cipherlist_bin,hex",
    "ssl_fc_cipherlist_hex",
    "ssl_fc_cipherlist_hex(1)",
    "ssl_fc_cipherlist_str",
    "ssl_fc_cipherlist_xxh",
    "ssl_fc_extlist_bin,length",
    "ssl_fc_eclist_bin(1),hex",
    "ssl_fc_ecformats_bin,hex",
];

/// Samples of a certificate, behind `ssl_c`, `ssl_f` and `ssl_s`.
const CERTIFICATES: &[&str] = &[
    "_der,sha1,hex",
    "_serial,hex",
    "_sha1,hex",
    "_version",
    "_key_alg",
    "_sig_alg",
    "_notbefore",
    "_notafter",
    "_s_dn",
    "_i_dn",
    "_s_dn(CN)",
    "_s_dn(OU)",
    "_s_dn(OU,1)",
    "_s_dn(OU,2)",
    "_s_dn(OU,-1)",
    "_s_dn(OU,0)",
    "_s_dn(OU,3)",
    "_s_dn(emailAddress)",
    "_s_dn(DC,-1)",
    "_s_dn(,0,rfc2253)",
    "_i_dn(,0,rfc2253)",
    "_i_dn(O)",
];

/// A certificate as `openssl x509 -req` makes it, of version 1, by an authority that OpenSSL has made too.
fn openssl(authority: &Authority, commands: &[String]) -> bool {
    commands.iter().all(|command| {
        let run = Command::new("sh").args(["-c", command]).current_dir(&authority.folder.0).output();
        run.is_ok_and(|output| output.status.success())
    })
}

fn version_1(file: &str, subject: &str) -> String {
    format!(
        "openssl req -new -utf8 -newkey rsa:2048 -nodes -keyout {file}.key -out {file}.csr -subj '{subject}' && \
         openssl x509 -req -in {file}.csr -CA own.pem -CAkey own.key -set_serial 0x8001 -days 30 -out {file}.crt && \
         cat {file}.crt {file}.key > {file}.pem"
    )
}

#[test]
fn samples_say_what_haproxys_say() {
    let authority = Authority::new();
    let own =
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.pem -days 30 -subj '/C=DE/O=Own/CN=Own CA'";
    let names = "/DC=com/DC=example/O=Example, Inc./OU=Sales/OU=North/CN=Jörg +x /emailAddress=j@example.com";
    let made = openssl(
        &authority,
        &[
            own.to_owned(),
            version_1("old", names),
            version_1("back", "/CN=back"),
            "cat ca.pem own.pem > both.pem".to_owned(),
        ],
    );
    assert!(made, "openssl is installed by .ci/tools");
    authority.certify("site.pem", &Wanted::default());
    authority.certify("new.pem", &Wanted { names: &["ann"], serial: 0x1234, ..Wanted::default() });
    let folder = authority.folder.0.display().to_string();
    let back = free_address();
    let _back = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\nfrontend f\n bind {back} ssl crt {folder}/back.pem ca-file {folder}/own.pem \
         verify optional no-tls-tickets alpn http/1.1\n http-request return status 200\n"
    ));
    let mut samples: Vec<String> = CONNECTIONS.iter().map(|sample| (*sample).to_owned()).collect();
    for whose in ["ssl_c", "ssl_f", "ssl_s"] {
        samples.extend(CERTIFICATES.iter().map(|sample| format!("{whose}{sample}")));
    }
    let told = beside_haproxy(
        |front| {
            let mut section = format!(
                "global\n tune.ssl.capture-buffer-size 96\nlisten site\n mode http\n http-reuse never\n bind {front} ssl crt {folder}/site.pem \
                 ca-file {folder}/both.pem verify optional alpn http/1.1\n server s {back} ssl verify required ca-file {folder}/own.pem \
                 crt {folder}/old.pem sni str(back) alpn http/1.1 no-ssl-reuse\n"
            );
            for (number, sample) in samples.iter().enumerate() {
                writeln!(section, " http-response set-header x-{number} \"[%[{sample}]]\"").unwrap();
            }
            section
        },
        |scene| {
            let mut lines = Vec::new();
            for file in [None, Some("old.pem"), Some("new.pem")] {
                for versions in [TLS12, TLS13] {
                    let mut settings = authority.client();
                    (settings.versions, settings.protocols) = (versions, vec![b"h2".to_vec(), b"http/1.1".to_vec()]);
                    settings.certificate = file.map(|file| authority.path(file));
                    let mut wire = SecureWire::connect(&settings.config(), scene.front, "localhost").unwrap();
                    wire.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                    let (head, _) = wire.answer().unwrap();
                    for (number, sample) in samples.iter().enumerate() {
                        let start = format!("\r\nx-{number}: ");
                        let value = head.split(&start).nth(1).and_then(|rest| rest.split("\r\n").next());
                        lines.push(format!("{file:?} {sample} {}", value.unwrap_or("none")));
                    }
                }
            }
            lines
        },
    );
    assert!(
        told.iter()
            .any(|line| line.ends_with("ssl_c_s_dn(ou,2) [north]") || line.ends_with("ssl_c_s_dn(OU,2) [north]"))
    );
}

/// What is said on the stats socket, line by line; a file of the folder goes along behind `<`.
fn say(edge: &Edge, folder: &str, command: &str) -> Vec<String> {
    let (command, payload) = command.split_once(" < ").map_or((command, None), |(command, file)| (command, Some(file)));
    let payload = payload.map(|file| format!(" <<\n{}", std::fs::read_to_string(format!("{folder}/{file}")).unwrap()));
    let answer = edge.command(&format!("{command}{}", payload.unwrap_or_default()));
    answer.trim_end().lines().map(|line| line.replace(folder, "")).collect()
}

#[test]
fn certificates_are_replaced_at_the_stats_socket_as_in_haproxy() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted { serial: 1, ..Wanted::default() });
    // Of two certificates for one name HAProxy serves the other one once the first is replaced.
    authority.certify("other.pem", &Wanted { serial: 2, names: &["other.example"], ..Wanted::default() });
    authority
        .certify("new.pem", &Wanted { serial: 0x1234, names: &["localhost", "*.example.com"], ..Wanted::default() });
    authority.certify_below("chain.pem", &Wanted { serial: 4, names: &["other.example"], ..Wanted::default() }, true);
    let folder = authority.folder.0.display().to_string();
    let parts = std::fs::read_to_string(authority.path("new.pem")).unwrap();
    let (certificate, key) = parts.split_at(parts.find("-----BEGIN PRIVATE").unwrap());
    authority.folder.file("new.crt", certificate);
    authority.folder.file("new.key", key);
    authority.folder.file("junk", "no certificate\n");
    let commands = [
        "show ssl cert",
        "show ssl cert F/site.pem",
        "show ssl cert F/nothing.pem",
        "set ssl cert F/site.pem",
        "set ssl cert F/nothing.pem < new.pem",
        "set ssl cert F/site.pem < junk",
        "commit ssl cert F/site.pem",
        "abort ssl cert F/site.pem",
        "set ssl cert F/site.pem < new.crt",
        "show ssl cert",
        "show ssl cert *F/site.pem",
        "show ssl cert *F/other.pem",
        "commit ssl cert F/site.pem",
        "commit ssl cert F/other.pem",
        "abort ssl cert F/other.pem",
        "set ssl cert F/site.pem.key < new.key",
        "commit ssl cert F/site.pem",
        "show ssl cert F/site.pem",
        "set ssl cert F/site.pem < other.pem",
        "abort ssl cert F/site.pem",
        "commit ssl cert F/site.pem",
        "set ssl cert F/other.pem < chain.pem",
        "commit ssl cert F/other.pem",
        "show ssl cert F/other.pem",
        "abort ssl cert",
        "commit ssl cert",
    ];
    let told = beside_haproxy(
        |front| {
            format!(
                "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind {front} ssl crt {folder}/site.pem crt \
                 {folder}/other.pem\n http-request return status 200 content-type text/plain lf-string %[ssl_f_serial,hex]\n"
            )
        },
        |scene| {
            let mut told = Vec::new();
            let config = authority.client().config();
            // A connection goes on with what it has.
            let mut former = SecureWire::connect(&config, scene.front, "localhost").unwrap();
            for command in commands {
                told.push(command.to_owned());
                told.extend(say(&scene.edge, &folder, &command.replace("F/", &format!("{folder}/"))));
                let served =
                    SecureWire::connect(&authority.client().config(), scene.front, "localhost").unwrap().get("/");
                told.push(format!("served {}", served.unwrap()));
            }
            told.push(former.get("/").unwrap());
            told
        },
    );
    assert!(told.contains(&"served 1234".to_owned()), "{told:?}");
    assert_eq!(told.last().unwrap(), "01");
}
