//! `http-request use-service plugin.whoami [text]`: answers with the request as it has arrived, behind rules and proxies.
//!
//! It is also the example of a plugin: one file, and one line in the binary (`crates/tidegate/src/plugins.rs`).

use std::fmt::Write as _;

use plugin::{Answer, Answerer, ArgumentError, Request};

/// Bytes of a body that are counted; one with more is refused.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Says what it was asked.
#[derive(Debug)]
pub struct Whoami;

impl Answerer for Whoami {
    fn about(&self) -> &'static str {
        "answers with the request as it has arrived"
    }

    fn check(&self, arguments: &[String]) -> Result<(), ArgumentError> {
        match arguments {
            [] | [_] => Ok(()),
            [_, second, ..] => Err(ArgumentError::new(format!("it takes one text, '{second}' is one too many"))),
        }
    }

    fn answer(&self, request: &mut Request<'_>) -> Answer {
        let Ok(body) = request.read_body(BODY_BYTES_MAX) else {
            return Answer::new(413).text(format!("at most {BODY_BYTES_MAX} bytes\n"));
        };
        let mut text = String::new();
        if let [greeting, ..] = request.arguments() {
            let _ = writeln!(text, "{greeting}");
        }
        let _ = write!(text, "{} {}", shown(request.method()), shown(request.path()));
        if let Some(query) = request.query() {
            let _ = write!(text, "?{}", shown(query));
        }
        text.push('\n');
        for (name, value) in request.headers() {
            let _ = writeln!(text, "{}: {}", shown(name), shown(value));
        }
        let _ = writeln!(text, "\n{} bytes of a body", body.len());
        Answer::new(200).header("cache-control", "no-store").text(text)
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
