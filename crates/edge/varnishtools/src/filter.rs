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

/// What somebody wants to see. In this order: what `-I` matches is shown, what `-X` matches is hidden, and then the tag decides.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    shown: Vec<Rule>,
    hidden: Vec<Rule>,
    /// Tags of `-i` (true) and `-x` (false); the last one that names a tag decides.
    tags: Vec<(Vec<u16>, bool)>,
    /// The first option was one that shows: what none names is hidden.
    hides_others: bool,
    has_any: bool,
}

/// Records with one of these tags (any, if there are none) whose text the pattern matches.
#[derive(Debug)]
struct Rule {
    tags: Vec<u16>,
    pattern: Regex,
}

impl Rule {
    fn matches(&self, record: &Record) -> bool {
        (self.tags.is_empty() || self.tags.contains(&u16::from(record.tag))) && self.pattern.is_match(&record.text)
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
        if option.is_ascii_lowercase() {
            self.tags.push((tags(value)?, shows));
            return Ok(());
        }
        let (list, pattern) = value.split_once(':').unwrap_or(("", value));
        let tags = if list.is_empty() { Vec::new() } else { tags(list)? };
        let pattern = Regex::new(pattern.as_bytes(), ignores_case)
            .map_err(|reason| format!("'{pattern}' is no regular expression: {reason}"))?;
        let rules = if shows { &mut self.shown } else { &mut self.hidden };
        rules.push(Rule { tags, pattern });
        Ok(())
    }

    /// Whether a record is to be shown.
    pub(crate) fn shows(&self, record: &Record) -> bool {
        if self.shown.iter().any(|rule| rule.matches(record)) {
            return true;
        }
        if self.hidden.iter().any(|rule| rule.matches(record)) {
            return false;
        }
        let tag = u16::from(record.tag);
        let last = self.tags.iter().rev().find(|(tags, _)| tags.contains(&tag));
        last.map_or(!self.hides_others, |(_, shows)| *shows)
    }
}

#[cfg(test)]
mod tests {
    use telemetry::vsl::VslTag;

    use super::*;

    #[test]
    fn rules_are_varnishs() {
        let record = |tag: VslTag, text: &str| Record {
            tag: tag.number(),
            vxid: 1,
            is_client: true,
            is_backend: false,
            text: text.as_bytes().to_vec(),
        };
        let url = record(VslTag::ReqURL, "/a");
        let host = record(VslTag::ReqHeader, "Host: b");
        type Case<'a> = (&'a [(char, &'a str)], bool, bool);
        let cases: &[Case<'_>] = &[
            (&[], true, true),
            (&[('i', "ReqURL")], true, false),
            (&[('i', "RxURL,rxheader")], true, true),
            (&[('x', "ReqURL")], false, true),
            (&[('i', "Req*"), ('x', "ReqURL")], false, true),
            (&[('x', "Req*"), ('i', "ReqURL")], true, false),
            (&[('I', "ReqHeader:^Host")], false, true),
            (&[('X', "^/"), ('i', "ReqURL")], false, true),
            (&[('I', "^/"), ('X', "^/")], true, false),
        ];
        for (options, shows_url, shows_host) in cases {
            let mut filter = Filter::default();
            options.iter().for_each(|(option, value)| filter.add(*option, value, false).unwrap());
            assert_eq!((filter.shows(&url), filter.shows(&host)), (*shows_url, *shows_host), "{options:?}");
        }
        let error = Filter::default().add('i', "Nope", false).unwrap_err();
        assert!(error.starts_with("there is no tag 'Nope'"), "{error}");
        assert!(Filter::default().add('I', "(", false).is_err());
    }
}
