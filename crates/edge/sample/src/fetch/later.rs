//! Fetches of HAProxy 2.6 that do not work yet, and those on TLS connections that have an answer without TLS.

use crate::arguments::ArgumentType;
use crate::keyword::{Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const CLIENT: Sources = Sources::of(&[Source::ClientSession]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerSession]);
const HEADERS: Sources = Sources::of(&[Source::RequestHeaders]);
const MESSAGES: Sources = Sources::of(&[Source::RequestHeaders, Source::ResponseHeaders]);

const TLS: &str = "TLS";
const FASTCGI: &str = "FastCGI applications";
const HTX: &str = "HAProxy's own message format, which this program does not have";

const INTEGER: &[ArgumentType] = &[ArgumentType::Sint];
const STRING: &[ArgumentType] = &[ArgumentType::Str];
const NAME_PART: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint, ArgumentType::Str];

const fn client(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, CLIENT, TLS, doc)
}

const fn upstream(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, UPSTREAM, TLS, doc)
}

/// The fields of one certificate.
macro_rules! certificate {
    ($prefix:literal, $whose:literal) => {
        [
            client(concat!($prefix, "_der"), Type::Bin, concat!($whose, " in DER.")),
            client(concat!($prefix, "_i_dn"), Type::Str, concat!("The issuer of ", $whose, ".")).takes(NAME_PART, 0),
            client(concat!($prefix, "_key_alg"), Type::Str, concat!("The key's algorithm in ", $whose, ".")),
            client(concat!($prefix, "_notafter"), Type::Str, concat!("The end of validity of ", $whose, ".")),
            client(concat!($prefix, "_notbefore"), Type::Str, concat!("The start of validity of ", $whose, ".")),
            client(concat!($prefix, "_s_dn"), Type::Str, concat!("The subject of ", $whose, ".")).takes(NAME_PART, 0),
            client(concat!($prefix, "_serial"), Type::Bin, concat!("The serial number of ", $whose, ".")),
            client(concat!($prefix, "_sha1"), Type::Bin, concat!("The SHA-1 fingerprint of ", $whose, ".")),
            client(concat!($prefix, "_sig_alg"), Type::Str, concat!("The signature's algorithm in ", $whose, ".")),
            client(concat!($prefix, "_version"), Type::Sint, concat!("The version of ", $whose, ".")),
        ]
    };
}

static CLIENT_CERTIFICATE: [Fetch; 10] = certificate!("ssl_c", "the client's certificate");
static OUR_CERTIFICATE: [Fetch; 10] = certificate!("ssl_f", "the certificate shown to the client");
static SERVER_CERTIFICATE: [Fetch; 10] = certificate!("ssl_s", "the server's certificate");

const OTHERS: [Fetch; 71] = [
    // Without TLS these have an answer, and configurations ask for it.
    Fetch::new("ssl_fc", Type::Bool, CLIENT, |call, _| {
        call.context.client().map(|client| Value::Bool(client.encrypted)).into()
    })
    .doc("Whether the client's connection is encrypted.", "http-request redirect scheme https unless { ssl_fc }"),
    Fetch::new("ssl_bc", Type::Bool, UPSTREAM, |call, _| {
        call.context.upstream().map(|upstream| Value::Bool(upstream.encrypted)).into()
    })
    .doc("Whether the server's connection is encrypted.", "http-response set-header X-Secure yes if { ssl_bc }"),
    Fetch::new("ssl_fc_has_crt", Type::Bool, CLIENT, |_, _| Fetched::Missing)
        .doc("Whether the client showed a certificate; nothing without TLS.", "acl known ssl_fc_has_crt"),
    Fetch::new("ssl_fc_has_sni", Type::Bool, CLIENT, |_, _| Fetched::Value(Value::Bool(false)))
        .doc("Whether the client asked for a server name; false without TLS.", "acl named ssl_fc_has_sni"),
    Fetch::new("ssl_fc_is_resumed", Type::Bool, CLIENT, |_, _| Fetched::Value(Value::Bool(false)))
        .doc("Whether the client resumed a session; false without TLS.", "log-format %[ssl_fc_is_resumed]"),
    Fetch::new("ssl_fc_sni", Type::Str, CLIENT, |_, _| Fetched::Missing).doc(
        "The server name that the client asked for; nothing without TLS.",
        "use_backend b if { ssl_fc_sni b.example.com }",
    ),
    Fetch::new("ssl_fc_err", Type::Sint, CLIENT, |_, _| Fetched::Missing)
        .doc("The error of the client's TLS connection; nothing without TLS.", "error-log-format %[ssl_fc_err,hex]"),
    Fetch::new("ssl_fc_err_str", Type::Str, CLIENT, |_, _| Fetched::Missing).doc(
        "The error of the client's TLS connection in words; nothing without TLS.",
        "error-log-format %[ssl_fc_err_str]",
    ),
    Fetch::new("ssl_c_err", Type::Sint, CLIENT, |_, _| Fetched::Missing)
        .doc("The error in verifying the client's certificate; nothing without TLS.", "log-format %[ssl_c_err]"),
    Fetch::new("ssl_c_ca_err", Type::Sint, CLIENT, |_, _| Fetched::Missing).doc(
        "The error in verifying the issuers of the client's certificate; nothing without TLS.",
        "log-format %[ssl_c_ca_err]",
    ),
    Fetch::new("ssl_c_used", Type::Bool, CLIENT, |_, _| Fetched::Missing)
        .doc("Whether the client has a certificate; nothing without TLS.", "acl known ssl_c_used"),
    Fetch::new("ssl_c_verify", Type::Sint, CLIENT, |_, _| Fetched::Missing)
        .doc("The result of verifying the client's certificate; nothing without TLS.", "acl valid ssl_c_verify 0"),
    Fetch::new("ssl_fc_cipher", Type::Str, CLIENT, |_, _| Fetched::Missing)
        .doc("The cipher of the client's connection; nothing without TLS.", "log-format %[ssl_fc_cipher]"),
    Fetch::new("ssl_fc_protocol", Type::Str, CLIENT, |_, _| Fetched::Missing)
        .doc("The TLS version of the client's connection; nothing without TLS.", "log-format %[ssl_fc_protocol]"),
    Fetch::new("ssl_fc_alpn", Type::Str, CLIENT, |_, _| Fetched::Missing)
        .doc("The protocol agreed on with the client; nothing without TLS.", "acl h2 ssl_fc_alpn h2"),
    upstream("ssl_bc_alg_keysize", Type::Sint, "The key size of the server connection's cipher."),
    upstream("ssl_bc_alpn", Type::Str, "The protocol agreed on with the server."),
    upstream("ssl_bc_cipher", Type::Str, "The cipher of the server's connection."),
    upstream("ssl_bc_client_random", Type::Bin, "Our random bytes toward the server."),
    upstream("ssl_bc_err", Type::Sint, "The error of the server's TLS connection."),
    upstream("ssl_bc_err_str", Type::Str, "The error of the server's TLS connection in words."),
    upstream("ssl_bc_is_resumed", Type::Bool, "Whether the session with the server was resumed."),
    upstream("ssl_bc_npn", Type::Str, "The protocol agreed on with the server by NPN."),
    upstream("ssl_bc_protocol", Type::Str, "The TLS version of the server's connection."),
    upstream("ssl_bc_server_random", Type::Bin, "The random bytes of the server."),
    upstream("ssl_bc_session_id", Type::Bin, "The id of the session with the server."),
    upstream("ssl_bc_session_key", Type::Bin, "The key of the session with the server."),
    upstream("ssl_bc_unique_id", Type::Bin, "The unique id of the server's connection."),
    upstream("ssl_bc_use_keysize", Type::Sint, "The effective key size of the server connection's cipher."),
    client("ssl_c_ca_err_depth", Type::Sint, "Where in the chain verifying the client's certificate failed."),
    client("ssl_c_chain_der", Type::Bin, "The client's chain of certificates in DER."),
    client("ssl_s_chain_der", Type::Bin, "The server's chain of certificates in DER."),
    client("ssl_fc_alg_keysize", Type::Sint, "The key size of the client connection's cipher."),
    client("ssl_fc_cipherlist_bin", Type::Str, "The ciphers that the client offers, as bytes.").takes(INTEGER, 0),
    client("ssl_fc_cipherlist_hex", Type::Bin, "The ciphers that the client offers, in hexadecimal.").takes(INTEGER, 0),
    client("ssl_fc_cipherlist_str", Type::Str, "The names of the ciphers that the client offers.").takes(INTEGER, 0),
    client("ssl_fc_cipherlist_xxh", Type::Sint, "A hash of the ciphers that the client offers."),
    client("ssl_fc_client_early_traffic_secret", Type::Str, "A secret of the client's session."),
    client("ssl_fc_client_handshake_traffic_secret", Type::Str, "A secret of the client's session."),
    client("ssl_fc_client_random", Type::Bin, "The random bytes of the client."),
    client("ssl_fc_client_traffic_secret_0", Type::Str, "A secret of the client's session."),
    client("ssl_fc_early_exporter_secret", Type::Str, "A secret of the client's session."),
    client("ssl_fc_ecformats_bin", Type::Str, "The elliptic curve formats that the client offers, as bytes."),
    client("ssl_fc_eclist_bin", Type::Str, "The elliptic curves that the client offers, as bytes.").takes(INTEGER, 0),
    client("ssl_fc_exporter_secret", Type::Str, "A secret of the client's session."),
    client("ssl_fc_extlist_bin", Type::Str, "The extensions that the client offers, as bytes.").takes(INTEGER, 0),
    client("ssl_fc_has_early", Type::Bool, "Whether the request came as early data."),
    client("ssl_fc_npn", Type::Str, "The protocol agreed on with the client by NPN."),
    client("ssl_fc_protocol_hello_id", Type::Sint, "The version in the client's hello."),
    client("ssl_fc_server_handshake_traffic_secret", Type::Str, "A secret of the client's session."),
    client("ssl_fc_server_random", Type::Bin, "Our random bytes toward the client."),
    client("ssl_fc_server_traffic_secret_0", Type::Str, "A secret of the client's session."),
    client("ssl_fc_session_id", Type::Bin, "The id of the client's session."),
    client("ssl_fc_session_key", Type::Bin, "The key of the client's session."),
    client("ssl_fc_unique_id", Type::Bin, "The unique id of the client's connection."),
    client("ssl_fc_use_keysize", Type::Sint, "The effective key size of the client connection's cipher."),
    Fetch::not_yet("fcgi.docroot", Type::Str, HEADERS, FASTCGI, "The document root of the FastCGI application."),
    Fetch::not_yet("fcgi.index", Type::Str, HEADERS, FASTCGI, "The index script of the FastCGI application."),
    Fetch::not_yet("internal.htx.data", Type::Sint, MESSAGES, HTX, "Bytes in the message buffer."),
    Fetch::not_yet("internal.htx.free", Type::Sint, MESSAGES, HTX, "Free bytes in the message buffer."),
    Fetch::not_yet("internal.htx.free_data", Type::Sint, MESSAGES, HTX, "Free bytes for data in the message buffer."),
    Fetch::not_yet("internal.htx.has_eom", Type::Bool, MESSAGES, HTX, "Whether the message buffer holds the end."),
    Fetch::not_yet("internal.htx.nbblks", Type::Sint, MESSAGES, HTX, "Blocks in the message buffer."),
    Fetch::not_yet("internal.htx.size", Type::Sint, MESSAGES, HTX, "Size of the message buffer."),
    Fetch::not_yet("internal.htx.used", Type::Sint, MESSAGES, HTX, "Used bytes in the message buffer."),
    Fetch::not_yet("internal.htx_blk.data", Type::Bin, MESSAGES, HTX, "Data of a block.").takes(STRING, 1),
    Fetch::not_yet("internal.htx_blk.hdrname", Type::Str, MESSAGES, HTX, "Header name in a block.").takes(STRING, 1),
    Fetch::not_yet("internal.htx_blk.hdrval", Type::Str, MESSAGES, HTX, "Header value in a block.").takes(STRING, 1),
    Fetch::not_yet("internal.htx_blk.size", Type::Sint, MESSAGES, HTX, "Size of a block.").takes(STRING, 1),
    Fetch::not_yet("internal.htx_blk.start_line", Type::Str, MESSAGES, HTX, "First line in a block.").takes(STRING, 1),
    Fetch::not_yet("internal.htx_blk.type", Type::Str, MESSAGES, HTX, "Type of a block.").takes(STRING, 1),
];

pub(super) const FETCHES: &[Fetch] = &OTHERS;

/// The certificates' fields, which are too many to write out.
pub(super) fn certificates() -> impl Iterator<Item = &'static Fetch> {
    CLIENT_CERTIFICATE.iter().chain(&OUR_CERTIFICATE).chain(&SERVER_CERTIFICATE)
}
