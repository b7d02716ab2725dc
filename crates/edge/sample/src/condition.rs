//! Conditions: `if` and `unless` with ACLs.

use std::sync::Arc;

use crate::acl::{Acl, AclSet, Outcome};
use crate::context::{Context, Options};
use crate::error::{Error, ErrorKind};
use crate::parser::ParseContext;
use crate::place::{Place, Places, Sources};

/// A compiled condition: a disjunction of conjunctions of ACLs, each of them perhaps negated.
#[derive(Clone, Debug)]
pub struct Condition {
    unless: bool,
    /// The conjunctions one after the other. A condition without any term does not hold.
    terms: Box<[Term]>,
    text: Box<str>,
}

#[derive(Clone, Debug)]
struct Term {
    acl: Arc<Acl>,
    negated: bool,
    /// Whether it is the last of its conjunction.
    last: bool,
}

impl Condition {
    /// Reads a condition: `if` or `unless` and what follows up to the end of the line.
    ///
    /// # Errors
    /// What is wrong, in HAProxy's words.
    pub fn parse<W: AsRef<[u8]>>(words: &[W], acls: &mut AclSet, parser: &mut ParseContext<'_>) -> Result<Self, Error> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let unless = match words.first() {
            Some(&b"if") => false,
            Some(&b"unless") => true,
            other => {
                let message = "conditions must start with either 'if' or 'unless'";
                return Err(Error::new(ErrorKind::Syntax, message).word(other.copied().unwrap_or_default()));
            }
        };
        let terms = parse_terms(words.get(1..).unwrap_or_default(), acls, parser)?;
        let text: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        Ok(Condition { unless, terms, text: text.join(" ").into() })
    }

    /// The condition as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates it, `unless` being applied. With final options the answer is never [`Outcome::Miss`].
    pub fn evaluate(&self, context: &dyn Context, options: Options) -> Outcome {
        let outcome = self.terms_hold(context, options);
        if self.unless { outcome.negated() } else { outcome }
    }

    /// Whether it holds, when everything is there that will be.
    #[must_use]
    pub fn holds(&self, context: &dyn Context, options: Options) -> bool {
        self.evaluate(context, Options { is_final: true, ..options }) == Outcome::Pass
    }

    fn terms_hold(&self, context: &dyn Context, options: Options) -> Outcome {
        let mut outcome = Outcome::Fail;
        // What the conjunction has come to so far; once it is not Pass, its other terms do not matter.
        let mut all = Outcome::Pass;
        for term in &self.terms {
            if all == Outcome::Pass {
                let one = term.acl.evaluate(context, options);
                all = if term.negated { one.negated() } else { one };
            }
            if term.last {
                match std::mem::replace(&mut all, Outcome::Pass) {
                    Outcome::Pass => return Outcome::Pass,
                    Outcome::Miss => outcome = Outcome::Miss,
                    Outcome::Fail => {}
                }
            }
        }
        outcome
    }

    /// Where it can hold.
    #[must_use]
    pub fn places(&self) -> Places {
        self.terms.split_inclusive(|term| term.last).fold(Places::NONE, |places, suite| {
            places.union(suite.iter().fold(Places::ALL, |all, term| all.intersection(term.acl.places())))
        })
    }

    /// What it reads.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.terms.iter().fold(Sources::NONE, |sources, term| sources.union(term.acl.sources()))
    }

    /// The warning that HAProxy gives when the condition stands at `place` and something in it cannot hold there.
    #[must_use]
    pub fn conflict(&self, place: Place) -> Option<String> {
        let here = Places::only(place);
        let terms = || self.terms.iter().map(|term| &term.acl);
        let place = place.name();
        if let Some(acl) = terms().find(|acl| !acl.places().intersects(here)) {
            let name = acl.name();
            return Some(match acl.useless_keyword(here) {
                Some(keyword) if name.is_empty() => format!(
                    "anonymous acl will never match because it uses keyword '{keyword}' which is incompatible with '{place}'"
                ),
                _ => format!(
                    "acl '{name}' will never match because it only involves keywords that are incompatible with '{place}'"
                ),
            });
        }
        let (acl, keyword) = terms().find_map(|acl| Some((acl, acl.useless_keyword(here)?)))?;
        Some(match acl.name() {
            "" => format!("anonymous acl involves keyword '{keyword}' which is incompatible with '{place}'"),
            name => format!("acl '{name}' involves keywords '{keyword}' which is incompatible with '{place}'"),
        })
    }
}

/// Reads terms up to the end; `or` and `||` separate conjunctions.
fn parse_terms(words: &[&[u8]], acls: &mut AclSet, parser: &mut ParseContext<'_>) -> Result<Box<[Term]>, Error> {
    let mut terms: Vec<Term> = Vec::new();
    let mut negated = false;
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        let marks = word.iter().take_while(|byte| **byte == b'!').count();
        negated ^= marks % 2 == 1;
        let word = word.get(marks..).unwrap_or_default();
        // Exclamation marks may stand alone before what they negate.
        if word.is_empty() {
            continue;
        }
        if word.eq_ignore_ascii_case(b"or") || word == b"||" {
            if let Some(term) = terms.last_mut() {
                term.last = true;
            }
            negated = false;
            continue;
        }
        let acl = if word == b"{" {
            let Some(end) = rest.iter().position(|word| *word == b"}") else {
                return Err(Error::new(ErrorKind::Syntax, "missing closing '}' in condition").word(word));
            };
            let inner = rest.get(..end).unwrap_or_default();
            rest = rest.get(end + 1..).unwrap_or_default();
            AclSet::anonymous(inner, parser)?
        } else {
            acls.find(&String::from_utf8_lossy(word), parser)?
        };
        terms.push(Term { acl, negated: std::mem::take(&mut negated), last: false });
    }
    if let Some(term) = terms.last_mut() {
        term.last = true;
    }
    Ok(terms.into_boxed_slice())
}
