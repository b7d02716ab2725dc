//! What most keyword parsers do with their arguments.

use std::{ops::RangeInclusive, str::FromStr, time::Duration};

use crate::{
    diagnostics::Problem,
    line::Line,
    scope::Scope,
    units::{self, TimeError, Unit},
};

/// At most `most` arguments after the keyword.
///
/// # Errors
/// HAProxy's message about the first argument in excess.
pub fn no_more(line: &Line, most: usize) -> Result<(), Problem> {
    no_more_after(line, most, 0)
}

/// At most `most` arguments after the word at `index`, which ends the name of the keyword (`option X`).
///
/// # Errors
/// As [`no_more`].
pub fn no_more_after(line: &Line, most: usize, index: usize) -> Result<(), Problem> {
    let excess = index + most + 1;
    if line.word(excess).is_empty() {
        return Ok(());
    }
    let keyword = line.texts_from(0).take(index + 1).collect::<Vec<_>>().join(" ");
    Err(Problem::new(format!("'{keyword}' cannot handle unexpected argument '{}'.", line.word(excess))).at(excess))
}

/// As [`no_more_after`], for keywords after whose arguments HAProxy reads no further: that is told, and no more.
pub fn ignore_more(scope: &mut Scope<'_>, line: &Line, most: usize, index: usize) {
    let excess = index + most + 1;
    if !line.word(excess).is_empty() {
        let keyword = line.texts_from(0).take(index + 1).collect::<Vec<_>>().join(" ");
        let message = format!("'{keyword}' : '{}' and what follows is ignored.", line.word(excess));
        scope.warn(line, Problem::new(message).at(excess));
    }
}

/// The arguments of a line that has no effect, by what the table says of them: HAProxy refuses it if they are wrong.
///
/// # Errors
/// HAProxy's message about what is missing, wrong or in excess.
pub fn as_declared(scope: &mut Scope<'_>, line: &Line, declared: &str) -> Result<(), Problem> {
    let words: Vec<&str> = declared.split_whitespace().collect();
    let choice = declared.trim_matches(['{', '}', '[', ']', '<', '>', ' ']);
    if choice.contains('|') {
        no_more(line, 1)?;
        return one_of(line, &choice.split('|').map(str::trim).collect::<Vec<_>>());
    }
    match words[..] {
        [] => no_more(line, 0),
        ["<time>"] => {
            no_more(line, 1)?;
            time(scope, line, 1, Unit::Millisecond).map(drop)
        }
        ["<number>" | "<bytes>" | "<bits>"] => {
            no_more(line, 1)?;
            required(line, 1, "an integer argument.").map(drop)
        }
        // How many there may be is not known.
        [_, ..] if words.len() > 1 || declared.ends_with("...") => required(line, 1, "an argument.").map(drop),
        _ => {
            no_more(line, 1)?;
            required(line, 1, "an argument.").map(drop)
        }
    }
}

fn one_of(line: &Line, choices: &[&str]) -> Result<(), Problem> {
    let word = line.word(1);
    if choices.contains(&word) {
        return Ok(());
    }
    let quoted: Vec<String> = choices.iter().map(|choice| format!("'{choice}'")).collect();
    let listed = match &quoted[..] {
        [first, last] => format!("{first} or {last}"),
        [first @ .., last] => format!("{}, or {last}", first.join(", ")),
        [] => String::new(),
    };
    Err(Problem::new(format!("'{}' expects either {listed} but got '{word}'.", line.word(0))).at(1))
}

/// The argument at `index`.
///
/// # Errors
/// `'<keyword>' expects <what> ...` when it is missing; `what` is what HAProxy says, as `an integer argument.`
pub fn required<'a>(line: &'a Line, index: usize, what: &str) -> Result<&'a str, Problem> {
    match line.word(index) {
        "" => Err(Problem::new(format!("'{}' expects {what}", line.word(0))).at(index)),
        word => Ok(word),
    }
}

/// The whole number at `index`, within `range`.
///
/// # Errors
/// When it is missing, not a number or out of range.
pub fn integer<T>(line: &Line, index: usize, range: RangeInclusive<T>) -> Result<T, Problem>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let word = required(line, index, "an integer argument.")?;
    let (least, most) = (range.start(), range.end());
    match word.strip_prefix('+').unwrap_or(word).parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(Problem::new(format!("'{}' : '{word}' is not an integer between {least} and {most}.", line.word(0)))
            .at(index)
            .expected(format!("an integer between {least} and {most}"))),
    }
}

/// The time at `index`; `unit` is that of a number alone.
///
/// # Errors
/// When it is missing or malformed.
pub fn time(scope: &mut Scope<'_>, line: &Line, index: usize, unit: Unit) -> Result<Duration, Problem> {
    let word = required(line, index, "a time")?;
    let keyword = line.word(index.saturating_sub(1));
    time_of(scope, line, index, word, keyword, unit)
}

/// The time `text`, which stands in the word at `index` and belongs to `keyword`.
///
/// # Errors
/// When it is malformed.
pub fn time_of(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    text: &str,
    keyword: &str,
    unit: Unit,
) -> Result<Duration, Problem> {
    let limit = match unit {
        Unit::Millisecond => "2147483647 ms (~24.8 days)",
        Unit::Second => "2147483647 s (~68 years)",
    };
    let expected = "a number with a unit out of us, ms, s, m, h, d, as 500ms or 10s";
    match units::time(text, unit) {
        Ok(units::Time { value, ignored_from: None }) => Ok(value),
        Ok(units::Time { value, ignored_from: Some(from) }) => {
            let character = text.get(from..).and_then(|rest| rest.chars().next()).unwrap_or_default();
            let message = format!(
                "unexpected character '{character}' after the timer value '{text}', only (us=microseconds,\
                 ms=milliseconds,s=seconds,m=minutes,h=hours,d=days) are supported. This will be reported as an error \
                 in next versions."
            );
            scope.warn(line, Problem::new(message).within(line, index, from..text.len()));
            Ok(value)
        }
        Err(TimeError::Overflow) => {
            Err(Problem::new(format!("timer overflow in argument <{text}> to <{keyword}>, maximum value is {limit}."))
                .at(index)
                .expected(expected))
        }
        Err(TimeError::Unexpected(offset)) => {
            let message = match text.get(offset..).and_then(|rest| rest.chars().next()) {
                Some(character) => format!("unexpected character '{character}' in argument to <{keyword}>."),
                None => format!("unexpected end of argument to <{keyword}>."),
            };
            Err(Problem::new(message).within(line, index, offset..offset + 1).expected(expected))
        }
    }
}

/// The size in bytes at `index`.
///
/// # Errors
/// When it is missing or malformed.
pub fn size(line: &Line, index: usize) -> Result<u64, Problem> {
    let word = required(line, index, "a size in bytes")?;
    units::size(word).map_err(|offset| {
        let message = match word.get(offset..).and_then(|rest| rest.chars().next()) {
            Some(character) => format!("unexpected character '{character}' in argument to <{}>.", line.word(0)),
            None => format!("size '{word}' out of range in argument to <{}>.", line.word(0)),
        };
        Problem::new(message)
            .within(line, index, offset..offset + 1)
            .expected("a number of bytes with an optional unit out of k, m, g, below 4g")
    })
}

/// The whole number at `index`, within `range`. HAProxy reads such numbers up to the first character that is not a
/// digit and ignores the rest, so that a word without digits is zero; here it is ignored with a warning.
///
/// # Errors
/// When it is missing or out of range.
pub fn lenient<T>(scope: &mut Scope<'_>, line: &Line, index: usize, range: RangeInclusive<T>) -> Result<T, Problem>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    let word = required(line, index, "an integer argument.")?;
    let keyword = line.word(index.saturating_sub(1));
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let length = word.len() - unsigned.len() + digits;
    let (least, most) = (range.start(), range.end());
    let number = word.get(..length).map(|number| number.strip_prefix('+').unwrap_or(number));
    let number = if digits == 0 { Some(0) } else { number.and_then(|number| number.parse::<i64>().ok()) };
    let number = number.and_then(|number| T::try_from(number).ok());
    let Some(number) = number.filter(|number| range.contains(number)) else {
        let message = if digits == 0 {
            format!("'{keyword}' expects an integer argument, got '{word}'.")
        } else {
            format!("'{keyword}' expects an integer argument between {least} and {most}.")
        };
        return Err(Problem::new(message).at(index).expected(format!("an integer between {least} and {most}")));
    };
    if digits == 0 {
        scope.warn(line, Problem::new(format!("'{keyword}' : '{word}' is no number and is read as 0.")).at(index));
    } else if length < word.len() {
        let message = format!("'{keyword}' : '{word}' is read as {number}, what follows the number is ignored.");
        scope.warn(line, Problem::new(message).within(line, index, length..word.len()));
    }
    Ok(number)
}

/// Numbers from a word as `all`, `odd`, `even`, `3` or `2-4`, each between 1 and `most`.
///
/// # Errors
/// HAProxy's message without its place.
pub fn number_set(word: &str, most: u32) -> Result<Vec<u32>, String> {
    let invalid = || format!("'{word}' is not a valid number/range.");
    match word {
        "all" => return Ok((1..=most).collect()),
        "odd" => return Ok((1..=most).step_by(2).collect()),
        "even" => return Ok((2..=most).step_by(2).collect()),
        _ => {}
    }
    let (low, high) = word.split_once('-').map_or((word, None), |(low, high)| (low, Some(high)));
    let number = |text: &str| {
        let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if all_digits {
            Ok(text.parse::<u32>().unwrap_or(if text.is_empty() { 0 } else { u32::MAX }))
        } else {
            Err(invalid())
        }
    };
    let low = number(low)?;
    let high = match high {
        None => low,
        Some("") => most,
        Some(high) => number(high)?,
    };
    let (low, high) = (low.min(high), low.max(high));
    if low < 1 || high > most {
        return Err(format!("{} It supports numbers from 1 to {most}.", invalid()));
    }
    Ok((low..=high).collect())
}
