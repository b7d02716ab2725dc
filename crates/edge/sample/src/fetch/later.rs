//! Fetches of HAProxy 2.6 that do not work yet.

use crate::arguments::ArgumentType;
use crate::keyword::Fetch;
use crate::place::{Source, Sources};
use crate::value::Type;

const CLIENT: Sources = Sources::of(&[Source::ClientSession]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerSession]);
const HEADERS: Sources = Sources::of(&[Source::RequestHeaders]);
const MESSAGES: Sources = Sources::of(&[Source::RequestHeaders, Source::ResponseHeaders]);

const TLS: &str = "secrets and hellos of TLS";
const FASTCGI: &str = "FastCGI applications";
const HTX: &str = "HAProxy's own message format, which this program does not have";

const INTEGER: &[ArgumentType] = &[ArgumentType::Sint];
const STRING: &[ArgumentType] = &[ArgumentType::Str];

const fn client(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, CLIENT, TLS, doc)
}

const fn upstream(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, UPSTREAM, TLS, doc)
}

pub(super) const FETCHES: &[Fetch] = &[
    upstream("ssl_bc_client_random", Type::Bin, "Our random bytes toward the server."),
    upstream("ssl_bc_err", Type::Sint, "The error of the server's TLS connection."),
    upstream("ssl_bc_err_str", Type::Str, "The error of the server's TLS connection in words."),
    upstream("ssl_bc_npn", Type::Str, "The protocol agreed on with the server by NPN."),
    upstream("ssl_bc_server_random", Type::Bin, "The random bytes of the server."),
    upstream("ssl_bc_session_id", Type::Bin, "The id of the session with the server."),
    upstream("ssl_bc_session_key", Type::Bin, "The key of the session with the server."),
    upstream("ssl_bc_unique_id", Type::Bin, "The unique id of the server's connection."),
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
