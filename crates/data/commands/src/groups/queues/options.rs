//! Options that several subcommands have.

use keyspace::Failure;
use queue::{Look, MessageId, Receipt};

use crate::{Context, words::Words};

/// How many messages a command is about at most.
pub(super) const BATCH_MAX: usize = 1_000;
/// And if nobody says.
pub(super) const BATCH: usize = 10;

/// A time in milliseconds.
pub(super) fn millis(words: Words<'_>, place: usize, name: &str) -> Result<u64, Failure> {
    // A century.
    const MOST_MS: u64 = 100 * 366 * 24 * 3600 * 1000;
    let wrong = || Failure::owned(format!("ERR {name} is a number of milliseconds, from 0 to {MOST_MS}"));
    let ms = words.integer(place).ok().and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms <= MOST_MS).ok_or_else(wrong)
}

/// A number of messages.
pub(super) fn count(words: Words<'_>, place: usize) -> Result<usize, Failure> {
    let wrong = || Failure::owned(format!("ERR COUNT is a number from 1 to {BATCH_MAX}"));
    let count = words.integer(place).ok().and_then(|count| usize::try_from(count).ok());
    count.filter(|count| (1..=BATCH_MAX).contains(count)).ok_or_else(wrong)
}

/// A message's id.
pub(super) fn id(word: &[u8]) -> Result<MessageId, Failure> {
    MessageId::parse(word).ok_or_else(|| {
        Failure::quoting(&[b"ERR '", word.get(..64).unwrap_or(word), b"' is no id of a message: QUEUE PUSH gives ids"])
    })
}

/// A receipt.
pub(super) fn receipt(word: &[u8]) -> Result<Receipt, Failure> {
    Receipt::parse(word).ok_or_else(|| {
        Failure::quoting(&[b"ERR '", word.get(..64).unwrap_or(word), b"' is no receipt: QUEUE RESERVE gives receipts"])
    })
}

/// A state.
fn state(word: &[u8]) -> Result<Look, Failure> {
    for (name, look) in [
        ("ready", Look::Ready),
        ("delayed", Look::Delayed),
        ("reserved", Look::Reserved),
        ("dead", Look::Dead),
        ("all", Look::All),
    ] {
        if word.eq_ignore_ascii_case(name.as_bytes()) {
            return Ok(look);
        }
    }
    Err(Failure::text("ERR STATE is one of ready, delayed, reserved, dead, all"))
}

/// An option that is not there.
pub(super) fn unknown(words: Words<'_>, place: usize) -> Failure {
    let word = words.at(place);
    let name = words.at(1).to_ascii_uppercase();
    Failure::quoting(&[
        b"ERR QUEUE ",
        &name,
        b" has no option '",
        word.get(..64).unwrap_or(word),
        b"', or something is missing behind it: see QUEUE HELP",
    ])
}

/// Which messages are meant.
#[derive(Debug)]
pub(super) struct Choice {
    /// These, if any are named.
    pub(super) ids: Vec<MessageId>,
    /// Else those in a state, if that is said.
    pub(super) state: Option<Look>,
    pub(super) count: Option<usize>,
    /// From this one on.
    pub(super) from: Option<MessageId>,
    /// Those that died of this.
    pub(super) reason: Option<usize>,
}

/// Reads which messages are meant, from a word on, by the options that the command has.
pub(super) fn choice(context: &Context<'_>, from: usize, known: &[&str]) -> Result<Choice, Failure> {
    let words = context.words;
    let mut choice = Choice { ids: Vec::new(), state: None, count: None, from: None, reason: None };
    let mut at = from;
    while at < words.len() {
        let is = |name: &str| known.contains(&name) && words.is(at, name) && words.len() > at + 1;
        if is("IDS") {
            let ids = words.from(at + 1);
            if ids.len() > BATCH_MAX {
                return Err(Failure::owned(format!(
                    "ERR there are {} ids, and at most {BATCH_MAX} at once",
                    ids.len()
                )));
            }
            choice.ids = ids.iter().map(|word| id(word)).collect::<Result<_, _>>()?;
            if choice.state.is_some() || choice.count.is_some() || choice.from.is_some() || choice.reason.is_some() {
                return Err(Failure::text("ERR IDS names the messages: no other option goes with it"));
            }
            return Ok(choice);
        } else if is("STATE") {
            choice.state = Some(state(words.at(at + 1))?);
        } else if is("COUNT") {
            choice.count = Some(count(words, at + 1)?);
        } else if is("FROM") {
            choice.from = Some(id(words.at(at + 1))?);
        } else if is("REASON") {
            choice.reason = Some(at + 1);
        } else {
            return Err(unknown(words, at));
        }
        at += 2;
    }
    Ok(choice)
}
