//! Lines of `peers` sections.

use super::{Group, Keyword, LineParser};
use crate::keywords::peers;

const fn line(name: &'static str, arguments: &'static str, parser: LineParser) -> Keyword {
    Keyword::new(Group::Peers, name, arguments, "3.5").line(parser)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line("bind", "[<address>]:<port> [<param>...]", peers::bind)
        .doc("The address at which the local peer listens.", "bind :10000"),
    line("default-bind", "[<param>...]", peers::bind)
        .doc("Options of the local peer's listening socket, without the address.", "default-bind v4v6"),
    line("default-server", "[<param>...]", peers::default_server)
        .doc("Options of all connections to peers.", "default-server source 192.0.2.1"),
    line("disabled", "", peers::switch).doc("Turns the section off: nobody shares its tables.", "disabled"),
    line("enabled", "", peers::switch).doc("Turns the section on.", "enabled"),
    line(
        "log",
        "<address> [len <length>] [format <format>] [sample <ranges>:<sample_size>] <facility> [<level> [<minlevel>]]",
        peers::log,
    )
    .doc("A target for logs of the peers.", "log /dev/log local0")
    .negatable()
    .without_effect("nothing is logged of peers, nor is by HAProxy 2.6"),
    line("peer", "<name> <address>:<port> [<param>...]", peers::peer)
        .doc("A peer; the local one listens at its address.", "peer front1 192.0.2.1:1024"),
    line("server", "<name> [<address>:<port>] [<param>...]", peers::peer)
        .doc("A peer; the local one has no address here but a 'bind' line.", "server front1 192.0.2.1:1024"),
    line(
        "table",
        "<name> type { ip | ipv6 | integer | string [len <length>] | binary [len <length>] } size <size> \
         [expire <time>] [nopurge] [srvkey { name | addr }] [store <data>[,<data>...]]...",
        peers::table,
    )
    .doc("A stick table of the section, which rules call '<section>/<name>'.", "table clients type ip size 100k"),
];
