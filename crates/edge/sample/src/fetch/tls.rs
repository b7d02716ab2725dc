//! What TLS connections have agreed on, and the certificates shown on them.

use std::sync::Arc;

use tls::{Certificate, Handshaken};

use crate::{
    arguments::ArgumentType,
    bytes::Bytes,
    keyword::{Call, Fetch, FetchRun, Fetched},
    place::{Source, Sources},
    value::{Type, Value},
};

const CLIENT: Sources = Sources::of(&[Source::ClientSession]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerSession]);

const NAME_PART: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint, ArgumentType::Str];

fn text<'a>(text: impl Into<Vec<u8>>) -> Value<'a> {
    Value::Str(Bytes::Owned(text.into()))
}

fn binary<'a>(bytes: impl Into<Vec<u8>>) -> Value<'a> {
    Value::Bin(Bytes::Owned(bytes.into()))
}

/// Something of the client's connection.
fn of_client<'a>(call: &Call<'a>, what: impl FnOnce(&Handshaken) -> Option<Value<'a>>) -> Fetched<'a> {
    call.context.client_tls().and_then(|tls| what(&tls)).into()
}

/// Something of the server's connection.
fn of_server<'a>(call: &Call<'a>, what: impl FnOnce(&Handshaken) -> Option<Value<'a>>) -> Fetched<'a> {
    call.context.upstream_tls().and_then(|tls| what(&tls)).into()
}

/// Whose certificate.
#[derive(Clone, Copy)]
enum Whose {
    Client,
    Own,
    Server,
}

/// Something of a certificate.
fn of_certificate<'a>(
    call: &Call<'a>,
    whose: Whose,
    what: impl FnOnce(&Certificate<'_>) -> Option<Value<'a>>,
) -> Fetched<'a> {
    let tls: Option<Arc<Handshaken>> = match whose {
        Whose::Client | Whose::Own => call.context.client_tls(),
        Whose::Server => call.context.upstream_tls(),
    };
    let Some(tls) = tls else { return Fetched::Missing };
    let der = match whose {
        Whose::Own => tls.identity.as_ref().map(|identity| identity.certificate()),
        Whose::Client | Whose::Server => tls.peer.chain.first().map(Vec::as_slice),
    };
    der.and_then(Certificate::read).and_then(|certificate| what(&certificate)).into()
}

/// A name in one line, or a part of it: `ssl_c_s_dn(CN)`, `ssl_c_s_dn(OU,-1)`, `ssl_c_s_dn(,0,rfc2253)`.
fn name<'a>(call: &Call<'a>, name: tls::DistinguishedName<'_>) -> Option<Value<'a>> {
    let wanted = call.text(0).filter(|wanted| !wanted.is_empty());
    let is_rfc2253 = call.text(2) == Some(b"rfc2253");
    match wanted {
        None if is_rfc2253 => Some(text(name.rfc2253())),
        None => Some(text(name.one_line())),
        Some(wanted) => {
            let occurrence = call.integer(1).unwrap_or(1);
            name.part(std::str::from_utf8(wanted).ok()?, occurrence).map(text)
        }
    }
}

/// A time of a certificate, without its century where that is ours.
fn time<'a>(time: &[u8]) -> Value<'a> {
    text(if time.len() == 15 { time.get(2..).unwrap_or(time) } else { time })
}

macro_rules! certificate {
    ($whose:expr, $sources:expr, $prefix:literal, $owner:literal) => {
        [
            part(concat!($prefix, "_der"), Type::Bin, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(binary(certificate.der())))
            })
            .doc(concat!($owner, " in DER."), concat!("http-request set-header X-Der %[", $prefix, "_der,base64]")),
            part(concat!($prefix, "_i_dn"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| name(call, certificate.issuer()))
            })
            .takes(NAME_PART, 0)
            .doc(
                concat!("The issuer of ", $owner, "."),
                concat!("http-request set-header X-Issuer %[", $prefix, "_i_dn]"),
            ),
            part(concat!($prefix, "_key_alg"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(text(certificate.key_algorithm())))
            })
            .doc(concat!("The key's algorithm in ", $owner, "."), concat!("log-format %[", $prefix, "_key_alg]")),
            part(concat!($prefix, "_notafter"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(time(certificate.not_after())))
            })
            .doc(concat!("The end of validity of ", $owner, "."), concat!("log-format %[", $prefix, "_notafter]")),
            part(concat!($prefix, "_notbefore"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(time(certificate.not_before())))
            })
            .doc(concat!("The start of validity of ", $owner, "."), concat!("log-format %[", $prefix, "_notbefore]")),
            part(concat!($prefix, "_s_dn"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| name(call, certificate.subject()))
            })
            .takes(NAME_PART, 0)
            .doc(
                concat!("The subject of ", $owner, "."),
                concat!("http-request set-header X-Name %[", $prefix, "_s_dn(CN)]"),
            ),
            part(concat!($prefix, "_serial"), Type::Bin, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(binary(certificate.serial())))
            })
            .doc(concat!("The serial number of ", $owner, "."), concat!("log-format %[", $prefix, "_serial,hex]")),
            part(concat!($prefix, "_sha1"), Type::Bin, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(binary(certificate.sha1())))
            })
            .doc(concat!("The SHA-1 fingerprint of ", $owner, "."), concat!("log-format %[", $prefix, "_sha1,hex]")),
            part(concat!($prefix, "_sig_alg"), Type::Str, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(text(certificate.signature_algorithm())))
            })
            .doc(concat!("The signature's algorithm in ", $owner, "."), concat!("log-format %[", $prefix, "_sig_alg]")),
            part(concat!($prefix, "_version"), Type::Sint, $sources, |call, _| {
                of_certificate(call, $whose, |certificate| Some(Value::Sint(i64::from(certificate.version()))))
            })
            .doc(concat!("The version of ", $owner, "."), concat!("log-format %[", $prefix, "_version]")),
        ]
    };
}

const fn part(name: &'static str, output: Type, sources: Sources, run: FetchRun) -> Fetch {
    Fetch::new(name, output, sources, run)
}

static OF_CLIENT: [Fetch; 10] = certificate!(Whose::Client, CLIENT, "ssl_c", "the client's certificate");
static OF_OURS: [Fetch; 10] = certificate!(Whose::Own, CLIENT, "ssl_f", "the certificate shown to the client");
// HAProxy has these where there is a client, though there is no server before one is chosen.
static OF_SERVER: [Fetch; 10] = certificate!(Whose::Server, CLIENT, "ssl_s", "the server's certificate");

/// The certificates' fields, which are too many to write out.
pub(super) fn certificates() -> impl Iterator<Item = &'static Fetch> {
    OF_CLIENT.iter().chain(&OF_OURS).chain(&OF_SERVER)
}

/// The certificates of issuers that a client showed, one behind the other: OpenSSL leaves the client's own out of its chain.
fn issuers<'a>(tls: &Handshaken) -> Option<Value<'a>> {
    tls.peer.chain.get(1..).filter(|issuers| !issuers.is_empty()).map(|issuers| binary(issuers.concat()))
}

/// A chain of certificates, one behind the other.
fn chain<'a>(tls: &Handshaken) -> Option<Value<'a>> {
    (!tls.peer.chain.is_empty()).then(|| binary(tls.peer.chain.concat()))
}

fn protocol<'a>(tls: &Handshaken) -> Option<Value<'a>> {
    tls.protocol.clone().map(text)
}

fn bits<'a>(tls: &Handshaken) -> Option<Value<'a>> {
    Some(Value::Sint(i64::from(tls.cipher_bits)))
}

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("ssl_fc", Type::Bool, CLIENT, |call, _| {
        call.context.client().map(|client| Value::Bool(client.encrypted)).into()
    })
    .doc("Whether the client's connection is encrypted.", "http-request redirect scheme https unless { ssl_fc }"),
    Fetch::new("ssl_bc", Type::Bool, UPSTREAM, |call, _| {
        call.context.upstream().map(|upstream| Value::Bool(upstream.encrypted)).into()
    })
    .doc("Whether the server's connection is encrypted.", "http-response set-header X-Secure yes if { ssl_bc }"),
    Fetch::new("ssl_fc_has_crt", Type::Bool, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Bool(!tls.peer.chain.is_empty() && !tls.is_resumed)))
    })
    .doc(
        "Whether the client showed a certificate on this connection; nothing without TLS.",
        "acl known ssl_fc_has_crt",
    ),
    Fetch::new("ssl_fc_has_sni", Type::Bool, CLIENT, |call, _| {
        let has = call.context.client_tls().is_some_and(|tls| tls.server_name.is_some());
        Fetched::Value(Value::Bool(has))
    })
    .doc("Whether the client asked for a server name; false without TLS.", "acl named ssl_fc_has_sni"),
    Fetch::new("ssl_fc_is_resumed", Type::Bool, CLIENT, |call, _| {
        Fetched::Value(Value::Bool(call.context.client_tls().is_some_and(|tls| tls.is_resumed)))
    })
    .doc("Whether the client resumed a session; false without TLS.", "log-format %[ssl_fc_is_resumed]"),
    Fetch::new("ssl_fc_sni", Type::Str, CLIENT, |call, _| of_client(call, |tls| tls.server_name.clone().map(text)))
        .doc(
            "The server name that the client asked for; nothing without TLS.",
            "use_backend b if { ssl_fc_sni b.example.com }",
        ),
    Fetch::new("ssl_fc_err", Type::Sint, CLIENT, |call, _| of_client(call, |_| Some(Value::Sint(0))))
        .doc("The error of the client's TLS connection; nothing without TLS.", "error-log-format %[ssl_fc_err,hex]"),
    Fetch::new("ssl_fc_err_str", Type::Str, CLIENT, |_, _| Fetched::Missing).doc(
        "The error of the client's TLS connection in words; nothing without TLS.",
        "error-log-format %[ssl_fc_err_str]",
    ),
    Fetch::new("ssl_c_err", Type::Sint, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Sint(i64::from(tls.peer.error))))
    })
    .doc(
        "The error in verifying the client's certificate that was let pass; nothing without TLS.",
        "log-format %[ssl_c_err]",
    ),
    Fetch::new("ssl_c_ca_err", Type::Sint, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Sint(i64::from(tls.peer.issuer_error.0))))
    })
    .doc(
        "The error in verifying the issuers of the client's certificate that was let pass; nothing without TLS.",
        "log-format %[ssl_c_ca_err]",
    ),
    Fetch::new("ssl_c_ca_err_depth", Type::Sint, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Sint(i64::from(tls.peer.issuer_error.1))))
    })
    .doc("How far away the issuer of that error is; nothing without TLS.", "log-format %[ssl_c_ca_err_depth]"),
    Fetch::new("ssl_c_used", Type::Bool, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Bool(!tls.peer.chain.is_empty())))
    })
    .doc(
        "Whether the client has a certificate, of this or a resumed session; nothing without TLS.",
        "acl known ssl_c_used",
    ),
    Fetch::new("ssl_c_verify", Type::Sint, CLIENT, |call, _| {
        of_client(call, |tls| Some(Value::Sint(i64::from(tls.peer.verified))))
    })
    .doc(
        "The result of verifying the client's certificate, 0 if it is good; nothing without TLS.",
        "acl valid ssl_c_verify 0",
    ),
    Fetch::new("ssl_c_chain_der", Type::Bin, CLIENT, |call, _| of_client(call, issuers)).doc(
        "The certificates of issuers that the client showed beside its own, in DER.",
        "http-request set-header X-Chain %[ssl_c_chain_der,base64]",
    ),
    Fetch::new("ssl_fc_cipher", Type::Str, CLIENT, |call, _| of_client(call, |tls| Some(text(tls.cipher))))
        .doc("The cipher of the client's connection; nothing without TLS.", "log-format %[ssl_fc_cipher]"),
    Fetch::new("ssl_fc_protocol", Type::Str, CLIENT, |call, _| of_client(call, |tls| Some(text(tls.version))))
        .doc("The TLS version of the client's connection; nothing without TLS.", "log-format %[ssl_fc_protocol]"),
    Fetch::new("ssl_fc_alpn", Type::Str, CLIENT, |call, _| of_client(call, protocol))
        .doc("The protocol agreed on with the client; nothing without TLS.", "acl h2 ssl_fc_alpn h2"),
    Fetch::new("ssl_fc_alg_keysize", Type::Sint, CLIENT, |call, _| of_client(call, bits))
        .doc("Bits of the key of the client connection's cipher.", "log-format %[ssl_fc_alg_keysize]"),
    Fetch::new("ssl_fc_use_keysize", Type::Sint, CLIENT, |call, _| of_client(call, bits))
        .doc("Bits of that key that are used.", "log-format %[ssl_fc_use_keysize]"),
    Fetch::new("ssl_bc_alg_keysize", Type::Sint, UPSTREAM, |call, _| of_server(call, bits))
        .doc("Bits of the key of the server connection's cipher.", "log-format %[ssl_bc_alg_keysize]"),
    Fetch::new("ssl_bc_use_keysize", Type::Sint, UPSTREAM, |call, _| of_server(call, bits))
        .doc("Bits of that key that are used.", "log-format %[ssl_bc_use_keysize]"),
    Fetch::new("ssl_bc_alpn", Type::Str, UPSTREAM, |call, _| of_server(call, protocol))
        .doc("The protocol agreed on with the server.", "log-format %[ssl_bc_alpn]"),
    Fetch::new("ssl_bc_cipher", Type::Str, UPSTREAM, |call, _| of_server(call, |tls| Some(text(tls.cipher))))
        .doc("The cipher of the server's connection.", "log-format %[ssl_bc_cipher]"),
    Fetch::new("ssl_bc_protocol", Type::Str, UPSTREAM, |call, _| of_server(call, |tls| Some(text(tls.version))))
        .doc("The TLS version of the server's connection.", "log-format %[ssl_bc_protocol]"),
    Fetch::new("ssl_bc_is_resumed", Type::Bool, UPSTREAM, |call, _| {
        Fetched::Value(Value::Bool(call.context.upstream_tls().is_some_and(|tls| tls.is_resumed)))
    })
    .doc("Whether the session with the server was resumed.", "log-format %[ssl_bc_is_resumed]"),
    Fetch::new("ssl_s_chain_der", Type::Bin, CLIENT, |call, _| of_server(call, chain))
        .doc("The server's certificate and those of its issuers in DER.", "log-format %[ssl_s_chain_der,base64]"),
];
