//! Fetches of HAProxy 2.6 that do not work yet.

use crate::arguments::ArgumentType;
use crate::keyword::Fetch;
use crate::place::{Source, Sources};
use crate::value::Type;

const CLIENT: Sources = Sources::of(&[Source::ClientSession]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerSession]);
const HEADERS: Sources = Sources::of(&[Source::RequestHeaders]);
const MESSAGES: Sources = Sources::of(&[Source::RequestHeaders, Source::ResponseHeaders]);

const TLS: &str = "identifiers and keys of TLS sessions, which the library of TLS does not give away";
const FASTCGI: &str = "FastCGI applications";
const HTX: &str = "HAProxy's own message format, which this program does not have";

const STRING: &[ArgumentType] = &[ArgumentType::Str];

const fn client(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, CLIENT, TLS, doc)
}

const fn upstream(name: &'static str, output: Type, doc: &'static str) -> Fetch {
    Fetch::not_yet(name, output, UPSTREAM, TLS, doc)
}

pub(super) const FETCHES: &[Fetch] = &[
    upstream("ssl_bc_session_id", Type::Bin, "The id of the session with the server."),
    upstream("ssl_bc_session_key", Type::Bin, "The key of the session with the server."),
    upstream("ssl_bc_unique_id", Type::Bin, "The unique id of the server's connection."),
    client("ssl_fc_early_exporter_secret", Type::Str, "The exporter's secret of early data."),
    client("ssl_fc_session_id", Type::Bin, "The id of the client's session."),
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
