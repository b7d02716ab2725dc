//! Where values of an RDB file end. What is in them, whoever takes them checks.

use std::io::BufRead;

use super::{Problem, source::Source};

/// Bytes of an id of a stream, as what is pending has it.
const ID: u64 = 16;
/// Bytes of a time.
const TIME: u64 = 8;

/// A queue, which only a store writes.
pub const QUEUE: u8 = 200;

/// Goes on behind a value of this form.
///
/// # Errors
///
/// The form is not known, or the file ends.
pub fn skip<R: BufRead>(form: u8, source: &mut Source<R>) -> Result<(), Problem> {
    match form {
        // A string, and all that is packed into one: zipmaps, ziplists, sets of integers, listpacks.
        0 | 9..=13 | 16 | 17 | 20 => source.skip_string(),
        // Lists, sets, and quicklists of ziplists.
        1 | 2 | 14 => each(source, |source| source.skip_string()),
        // Sorted sets, with scores as text and as doubles.
        3 => each(source, |source| {
            source.skip_string()?;
            let [len] = source.array()?;
            // The last three lengths are numbers that have no digits.
            source.skip(if len < 253 { len.into() } else { 0 })
        }),
        5 => each(source, |source| {
            source.skip_string()?;
            source.skip(8)
        }),
        // Hashes.
        4 => each(source, |source| {
            source.skip_string()?;
            source.skip_string()
        }),
        // Quicklists of listpacks, and of what is too large for one.
        18 => each(source, |source| {
            source.number()?;
            source.skip_string()
        }),
        15 | 19 | 21 => stream(form, source),
        // A queue: a header, then names and values, up to a name without a byte.
        QUEUE => {
            source.skip_string()?;
            while !source.string()?.is_empty() {
                source.skip_string()?;
            }
            Ok(())
        }
        6 | 7 => Err(Problem::Format(source.at, "a value of a module: there are no modules here")),
        _ => Err(Problem::Format(source.at, "a type that is not known: it is of a later version of Redis")),
    }
}

/// So many as a number says.
fn each<R: BufRead>(
    source: &mut Source<R>,
    mut one: impl FnMut(&mut Source<R>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    for _ in 0..source.number()? {
        one(source)?;
    }
    Ok(())
}

fn stream<R: BufRead>(form: u8, source: &mut Source<R>) -> Result<(), Problem> {
    let (has_counts, has_activity) = (form >= 19, form >= 21);
    // Nodes by their first ids.
    each(source, |source| {
        source.skip_string()?;
        source.skip_string()
    })?;
    // How many entries, the last id; the first one, the last one that was removed, how many were added.
    let numbers = if has_counts { 3 + 5 } else { 3 };
    for _ in 0..numbers {
        source.number()?;
    }
    each(source, |source| {
        source.skip_string()?;
        for _ in 0..if has_counts { 3 } else { 2 } {
            source.number()?;
        }
        each(source, |source| {
            source.skip(ID + TIME)?;
            source.number().map(drop)
        })?;
        each(source, |source| {
            source.skip_string()?;
            source.skip(if has_activity { 2 * TIME } else { TIME })?;
            each(source, |source| source.skip(ID))
        })
    })
}

/// A queue as commands that make it, each of which has some of its records: it may be far larger than memory.
///
/// # Errors
///
/// The file ends; those of whoever takes the commands.
pub fn queue<R: BufRead, E: From<Problem>>(
    source: &mut Source<R>,
    key: &[u8],
    mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    const PIECE_LEN: usize = 64 << 10;
    const PIECE_WORDS: usize = 512;
    each(&[b"QUEUE", b"FILL", key, b"HEADER", &source.string()?])?;
    let (mut words, mut len, mut is_over) = (Vec::new(), 0, false);
    while !is_over {
        let name = source.string()?;
        is_over = name.is_empty();
        if !is_over {
            let value = source.string()?;
            len += name.len() + value.len();
            words.extend([name, value]);
        }
        if (is_over || len >= PIECE_LEN || words.len() >= PIECE_WORDS) && !words.is_empty() {
            let head = [&b"QUEUE"[..], b"FILL", key, b"RECORDS"];
            each(&head.into_iter().chain(words.iter().map(Vec::as_slice)).collect::<Vec<_>>())?;
            (words, len) = (Vec::new(), 0);
        }
    }
    Ok(())
}
