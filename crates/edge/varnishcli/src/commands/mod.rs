//! What the commands do, up to what the instance does.

mod general;
mod parameters;
mod vcl;

use std::time::SystemTime;

use crate::{Failure, Instance, Outcome, Reply, Status, command::Command};

pub(crate) use general::banner;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// What needs no secret.
    Stranger,
    /// Everything.
    Full,
}

/// A command with its words, once it is known to have the right number of them.
pub(crate) struct Call<'a> {
    /// All words as they came.
    pub(crate) words: &'a [String],
    /// Those behind the command's name, without `-j`.
    pub(crate) arguments: &'a [String],
    pub(crate) wants_json: bool,
    pub(crate) now: SystemTime,
}

impl Call<'_> {
    pub(crate) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }
}

/// Runs a command for somebody who may do everything.
pub fn execute(words: &[String], instance: &mut dyn Instance, now: SystemTime) -> Reply {
    run(words, Access::Full, instance, now)
}

pub(crate) fn run(words: &[String], access: Access, instance: &mut dyn Instance, now: SystemTime) -> Reply {
    match checked(words, access, instance, now) {
        Ok(text) => Reply::new(Status::Ok, text),
        Err(failure) => Reply::new(failure.status, failure.text),
    }
}

fn checked(words: &[String], access: Access, instance: &mut dyn Instance, now: SystemTime) -> Outcome {
    let fail = |status, text: &str| Err(Failure { status, text: text.to_owned() });
    let Some((name, arguments)) = words.split_first() else { return fail(Status::Syntax, "Empty CLI command.\n") };
    if name.starts_with(|first: char| first.is_ascii_uppercase()) {
        return fail(Status::Unknown, "all commands are in lower-case.\n");
    }
    let known = Command::named(name).filter(|command| access == Access::Full || command.is_for_strangers);
    let Some(command) = known else { return unknown(name, arguments, access, instance) };
    let wants_json = arguments.first().is_some_and(|first| first == "-j");
    if wants_json && !command.has_json {
        return fail(Status::Unimplemented, "JSON unimplemented\n");
    }
    let arguments = arguments.get(usize::from(wants_json)..).unwrap_or_default();
    if arguments.len() < command.arguments_min {
        return fail(Status::TooFew, "Too few parameters\n");
    }
    if command.arguments_max.is_some_and(|most| arguments.len() > most) {
        return fail(Status::TooMany, "Too many parameters\n");
    }
    let call = Call { words, arguments, wants_json, now };
    match command.name {
        name if name.starts_with("vcl.") && !command.is_debug => vcl::run(name, &call, instance),
        "param.show" => parameters::show(&call, instance),
        "param.set" => parameters::set(&call, instance),
        "param.reset" => parameters::reset(&call, instance),
        name => general::run(name, &call, access, instance),
    }
}

/// A command that is in no table may still be one of the instance's, for developers.
fn unknown(name: &str, arguments: &[String], access: Access, instance: &mut dyn Instance) -> Outcome {
    let own = if access == Access::Full { instance.debug(name, arguments) } else { None };
    own.unwrap_or_else(|| {
        Err(Failure { status: Status::Unknown, text: "Unknown request.\nType 'help' for more info.\n".to_owned() })
    })
}

/// Whether a text is what a shell pattern means: `*`, `?`, `[a-z]`, and a backslash before what stands for itself.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where to go on after the last `*`, if what follows it does not match here.
    let mut again: Option<(usize, usize)> = None;
    let (mut at, mut here) = (0, 0);
    while here < text.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                at += 1;
                again = Some((at, here));
                continue;
            }
            Some(_) => one(pattern.get(at..).unwrap_or_default(), text.get(here).copied().unwrap_or_default()),
            None => None,
        };
        match (step, again) {
            (Some(length), _) => (at, here) = (at + length, here + 1),
            (None, Some((behind, from))) => {
                again = Some((behind, from + 1));
                (at, here) = (behind, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|letter| *letter == '*')
}

/// How much of a pattern stands for this one letter, if it does.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', exact, ..] => (*exact == letter).then_some(2),
        ['[', rest @ ..] => {
            let (negated, set) = match rest {
                ['!' | '^', set @ ..] => (true, set),
                _ => (false, rest),
            };
            // A bracket that stands first is one of the letters.
            let Some(end) = set.iter().skip(1).position(|letter| *letter == ']').map(|end| end + 1) else {
                return (letter == '[').then_some(1);
            };
            let mut inside = set.get(..end).unwrap_or_default();
            let mut found = false;
            while let [first, rest @ ..] = inside {
                (found, inside) = match rest {
                    ['-', last, rest @ ..] => (found || (*first..=*last).contains(&letter), rest),
                    _ => (found || *first == letter, rest),
                };
            }
            (found != negated).then_some(1 + usize::from(negated) + end + 1)
        }
        [exact, ..] => (*exact == letter).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns() {
        let cases = [
            ("*", "", true),
            ("*", "boot.default", true),
            ("boot.*", "boot.default", true),
            ("boot.*t", "boot.default", true),
            ("boot.*x", "boot.default", false),
            ("?oot", "boot", true),
            ("[a-c]oot", "boot", true),
            ("[!a-c]oot", "boot", false),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "aXbXbc", true),
            ("boot", "boot2", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_is_survived(pattern in "[*?a-c\\[\\]!\\\\-]{0,12}", text in "[a-c]{0,12}") {
            let _ = matches(&pattern, &text);
        }
    }
}
