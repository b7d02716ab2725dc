//! What opens a section, and directives.

use super::{Group, Keyword};
use crate::keywords::{acme, cache, fcgi_app, peers, program, resolvers, sections, tls::store};

const fn section(name: &'static str, arguments: &'static str, chapter: &'static str) -> Keyword {
    Keyword::new(Group::Section, name, arguments, chapter)
}

const fn directive(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Directive, name, arguments, "2.4")
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    section("acme", "<name>", "3.2:12.8")
        .doc("An authority that gives certificates by itself (ACME).", "acme LE")
        .line(acme::section),
    section("backend", "<name> [from <defaults>]", "4")
        .doc("Servers, and how requests are shared among them.", "backend app")
        .line(sections::proxy),
    section("cache", "<name>", "6").doc("A small cache of responses.", "cache static").line(cache::section),
    section("crt-store", "[<name>]", "3.0:12.7")
        .doc("Certificates that other sections name.", "crt-store web")
        .line(store::section),
    section("defaults", "[<name>] [from <defaults>]", "4")
        .doc("Defaults for the sections after it.", "defaults http-services")
        .line(sections::defaults),
    section("fcgi-app", "<name>", "10")
        .doc("An application that speaks FastCGI.", "fcgi-app php")
        .line(fcgi_app::section),
    section("frontend", "<name> [from <defaults>]", "4")
        .doc("The addresses for clients, and the rules for their requests.", "frontend www")
        .line(sections::proxy),
    section("global", "", "3").doc("Settings of the whole process.", "global").line(sections::global),
    section("http-errors", "<name>", "3.8")
        .doc("Error pages that proxies refer to.", "http-errors site")
        .line(sections::http_errors),
    section("listen", "<name> [from <defaults>]", "4")
        .doc("A frontend and its backend in one.", "listen db")
        .line(sections::proxy),
    section("mailers", "<name>", "3.6").doc("Mail servers for alerts.", "mailers ops").line(sections::mailers),
    section("peers", "<name>", "3.5").doc("Instances that share stick tables.", "peers cluster").line(peers::section),
    section("program", "<name>", "3.7")
        .doc("A program that the master process runs, and that ends with it.", "program exporter")
        .line(program::section),
    section("resolvers", "<name>", "5.3.2")
        .doc("Name servers that resolve the names of servers.", "resolvers local")
        .line(resolvers::section),
    section("spoe-agent", "<name>", "9.3")
        .doc("An agent of the SPOE protocol, in its own file.", "spoe-agent ip-reputation")
        .not_yet("comes with SPOE"),
    section("userlist", "<name>", "3.4")
        .doc("Users, groups and their passwords.", "userlist staff")
        .line(sections::userlist),
    directive(".alert", "\"<message>\"")
        .doc("Refuses the configuration with a message.", ".alert \"TLS is needed here\""),
    directive(".diag", "\"<message>\"").doc("Shows a message with -dD.", ".diag \"to be replaced\""),
    directive(".elif", "<condition>").doc("Begins another branch of '.if'.", ".elif defined(STAGING)"),
    directive(".else", "").doc("Begins the last branch of '.if'.", ".else"),
    directive(".endif", "").doc("Ends '.if'.", ".endif"),
    directive(".if", "<condition>").doc(
        "The lines up to the next branch count only if the condition holds.",
        ".if feature(THREAD) && !defined(SINGLE)",
    ),
    directive(".notice", "\"<message>\"").doc("Shows a message.", ".notice \"production\""),
    directive(".warning", "\"<message>\"").doc("Shows a warning.", ".warning \"port 8080 is for tests\""),
];
