//! Which records are shown: `-i`, `-I`, `-x`, `-X`.

use pcre::Regex;
use telemetry::{query::Vocabulary, vsl::VOCABULARY};
use vsm::reader::Record;

/// Tags of the log before Varnish 4, which older articles name, and what they are called now.
const FORMER_TAGS: &[(&str, &str)] = &[
    ("RxHeader", "ReqHeader"),
    ("RxURL", "ReqURL"),
    ("RxRequest", "ReqMethod"),
    ("RxProtocol", "ReqProtocol"),
    ("RxStatus", "BerespStatus"),
    ("RxResponse", "BerespReason"),
    ("TxHeader", "RespHeader"),
    ("TxStatus", "RespStatus"),
    ("TxResponse", "RespReason"),
    ("TxProtocol", "RespProtocol"),
    ("TxURL", "BereqURL"),
    ("TxRequest", "BereqMethod"),
    ("SessionOpen", "SessOpen"),
    ("SessionClose", "SessClose"),
    ("ReqEnd", "Timestamp"),
    ("XID", "Begin"),
];

/// What somebody wants to see.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    shown: Vec<Rule>,
    hidden: Vec<Rule>,
    /// The first option was one that shows: what none names is hidden.
    hides_others: bool,
    has_any: bool,
}

/// Records with one of these tags (any, if there are none) whose text the pattern matches.
#[derive(Debug)]
struct Rule {
    tags: Vec<u16>,
    pattern: Option<Regex>,
}

impl Rule {
    fn matches(&self, record: &Record) -> bool {
        (self.tags.is_empty() || self.tags.contains(&u16::from(record.tag)))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&record.text))
    }
}

/// The numbers of tags: `Req*,RespStatus`.
pub(crate) fn tags(list: &str) -> Result<Vec<u16>, String> {
    let vocabulary: Vocabulary = VOCABULARY;
    let mut numbers = Vec::new();
    for word in list.split(',') {
        let word = word.trim();
        let former = FORMER_TAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let found = vocabulary.named(former.map_or(word, |(_, now)| now))?;
        numbers.extend(found.into_iter().map(|tag| tag.number));
    }
    Ok(numbers)
}

impl Filter {
    /// Adds what an option says.
    pub(crate) fn add(&mut self, option: char, value: &str, ignores_case: bool) -> Result<(), String> {
        let shows = option.eq_ignore_ascii_case(&'i');
        if !self.has_any {
            self.hides_others = shows;
            self.has_any = true;
        }
        let rule = if option.is_ascii_lowercase() {
            Rule { tags: tags(value)?, pattern: None }
        } else {
            let (list, pattern) = value.split_once(':').unwrap_or(("", value));
            let tags = if list.is_empty() { Vec::new() } else { tags(list)? };
            let pattern = Regex::new(pattern.as_bytes(), ignores_case)
                .map_err(|reason| format!("'{pattern}' is no regular expression: {reason}"))?;
            Rule { tags, pattern: Some(pattern) }
        };
        if shows {
            self.shown.push(rule)
        } else {
            self.hidden.push(rule)
        }
        Ok(())
    }

    /// Whether a record is to be shown. What shows it wins over what hides it.
    pub(crate) fn shows(&self, record: &Record) -> bool {
        self.shown.iter().any(|rule| rule.matches(record))
            || !self.hides_others && !self.hidden.iter().any(|rule| rule.matches(record))
    }
}
