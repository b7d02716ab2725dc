//! Lines of `resolvers` sections.

use super::{Group, Keyword};
use crate::keywords::resolvers;

const fn line(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Resolvers, name, arguments, "5.3.2")
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line("accepted_payload_size", "<bytes>")
        .doc("Largest answer that name servers may send: 512 unless set, up to 65535.", "accepted_payload_size 8192")
        .line(resolvers::number),
    line("hold", "{ nx | obsolete | other | refused | timeout | valid } <time>")
        .doc(
            "How long the last good answer counts after one of that kind ('valid': for do-resolve; 'obsolete': for \
             records that answers no longer have).",
            "hold nx 30s",
        )
        .line(resolvers::hold),
    line("nameserver", "<name> [tcp@]<address>:<port>")
        .doc("A name server. The edge asks all name servers of a section at once.", "nameserver ns1 192.0.2.53:53")
        .line(resolvers::nameserver),
    line("parse-resolv-conf", "")
        .doc("Takes the name servers of /etc/resolv.conf.", "parse-resolv-conf")
        .line(resolvers::parse_resolv_conf),
    line("resolution_pool_size", "<number>")
        .doc("Was in no stable release of HAProxy.", "resolution_pool_size 10")
        .removed("'resolution_pool_size' directive is not supported anymore (it never appeared in a stable release)."),
    line("resolve_retries", "<number>")
        .doc("How many times the edge sends a question before the resolution fails.", "resolve_retries 3")
        .line(resolvers::number),
    line("timeout", "{ resolve | retry } <time>")
        .doc(
            "The time between two resolutions of a name ('resolve'), and how long an answer may take ('retry').",
            "timeout retry 1s",
        )
        .line(resolvers::timeout),
];
