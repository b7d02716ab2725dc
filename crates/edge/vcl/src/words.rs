//! Words of the language that are neither variables nor functions of modules: declarations, statements, built-in functions, and the
//! fields of backends and probes. The compiler, `tidegate explain` and the reference use these tables.

use crate::{
    subroutine::{Subroutine, Subroutines},
    variables::Version,
};

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At the top of a text.
    Declaration,
    /// In a subroutine.
    Statement,
    /// In an expression.
    Function,
}

impl Kind {
    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Declaration => "declaration",
            Self::Statement => "statement",
            Self::Function => "function",
        }
    }
}

/// A word.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word itself.
    pub name: &'static str,
    /// Where it stands.
    pub kind: Kind,
    /// How it is written.
    pub usage: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// In which subroutines it may stand.
    pub places: Subroutines,
    /// The last version that has it.
    pub until: Version,
}

const LATEST: Version = Version(99);
/// Where a body is made.
const BODIES: Subroutines = Subroutine::Synth.alone().or(Subroutine::BackendError.alone());

const fn declaration(name: &'static str, usage: &'static str, doc: &'static str) -> Word {
    Word { name, kind: Kind::Declaration, usage, doc, places: Subroutines::NONE, until: LATEST }
}

const fn statement(name: &'static str, usage: &'static str, doc: &'static str) -> Word {
    Word { name, kind: Kind::Statement, usage, doc, places: Subroutines::ALL, until: LATEST }
}

const fn function(name: &'static str, usage: &'static str, doc: &'static str) -> Word {
    Word { name, kind: Kind::Function, usage, doc, places: Subroutines::ALL, until: LATEST }
}

impl Word {
    const fn within(mut self, places: Subroutines) -> Self {
        self.places = places;
        self
    }

    const fn of_vcl_3(mut self) -> Self {
        self.until = Version::V3;
        self
    }

    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<&'static Self> {
        WORDS.iter().find(|word| word.name == name)
    }
}

/// All words.
pub const WORDS: &[Word] = &[
    declaration("vcl", "vcl 4.1;", "The version of the language. A text without it is VCL 3."),
    declaration(
        "include",
        "include \"file.vcl\";",
        "Another file's text stands here; `include +glob \"*.vcl\";` takes several.",
    ),
    declaration(
        "import",
        "import std;",
        "A module's functions may be called from here on; `as` gives it another name.",
    ),
    declaration(
        "backend",
        "backend name { .host = \"192.0.2.1\"; .port = \"8080\"; }",
        "A server that responses come from; `backend name none;` is one that never answers.",
    ),
    declaration("probe", "probe name { .url = \"/health\"; .interval = 5s; }", "How the health of backends is tested."),
    declaration(
        "acl",
        "acl name { \"192.0.2.0\"/24; ! \"192.0.2.7\"; }",
        "A list of addresses for `client.ip ~ name`; flags are +log, +table, +pedantic, +fold.",
    ),
    declaration(
        "sub",
        "sub name { ... }",
        "A subroutine; several of one name that begins with `vcl_` are run one after the other.",
    ),
    declaration(
        "director",
        "director name round-robin { { .backend = b1; } }",
        "Several backends as one; since VCL 4.0 `import directors;` has them.",
    )
    .of_vcl_3(),
    statement(
        "if",
        "if (condition) { ... } elseif (condition) { ... } else { ... }",
        "Runs what stands behind the first condition that is true.",
    ),
    statement(
        "set",
        "set variable = expression;",
        "Gives a variable or a field a value; `+=`, `-=`, `*=` and `/=` too.",
    ),
    statement("unset", "unset req.http.Cookie;", "Removes a field, or a body."),
    statement("remove", "remove req.http.Cookie;", "Removes a field; since VCL 4.0 it is `unset`.").of_vcl_3(),
    statement("call", "call name;", "Runs another subroutine."),
    statement(
        "return",
        "return (action);",
        "Ends the subroutine and says what is done next; without an action, it ends one that was called.",
    ),
    statement("new", "new name = directors.round_robin();", "Makes an object of a module's class.")
        .within(Subroutine::Init.alone()),
    statement("hash_data", "hash_data(text);", "Adds a text to the key of the cache.").within(Subroutine::Hash.alone()),
    statement("synthetic", "synthetic(text);", "Adds a text to the body that is made here.").within(BODIES),
    statement(
        "ban",
        "ban(\"obj.http.x-tag == news\");",
        "Bans all objects of which the conditions are true; std.ban() says whether that worked.",
    ),
    statement(
        "error",
        "error 404 \"words\";",
        "Answers with a status; since VCL 4.0 it is `return (synth(404, \"words\"))`.",
    )
    .of_vcl_3(),
    statement("purge", "purge;", "Removes the object; since VCL 4.0 it is `return (purge)`.").of_vcl_3(),
    statement("esi", "esi;", "Carries out ESI elements; since VCL 3.0 it is `set beresp.do_esi = true;`.").of_vcl_3(),
    statement("ban_url", "ban_url(pattern);", "Bans all objects whose URL matches.").of_vcl_3(),
    statement("purge_url", "purge_url(pattern);", "Bans all objects whose URL matches.").of_vcl_3(),
    function(
        "regsub",
        "regsub(text, pattern, replacement)",
        "The text with the first match replaced; \\1 is what the first group matched.",
    ),
    function("regsuball", "regsuball(text, pattern, replacement)", "The text with all matches replaced."),
];

/// A field of a backend or a probe.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// `backend` or `probe`.
    pub of: &'static str,
    /// Its name, without the point before it.
    pub name: &'static str,
    /// What it takes, as it is written.
    pub example: &'static str,
    /// What it is if it is left out.
    pub default: &'static str,
    /// What it says.
    pub doc: &'static str,
}

const fn backend(name: &'static str, example: &'static str, default: &'static str, doc: &'static str) -> Field {
    Field { of: "backend", name, example, default, doc }
}

const fn probe(name: &'static str, example: &'static str, default: &'static str, doc: &'static str) -> Field {
    Field { of: "probe", name, example, default, doc }
}

/// All fields.
pub const FIELDS: &[Field] = &[
    backend(
        "host",
        "\"192.0.2.1\"",
        "none: .host or .path is needed",
        "The server's name or address, with or without `:port`.",
    ),
    backend("port", "\"8080\"", "\"80\"", "The server's port."),
    backend("path", "\"/run/app.sock\"", "none", "The server's unix socket, in place of .host."),
    backend("host_header", "\"example.com\"", ".host", "The Host field of requests that have none, and of probes."),
    backend("connect_timeout", "1s", "parameter connect_timeout", "How long opening a connection may take."),
    backend(
        "first_byte_timeout",
        "60s",
        "parameter first_byte_timeout",
        "How long the server may take until its response begins.",
    ),
    backend(
        "between_bytes_timeout",
        "60s",
        "parameter between_bytes_timeout",
        "How long a pause within a response may be.",
    ),
    backend("max_connections", "100", "no bound", "Connections at most; a request beyond them fails."),
    backend("proxy_header", "2", "none", "The version of the PROXY protocol with which connections begin: 1 or 2."),
    backend("preamble", ":aGVsbG8=:", "none", "Bytes with which connections begin."),
    backend("probe", "name", "none", "How the server's health is tested: a probe's name, or its fields in braces."),
    probe("url", "\"/health\"", "\"/\"", "What is asked for, by GET."),
    probe(
        "request",
        "\"HEAD / HTTP/1.1\" \"Host: example.com\"",
        "as .url says",
        "The request's lines, in place of .url.",
    ),
    probe("expected_response", "204", "200", "The status that is a success."),
    probe("timeout", "1s", "2s", "How long a test may take."),
    probe("interval", "1s", "5s", "How often the server is tested."),
    probe("window", "10", "8", "How many of the last tests count; it needs .threshold."),
    probe("threshold", "8", "3", "How many of them have to be successes for a healthy server."),
    probe("initial", "2", ".threshold less one", "How many successes are taken for granted at the start."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, compile};

    fn compiles(text: &str) -> bool {
        compile("test", text, &Options { unused_is_error: false, ..Options::default() }).is_ok()
    }

    #[test]
    fn the_compiler_knows_every_field() {
        for field in FIELDS {
            let written = format!(".{} = {};", field.name, field.example);
            let text = match (field.of, field.name) {
                ("backend", "host" | "path") => format!("backend b {{ {written} }}"),
                ("backend", _) => format!("backend b {{ .host = \"127.0.0.1\"; {written} }}"),
                // It is not taken without the other.
                ("probe", "window") => {
                    format!("probe p {{ {written} .threshold = 8; }} backend b {{ .host = \"127.0.0.1\"; }}")
                }
                _ => format!("probe p {{ {written} }} backend b {{ .host = \"127.0.0.1\"; }}"),
            };
            let text = format!("vcl 4.1; probe name {{ }} {text}");
            assert!(compiles(&text), "{text}");
        }
        assert!(!compiles("vcl 4.1; backend b { .host = \"127.0.0.1\"; .nothing = 1; }"));
    }

    #[test]
    fn the_compiler_knows_every_statement() {
        for word in WORDS.iter().filter(|word| word.kind == Kind::Statement && word.usage.ends_with("(text);")) {
            for subroutine in Subroutine::ALL.iter().filter(|place| **place != Subroutine::Fini) {
                let statement = word.usage.replace("text", "\"text\"");
                let text = format!("vcl 4.1; backend b none; sub {subroutine} {{ {statement} }}");
                assert_eq!(compiles(&text), word.places.contains(*subroutine), "{text}");
            }
        }
    }
}
