//! Regular expressions of queries, in PCRE's manner as far as two engines go: one with linear time for all that it can do, and
//! one that goes back, with a bound, for what needs that (`(?=...)`, `\1`).

/// Steps back that a pattern may take in one text before the text counts as one that does not match.
const STEPS_BACK_MAX: usize = 100_000;

#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Linear(regex::bytes::Regex),
    GoingBack(Box<fancy_regex::Regex>),
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        // Bytes, as in Varnish: a header need not be UTF-8.
        let linear = regex::bytes::RegexBuilder::new(text).unicode(false).build();
        let error = match linear {
            Ok(pattern) => return Ok(Self::Linear(pattern)),
            Err(error) => error,
        };
        match fancy_regex::RegexBuilder::new(text).backtrack_limit(STEPS_BACK_MAX).build() {
            Ok(pattern) => Ok(Self::GoingBack(Box::new(pattern))),
            Err(_) => Err(reason(&error)),
        }
    }

    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Linear(pattern) => pattern.is_match(text),
            Self::GoingBack(pattern) => pattern.is_match(&*String::from_utf8_lossy(text)).unwrap_or(false),
        }
    }
}

/// The engine's reason without the drawing around it.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or(&text);
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
