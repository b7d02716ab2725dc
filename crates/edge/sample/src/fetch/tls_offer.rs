//! What a client has offered in its ClientHello, and what its connection is encrypted with: for fingerprints of clients, and for those
//! who read captured connections.

use basics::hex;
use tls::{Handshaken, Offered};

use crate::{
    arguments::ArgumentType,
    bytes::Bytes,
    keyword::{Call, Fetch, FetchRun, Fetched},
    place::{Source, Sources},
    value::{Type, Value},
};

const CLIENT: Sources = Sources::of(&[Source::ClientSession]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerSession]);

/// 1 leaves values of GREASE out.
const FILTER: &[ArgumentType] = &[ArgumentType::Sint];

/// Something of what the client offered, if that is kept (`tune.ssl.capture-buffer-size`).
fn offer<'a>(call: &Call<'a>, what: impl FnOnce(&Offered) -> Value<'a>) -> Fetched<'a> {
    call.context.client_tls().and_then(|tls| tls.offered.as_deref().map(what)).into()
}

/// Numbers of two bytes, all or those that mean something.
fn numbers(call: &Call<'_>, numbers: &[u8]) -> Vec<u8> {
    match call.integer(0) {
        Some(filter) if filter > 0 => Offered::without_grease(numbers),
        _ => numbers.to_vec(),
    }
}

fn text<'a>(text: impl Into<Vec<u8>>) -> Value<'a> {
    Value::Str(Bytes::Owned(text.into()))
}

fn binary<'a>(bytes: impl Into<Vec<u8>>) -> Value<'a> {
    Value::Bin(Bytes::Owned(bytes.into()))
}

/// A secret under a label of key logs, if secrets are kept (`tune.ssl.keylog on`).
fn secret<'a>(call: &Call<'a>, label: &str) -> Fetched<'a> {
    let tls = call.context.client_tls();
    let secret = tls.as_ref().and_then(|tls| tls.secrets.as_ref()?.get(label));
    secret.map(|secret| text(hex::lower(secret))).into()
}

fn random<'a>(tls: Option<&Handshaken>, which: impl FnOnce(&tls::Randoms) -> Option<[u8; 32]>) -> Fetched<'a> {
    tls.and_then(|tls| which(&tls.randoms)).map(binary).into()
}

const fn client(name: &'static str, output: Type, run: FetchRun) -> Fetch {
    Fetch::new(name, output, CLIENT, run)
}

// NOTE: HAProxy says of those that end in `_bin` that they are texts; they are bytes there too.
pub(super) const FETCHES: &[Fetch] = &[
    client("ssl_fc_cipherlist_bin", Type::Str, |call, _| {
        offer(call, |offered| binary(numbers(call, &offered.suites)))
    })
    .takes(FILTER, 0)
    .doc(
        "The ciphers that the client offers, two bytes each; with 1 without GREASE (RFC 8701). Wants `tune.ssl.capture-buffer-size`.",
        "http-request set-header X-Ciphers %[ssl_fc_cipherlist_bin(1),be2dec(-,2)]",
    ),
    client("ssl_fc_cipherlist_hex", Type::Bin, |call, _| {
        offer(call, |offered| binary(hex::upper(&numbers(call, &offered.suites))))
    })
    .takes(FILTER, 0)
    .doc(
        "The same in hexadecimal.",
        "log-format %[ssl_fc_cipherlist_hex(1)]",
    ),
    client("ssl_fc_cipherlist_str", Type::Str, |call, _| {
        offer(call, |offered| text(Offered::suite_names(&numbers(call, &offered.suites))))
    })
    .takes(FILTER, 0)
    .doc("Their names by OpenSSL, with commas between them.", "log-format %[ssl_fc_cipherlist_str(1)]"),
    client("ssl_fc_cipherlist_xxh", Type::Sint, |call, _| {
        offer(call, |offered| Value::Sint(offered.suites_hash.cast_signed()))
    })
    .doc("A hash of all of them (xxh64), also of those that did not fit.", "log-format %[ssl_fc_cipherlist_xxh]"),
    client("ssl_fc_ecformats_bin", Type::Str, |call, _| offer(call, |offered| binary(offered.formats.clone()))).doc(
        "The formats of points that the client offers, a byte each. Wants `tune.ssl.capture-buffer-size`.",
        "http-request set-header X-Formats %[ssl_fc_ecformats_bin,be2dec(-,1)]",
    ),
    client("ssl_fc_eclist_bin", Type::Str, |call, _| offer(call, |offered| binary(numbers(call, &offered.groups))))
        .takes(FILTER, 0)
        .doc(
            "The curves that the client offers, two bytes each; with 1 without GREASE. Wants `tune.ssl.capture-buffer-size`.",
            "http-request set-header X-Curves %[ssl_fc_eclist_bin(1),be2dec(-,2)]",
        ),
    client("ssl_fc_extlist_bin", Type::Str, |call, _| {
        offer(call, |offered| binary(numbers(call, &offered.extensions)))
    })
    .takes(FILTER, 0)
    .doc(
        "The extensions that the client offers, two bytes each; with 1 without GREASE. Wants `tune.ssl.capture-buffer-size`.",
        "http-request set-header X-Extensions %[ssl_fc_extlist_bin(1),be2dec(-,2)]",
    ),
    client("ssl_fc_protocol_hello_id", Type::Sint, |call, _| {
        offer(call, |offered| Value::Sint(i64::from(offered.version)))
    })
    .doc(
        "The version in the client's hello, 771 for TLS 1.2 and 1.3. Wants `tune.ssl.capture-buffer-size`.",
        "log-format %[ssl_fc_protocol_hello_id]",
    ),
    client("ssl_fc_has_early", Type::Bool, |call, _| {
        call.context.client_tls().map(|_| Value::Bool(false)).into()
    })
    .doc("Whether the request came as early data, which is not accepted: false.", "log-format %[ssl_fc_has_early]"),
    client("ssl_fc_npn", Type::Str, |_, _| Fetched::Missing)
        .doc("The protocol agreed on with the client by NPN, which nobody speaks any more: nothing.", "log-format %[ssl_fc_npn]"),
    Fetch::new("ssl_bc_npn", Type::Str, UPSTREAM, |_, _| Fetched::Missing)
        .doc("The protocol agreed on with the server by NPN, which nobody speaks any more: nothing.", "log-format %[ssl_bc_npn]"),
    Fetch::new("ssl_bc_err", Type::Sint, UPSTREAM, |call, _| {
        call.context.upstream_tls().map(|_| Value::Sint(0)).into()
    })
    .doc("The error of the server's TLS connection: 0 on one that works.", "log-format %[ssl_bc_err,hex]"),
    Fetch::new("ssl_bc_err_str", Type::Str, UPSTREAM, |_, _| Fetched::Missing)
        .doc("The same in words: nothing on one that works.", "log-format %[ssl_bc_err_str]"),
    client("ssl_fc_client_random", Type::Bin, |call, _| {
        random(call.context.client_tls().as_deref(), |randoms| randoms.client)
    })
    .doc("The random bytes of the client.", "log-format \"CLIENT_RANDOM %[ssl_fc_client_random,hex]\""),
    client("ssl_fc_server_random", Type::Bin, |call, _| {
        random(call.context.client_tls().as_deref(), |randoms| randoms.server)
    })
    .doc("Our random bytes toward the client.", "log-format %[ssl_fc_server_random,hex]"),
    Fetch::new("ssl_bc_client_random", Type::Bin, UPSTREAM, |call, _| {
        random(call.context.upstream_tls().as_deref(), |randoms| randoms.client)
    })
    .doc("Our random bytes toward the server.", "log-format %[ssl_bc_client_random,hex]"),
    Fetch::new("ssl_bc_server_random", Type::Bin, UPSTREAM, |call, _| {
        random(call.context.upstream_tls().as_deref(), |randoms| randoms.server)
    })
    .doc("The random bytes of the server.", "log-format %[ssl_bc_server_random,hex]"),
    client("ssl_fc_session_key", Type::Bin, |call, _| {
        let tls = call.context.client_tls();
        let secret = tls.as_ref().and_then(|tls| tls.secrets.as_ref()?.get("CLIENT_RANDOM"));
        secret.map(binary).into()
    })
    .doc(
        "The master secret of the client's session of TLS 1.2. Wants `tune.ssl.keylog on`.",
        "log-format \"CLIENT_RANDOM %[ssl_fc_client_random,hex] %[ssl_fc_session_key,hex]\"",
    ),
    client("ssl_fc_client_early_traffic_secret", Type::Str, |call, _| secret(call, "CLIENT_EARLY_TRAFFIC_SECRET"))
        .doc("CLIENT_EARLY_TRAFFIC_SECRET of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_client_early_traffic_secret]"),
    client("ssl_fc_client_handshake_traffic_secret", Type::Str, |call, _| {
        secret(call, "CLIENT_HANDSHAKE_TRAFFIC_SECRET")
    })
    .doc("CLIENT_HANDSHAKE_TRAFFIC_SECRET of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_client_handshake_traffic_secret]"),
    client("ssl_fc_server_handshake_traffic_secret", Type::Str, |call, _| {
        secret(call, "SERVER_HANDSHAKE_TRAFFIC_SECRET")
    })
    .doc("SERVER_HANDSHAKE_TRAFFIC_SECRET of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_server_handshake_traffic_secret]"),
    client("ssl_fc_client_traffic_secret_0", Type::Str, |call, _| secret(call, "CLIENT_TRAFFIC_SECRET_0"))
        .doc("CLIENT_TRAFFIC_SECRET_0 of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_client_traffic_secret_0]"),
    client("ssl_fc_server_traffic_secret_0", Type::Str, |call, _| secret(call, "SERVER_TRAFFIC_SECRET_0"))
        .doc("SERVER_TRAFFIC_SECRET_0 of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_server_traffic_secret_0]"),
    client("ssl_fc_exporter_secret", Type::Str, |call, _| secret(call, "EXPORTER_SECRET"))
        .doc("EXPORTER_SECRET of a key log. Wants `tune.ssl.keylog on`.", "log-format %[ssl_fc_exporter_secret]"),
];
