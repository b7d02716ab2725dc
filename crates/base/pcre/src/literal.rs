//! Words that must stand in whatever a pattern matches, so that most subjects can be told apart from it without the engine.
//!
//! All is in lower case: whether case counts is for the engine to say.

use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};

/// Most alternatives of which one must be there.
const ALTERNATIVES_MAX: usize = 16;
/// Longer words say no more.
const WORD_LEN_MAX: usize = 64;
/// Copies of a repeated part that are written out.
const COPIES_MAX: u32 = 8;
/// Parts that a pattern may have, repetitions counted, to be surely small when it is compiled.
const PARTS_MAX: u64 = 5_000;

/// What is known of a pattern without compiling it.
#[derive(Debug)]
pub struct Outline {
    /// One of these must be there, in lower case; none when nothing must.
    pub words: Vec<Vec<u8>>,
}

/// The outline of a pattern in the dialect of the linear engine; none when it is not valid there, or might be too large.
pub(super) fn outline(translated: &str, ignore_case: bool) -> Option<Outline> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).case_insensitive(ignore_case).build();
    let hir = parser.parse(translated).ok()?;
    (parts(&hir) <= PARTS_MAX).then(|| Outline { words: required(&hir).unwrap_or_default() })
}

/// How large it gets when repetitions are written out.
fn parts(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Bytes(class)) => 1 + class.ranges().len() as u64,
        HirKind::Class(Class::Unicode(class)) => 1 + 4 * class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let times = u64::from(repetition.max.unwrap_or(repetition.min).max(1));
            parts(&repetition.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => 2 + parts(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().fold(1, |sum: u64, sub| sum.saturating_add(parts(sub)))
        }
    }
}

/// The only text that a part matches, if there is but one; letters count once for both cases.
fn exact(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(Vec::new()),
        HirKind::Literal(literal) => Some(literal.0.to_ascii_lowercase()),
        HirKind::Class(class) => letter(class).map(|letter| vec![letter]),
        HirKind::Capture(capture) => exact(&capture.sub),
        HirKind::Concat(subs) => subs.iter().try_fold(Vec::new(), |mut text, sub| {
            text.extend(exact(sub)?);
            (text.len() <= WORD_LEN_MAX).then_some(text)
        }),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.filter(|most| *most == repetition.min && *most <= COPIES_MAX)?;
            let text = exact(&repetition.sub)?.repeat(usize::try_from(times).ok()?);
            (text.len() <= WORD_LEN_MAX).then_some(text)
        }
        HirKind::Alternation(_) => None,
    }
}

/// The letter of a class that has both of its cases and nothing else.
fn letter(class: &Class) -> Option<u8> {
    let Class::Bytes(class) = class else { return None };
    match class.ranges() {
        [upper, lower]
            if upper.len() == 1
                && lower.len() == 1
                && upper.start().is_ascii_uppercase()
                && upper.start().to_ascii_lowercase() == lower.start() =>
        {
            Some(lower.start())
        }
        _ => None,
    }
}

/// Words of which one must be there; the longer the shortest of them, the better.
fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => None,
        HirKind::Literal(_) | HirKind::Class(_) => word(exact(hir)?),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Repetition(_) => None,
        HirKind::Concat(subs) => {
            let mut best = None;
            let mut run = Vec::new();
            for sub in subs {
                match exact(sub) {
                    Some(text) if run.len() + text.len() <= WORD_LEN_MAX => run.extend(text),
                    Some(text) => {
                        best = better(best, word(std::mem::take(&mut run)));
                        run = text;
                    }
                    None => {
                        best = better(best, word(std::mem::take(&mut run)));
                        best = better(best, required(sub));
                    }
                }
            }
            better(best, word(run))
        }
        HirKind::Alternation(subs) => {
            let mut all = Vec::new();
            for sub in subs {
                all.extend(required(sub)?);
            }
            (all.len() <= ALTERNATIVES_MAX).then_some(all)
        }
    }
}

fn word(mut text: Vec<u8>) -> Option<Vec<Vec<u8>>> {
    text.truncate(WORD_LEN_MAX);
    (!text.is_empty()).then(|| vec![text])
}

fn better(one: Option<Vec<Vec<u8>>>, other: Option<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    let shortest = |words: &Option<Vec<Vec<u8>>>| {
        words.as_ref().and_then(|words| words.iter().map(Vec::len).min()).unwrap_or_default()
    };
    if shortest(&other) > shortest(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_must_be_there() {
        let check = |pattern: &str, ignore_case: bool, expected: &[&str]| {
            let outline = outline(pattern, ignore_case).unwrap();
            let words: Vec<String> = outline.words.iter().map(|word| String::from_utf8_lossy(word).into()).collect();
            assert_eq!(words, expected, "{pattern}");
        };
        check("^/old/12345$", false, &["/old/12345"]);
        check("^/Old/[a-z]+/page$", false, &["/old/"]);
        check("^/[^/]+/Item/[0-9]+$", true, &["/item/"]);
        check("(?i)abcd", false, &["abcd"]);
        check("^(www\\.)?example\\.com$", false, &["example.com"]);
        check("(foo|barbaz)x+", false, &["foo", "barbaz"]);
        check("foo(a|b)", false, &["foo"]);
        check("(ab){3}c", false, &["abababc"]);
        check("a(b*)c", false, &["a"]);
        check("[0-9]+", false, &[]);
        check("", false, &[]);
        check("a|", false, &[]);
        check(".*", false, &[]);
    }

    #[test]
    fn what_might_be_too_large_has_no_outline() {
        assert!(outline("(a{1000}){1000}", false).is_none());
        assert!(outline("a(", false).is_none());
        assert!(outline("(?=a)", false).is_none());
    }
}
