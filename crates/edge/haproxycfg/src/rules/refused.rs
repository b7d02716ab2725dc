//! Keywords of rules that HAProxy removed.

use crate::table::{Group, Keyword, Sections};

const CHAPTER: &str = "4.2";

/// A keyword that HAProxy 2.1 removed.
macro_rules! removed {
    ($name:literal, $instead:literal) => {
        removed!($name, $instead, $instead)
    };
    ($name:literal, $instead:literal, $example:literal) => {
        Keyword::new(Group::Proxy, $name, "<arguments>", CHAPTER)
            .sections(Sections::ALL)
            .doc(concat!("Gone since HAProxy 2.1: use '", $instead, "'."), $example)
            .removed(concat!(
                "The '",
                $name,
                "' directive is not supported anymore since HAProxy 2.1. Use '",
                $instead,
                "' instead."
            ))
    };
}

/// What is refused.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "block", "{ if | unless } <condition>", CHAPTER)
        .sections(Sections::ALL)
        .doc("Gone since HAProxy 2.1: use 'http-request deny'.", "http-request deny if { path /private }")
        .removed(
            "The 'block' directive is not supported anymore since HAProxy 2.1. Use 'http-request deny' which uses the \
             exact same syntax.",
        ),
    removed!(
        "cliexp",
        "http-request replace-path', 'http-request replace-uri' or 'http-request replace-header",
        "http-request replace-path /old/(.*) /new/\\1"
    ),
    removed!(
        "reqrep",
        "http-request replace-path', 'http-request replace-uri' or 'http-request replace-header",
        "http-request replace-path /old/(.*) /new/\\1"
    ),
    removed!("reqirep", "http-request replace-header"),
    removed!("reqdel", "http-request del-header"),
    removed!("reqidel", "http-request del-header"),
    removed!("reqdeny", "http-request deny"),
    removed!("reqideny", "http-request deny"),
    removed!("reqpass", "http-request allow"),
    removed!("reqipass", "http-request allow"),
    removed!("reqallow", "http-request allow"),
    removed!("reqiallow", "http-request allow"),
    removed!("reqtarpit", "http-request tarpit"),
    removed!("reqitarpit", "http-request tarpit"),
    removed!("reqadd", "http-request add-header"),
    removed!("srvexp", "http-response replace-header"),
    removed!("rsprep", "http-response replace-header"),
    removed!("rspirep", "http-response replace-header"),
    removed!("rspdel", "http-response del-header"),
    removed!("rspidel", "http-response del-header"),
    removed!("rspdeny", "http-response deny"),
    removed!("rspideny", "http-response deny"),
    removed!("rspadd", "http-response add-header"),
];
