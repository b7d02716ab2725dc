//! Patterns that need no engine to say whether they match: `[[:upper:]]`, `^/(admin|login)`. They are frequent in rules, and an engine
//! takes some hundred instructions before it looks at the first byte.

use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind, Look, literal::Extractor},
};

/// Most words of which one must be at the beginning.
const WORDS_MAX: usize = 16;
/// Longer words are left to the engine.
const WORD_LEN_MAX: usize = 64;

/// What matches, in a form that is looked for at once.
#[derive(Clone, Debug)]
pub(super) enum Simple {
    /// One of these bytes, anywhere.
    Byte(Box<[bool; 256]>),
    /// One of these words, at the beginning.
    Start(Box<[Box<[u8]>]>),
}

impl Simple {
    /// The simple form of a pattern in the dialect of the linear engine, if it has one.
    pub(super) fn of(translated: &str, ignore_case: bool) -> Option<Self> {
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).case_insensitive(ignore_case).build();
        let hir = parser.parse(translated).ok()?;
        match hir.kind() {
            HirKind::Class(Class::Bytes(class)) => {
                let mut bytes = Box::new([false; 256]);
                for range in class.ranges() {
                    bytes.get_mut(usize::from(range.start())..=usize::from(range.end()))?.fill(true);
                }
                Some(Self::Byte(bytes))
            }
            HirKind::Concat(parts) => match parts.split_first()? {
                (first, rest) if *first.kind() == HirKind::Look(Look::Start) => words(&Hir::concat(rest.to_vec())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether `subject` matches.
    #[inline]
    pub(super) fn is_match(&self, subject: &[u8]) -> bool {
        match self {
            Self::Byte(bytes) => subject.iter().any(|byte| bytes.get(usize::from(*byte)).is_some_and(|is_one| *is_one)),
            Self::Start(words) => words.iter().any(|word| subject.starts_with(word)),
        }
    }
}

/// The words that a part matches, if these are few and nothing else matters.
fn words(hir: &Hir) -> Option<Simple> {
    if !hir.properties().look_set().is_empty() {
        return None;
    }
    let found = Extractor::new().limit_total(WORDS_MAX).limit_literal_len(WORD_LEN_MAX).extract(hir);
    let words = found.literals().filter(|words| !words.is_empty() && found.is_exact())?;
    Some(Simple::Start(words.iter().map(|word| word.as_bytes().into()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Regex, dialect};

    #[test]
    fn simple_forms_match_what_the_engine_matches() {
        let subjects: [&[u8]; 14] = [
            b"",
            b"/",
            b"/admin",
            b"/adminx",
            b"/a/admin",
            b"/login",
            b"x/login",
            b"/Login",
            b"\n/login",
            b"www.Example.com",
            b"www.example.com",
            b"\xff",
            b"/account\n",
            b"/b",
        ];
        for (pattern, is_simple) in [
            ("[[:upper:]]", true),
            ("[^a-z]", true),
            (".", true),
            ("\\s", true),
            ("^/(admin|login|account)", true),
            ("^/(?:admin|login)", true),
            ("^/admin", true),
            ("^/[ab]", true),
            ("^/?a", true),
            ("\\A/admin", true),
            ("^/admin$", false),
            ("^/admin\\b", false),
            ("^/.*", false),
            ("^", false),
            ("/admin", false),
            ("(?m)^/login", false),
            ("^(?i)/login", false),
        ] {
            let translated = dialect::translate(pattern.as_bytes());
            let simple = Simple::of(&translated, false);
            assert_eq!(simple.is_some(), is_simple, "{pattern}");
            let engine = regex::bytes::RegexBuilder::new(&translated).unicode(false).build().unwrap();
            let ours = Regex::new(pattern.as_bytes(), false).unwrap();
            for subject in subjects {
                assert_eq!(ours.try_match(subject), Ok(engine.is_match(subject)), "{pattern} {subject:?}");
            }
        }
    }
}
