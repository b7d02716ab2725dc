//! The times at which keys expire at a Redis that gets them.
//!
//! A Redis judges by its own clock: a key whose time passes while its slot moves is gone there at once, also where the source has prolonged
//! it and only says so a moment later. So a key whose time is near gets another one there, [`SHIFT`] later, until the slots switch. The
//! Redis itself carries such a time from command to command as it does any other: what overwrites a key drops it, `RENAME` takes it along.
//!
//! ```text
//!               near (less than NEAR away)                    pause: settle
//!  own time  ------------------------------>  shifted time  ----------------->  own time; what it says from now on counts
//!     ^                                          ^    |                            |
//!     +------- the source says a later one ------+----+ <--------- unsettle -------+  the pause ends without a switch
//! ```
//!
//! What is kept here are names that may have such a time, some of which have none any more: the Redis is asked before a time is changed.
//! If it may have removed a key while that had its own time, and the source goes on with the key, the move fails and begins anew.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    io,
    sync::Arc,
};

use resp::Value;

use crate::import::target::Target;

/// Times in milliseconds since 1970 are so much later where they are not to count. Some 140,000 years: nobody else sets such a time.
const SHIFT: u64 = 1 << 52;
/// A time is near from here on: longer than anything between the source and the Redis takes.
const NEAR_MS: u64 = 60_000;
/// Times further away than this when the move begins are not looked after, and no move lasts so long.
const HORIZON_MS: u64 = 24 * 3_600_000;
/// A key whose time is so close may be gone when a command about it arrives.
const DOUBTFUL_MS: u64 = 1_000;
/// Keys that are asked for at once.
const ASKED_AT_ONCE: usize = 1_000;
/// Names that are kept at most, some 120 bytes each.
const NAMES_MAX: usize = 2_000_000;

/// Why a move with times cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LifetimeError {
    /// The connection.
    #[error(transparent)]
    Target(#[from] io::Error),
    /// The Redis refuses a question.
    #[error("the target refuses {0}: its user needs PEXPIRETIME (or PTTL) and PEXPIREAT")]
    Refused(String),
    /// It may have removed a key that lives on.
    #[error("'{0}' may have expired at the target while the source goes on with it: the move is to be begun anew")]
    Lost(String),
    /// Too many names.
    #[error("more than {NAMES_MAX} keys of the slots expire within a day: move fewer slots at once")]
    TooMany,
    /// Times may pass that are not looked after.
    #[error("the move has lasted for a day: move fewer slots at once")]
    TooLong,
}

type Name = Arc<[u8]>;
/// A command that the Redis is to be given.
pub type Command = Vec<Vec<u8>>;

/// What is known of keys' times at a Redis.
#[derive(Debug)]
pub struct Lifetimes {
    /// Times from here on are not looked after.
    horizon: u64,
    /// Keys with their own time, and one that is not later than that.
    own: HashMap<Name, u64>,
    /// When they are to be looked at. A name may be here that is not there, or that has a later time there.
    due: BinaryHeap<Reverse<(u64, Name)>>,
    /// Keys that may have a shifted time.
    shifted: HashSet<Name>,
    /// Those that have got their own time back for the switch.
    settled: HashMap<Name, u64>,
    /// Those that were gone when they were to get a shifted time: removed by the source, or expired.
    gone: HashSet<Name>,
}

impl Lifetimes {
    /// Of a move that begins now, as the Redis' clock says.
    pub fn new(now: u64) -> Self {
        Self {
            horizon: now + HORIZON_MS,
            own: HashMap::new(),
            due: BinaryHeap::new(),
            shifted: HashSet::new(),
            settled: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// Whether keys have other times than they are to be served with.
    pub fn lacks_times(&self) -> bool {
        !self.shifted.is_empty()
    }

    /// What the Redis is given for a command of the source; nothing if it is given the command as it is.
    ///
    /// # Errors
    ///
    /// It is about a key that may be gone.
    pub fn pass(&mut self, words: &[&[u8]], now: u64) -> Result<Option<Vec<Command>>, LifetimeError> {
        let Some((name, rest)) = words.split_first() else { return Ok(None) };
        let name = name.to_ascii_uppercase();
        if matches!(&name[..], b"DEL" | b"UNLINK") {
            for key in rest {
                self.shifted.remove(*key);
                self.settled.remove(*key);
                self.gone.remove(*key);
            }
            return Ok(None);
        }
        if !(self.gone.is_empty() && self.settled.is_empty())
            && let Some(lost) = rest.iter().find(|key| self.may_be_gone(key, now))
        {
            return Err(LifetimeError::Lost(lost.escape_ascii().to_string()));
        }
        let commands = match (&name[..], rest) {
            (b"RENAME" | b"RENAMENX" | b"COPY", [_, to, ..]) => {
                // It has the other one's time by now.
                self.look_at(to, now);
                None
            }
            (b"PEXPIREAT" | b"EXPIREAT" | b"PEXPIRE" | b"EXPIRE", [key, at, ..]) => {
                let unit: &[u8] = match &name[..] {
                    b"PEXPIREAT" => b"PXAT",
                    b"EXPIREAT" => b"EXAT",
                    b"PEXPIRE" => b"PX",
                    _ => b"EX",
                };
                // Its conditions were met at the source, and are about another time here.
                time(unit, at, now).map(|at| vec![self.expire(key, at, now)])
            }
            (b"SETEX" | b"PSETEX", [key, at, value]) => {
                let unit: &[u8] = if name[..] == *b"SETEX" { b"EX" } else { b"PX" };
                time(unit, at, now).map(|at| vec![command(&[b"SET", key, value]), self.expire(key, at, now)])
            }
            (b"SET", [key, value, options @ ..]) => {
                time_option(options, now).map(|at| vec![command(&[b"SET", key, value]), self.expire(key, at, now)])
            }
            (b"GETEX", [key, options @ ..]) => time_option(options, now).map(|at| vec![self.expire(key, at, now)]),
            (b"RESTORE", [key, at, payload, options @ ..]) => {
                let is_absolute = |option: &&[u8]| option.eq_ignore_ascii_case(b"ABSTTL");
                let unit: &[u8] = if options.iter().any(is_absolute) { b"PXAT" } else { b"PX" };
                time(unit, at, now).filter(|_| **at != *b"0").map(|at| {
                    let at = self.set(key, at, now).to_string();
                    let others = options.iter().copied().filter(|option| !is_absolute(option));
                    let words: [&[u8]; 5] = [b"RESTORE", key, at.as_bytes(), payload, b"ABSTTL"];
                    vec![words.into_iter().chain(others).map(<[u8]>::to_vec).collect()]
                })
            }
            _ => None,
        };
        if self.own.len() + self.shifted.len() > NAMES_MAX || self.due.len() > 2 * NAMES_MAX {
            return Err(LifetimeError::TooMany);
        }
        Ok(commands)
    }

    fn may_be_gone(&self, key: &[u8], now: u64) -> bool {
        self.gone.contains(key) || self.settled.get(key).is_some_and(|at| *at <= now + DOUBTFUL_MS)
    }

    fn expire(&mut self, key: &[u8], at: u64, now: u64) -> Command {
        command(&[b"PEXPIREAT", key, self.set(key, at, now).to_string().as_bytes()])
    }

    /// The time that a key gets instead of one.
    fn set(&mut self, key: &[u8], at: u64, now: u64) -> u64 {
        if at > now + NEAR_MS {
            self.note(key.into(), at);
            return at;
        }
        self.shifted.insert(key.into());
        at.saturating_add(SHIFT)
    }

    /// A key has this time of its own.
    fn note(&mut self, key: Name, at: u64) {
        if at >= self.horizon {
            return;
        }
        let known = self.own.get(&key).copied();
        self.own.insert(Arc::clone(&key), at);
        // What is to be looked at before then will be, and is put off.
        if known.is_none_or(|known| at < known) {
            self.due.push(Reverse((at, key)));
        }
    }

    /// A key has a time that is not known.
    fn look_at(&mut self, key: &[u8], now: u64) {
        self.note(key.into(), now);
    }

    /// Names whose own time is near.
    fn take_due(&mut self, now: u64) -> Vec<(Name, u64)> {
        let mut taken = Vec::new();
        while taken.len() < ASKED_AT_ONCE
            && let Some(Reverse((at, _))) = self.due.peek()
            && *at <= now + NEAR_MS
            && let Some(Reverse((_, name))) = self.due.pop()
        {
            match self.own.get(&name) {
                Some(at) if *at > now + NEAR_MS => self.due.push(Reverse((*at, name))),
                Some(at) => {
                    let at = *at;
                    self.own.remove(&name);
                    taken.push((name, at));
                }
                None => {}
            }
        }
        taken
    }

    /// What follows from what the Redis says of a key that is to have no time of its own that is near. `at`: when it would have expired.
    fn shift(&mut self, name: Name, found: KeyLifetime, (at, now): (u64, u64)) -> Option<Command> {
        match found {
            KeyLifetime::Nothing if at <= now + DOUBTFUL_MS => drop(self.gone.insert(name)),
            KeyLifetime::Nothing | KeyLifetime::Lasting => {}
            KeyLifetime::Expires(at) if at >= SHIFT => drop(self.shifted.insert(name)),
            KeyLifetime::Expires(at) if at > now + NEAR_MS => self.note(name, at),
            KeyLifetime::Expires(at) => return Some(self.expire(&name, at, now)),
        }
        None
    }
}

/// What a Redis says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyLifetime {
    /// There is none.
    Nothing,
    /// It does not expire.
    Lasting,
    /// It expires then.
    Expires(u64),
}

/// The Redis, or a store, that gets keys.
pub struct Destination {
    pub target: Target,
    /// A store is told that keys are somebody else's, and does not judge their times.
    lifetimes: Option<RedisClock>,
}

/// What is known of a Redis' keys, and of its clock.
struct RedisClock {
    lifetimes: Lifetimes,
    /// How much its clock is ahead of this machine's, in milliseconds.
    ahead: i64,
    /// It is older than 7.0 and tells only how long keys live on.
    tells_rest_alone: bool,
}

impl RedisClock {
    fn now(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.ahead)
    }
}

impl Destination {
    /// A store.
    pub fn store(target: Target) -> Self {
        Self { target, lifetimes: None }
    }

    /// A Redis; the time is this machine's.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn redis(mut target: Target, now: u64) -> io::Result<Self> {
        // Who may not ask for the time has to have the same as this machine.
        let there = target.ask(&["TIME"])?.ok().and_then(|time| milliseconds(&time)).unwrap_or(now);
        let tells_rest_alone = target.ask(&["PEXPIRETIME", "a"])?.is_err();
        let lifetimes = Lifetimes::new(there);
        let ahead = there as i64 - now as i64;
        Ok(Self { target, lifetimes: Some(RedisClock { lifetimes, ahead, tells_rest_alone }) })
    }

    /// Whether keys there have other times than they are to be served with.
    pub fn lacks_times(&self) -> bool {
        self.lifetimes.as_ref().is_some_and(|clock| clock.lifetimes.lacks_times())
    }

    /// Gives it a command of the source.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the move is to be begun anew.
    pub fn send(&mut self, words: &[&[u8]], now: u64) -> Result<(), LifetimeError> {
        let instead = match &mut self.lifetimes {
            None => None,
            Some(clock) => {
                let now = clock.now(now);
                clock.lifetimes.pass(words, now)?
            }
        };
        match instead {
            None => self.target.send(words)?,
            Some(commands) => commands.iter().try_for_each(|words| self.target.send(words))?,
        }
        Ok(())
    }

    /// Keys whose time has come near get another one. To be called at least each second, but not while keys are settled.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the move is to be begun anew.
    pub fn tend(&mut self, now: u64) -> Result<(), LifetimeError> {
        let Self { target, lifetimes: Some(clock) } = self else { return Ok(()) };
        let now = clock.now(now);
        if now + NEAR_MS > clock.lifetimes.horizon {
            return Err(LifetimeError::TooLong);
        }
        loop {
            let due = clock.lifetimes.take_due(now);
            if due.is_empty() {
                return Ok(());
            }
            reshift(target, clock, due, now)?;
        }
    }

    /// Gives keys their own times back: their slots wait at the source, which has said all there is to say of them.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn settle(&mut self, now: u64) -> Result<(), LifetimeError> {
        let Self { target, lifetimes: Some(clock) } = self else { return Ok(()) };
        let now = clock.now(now);
        let names: Vec<Name> = clock.lifetimes.shifted.iter().cloned().collect();
        for names in names.chunks(ASKED_AT_ONCE) {
            for (name, found) in names.iter().zip(times(target, names, clock.tells_rest_alone, now)?) {
                if let KeyLifetime::Expires(at) = found
                    && at >= SHIFT
                {
                    let at = at - SHIFT;
                    target.send(&[b"PEXPIREAT", &name[..], at.to_string().as_bytes()])?;
                    clock.lifetimes.settled.insert(Arc::clone(name), at);
                }
            }
            target.finish()?;
        }
        clock.lifetimes.shifted.clear();
        Ok(())
    }

    /// The slots do not switch yet: what was settled is not any more.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn unsettle(&mut self, now: u64) -> Result<(), LifetimeError> {
        let Self { target, lifetimes: Some(clock) } = self else { return Ok(()) };
        let now = clock.now(now);
        let settled: Vec<(Name, u64)> = clock.lifetimes.settled.drain().collect();
        for names in settled.chunks(ASKED_AT_ONCE) {
            reshift(target, clock, names.to_vec(), now)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Destination").field("is_redis", &self.lifetimes.is_some()).finish_non_exhaustive()
    }
}

fn reshift(target: &mut Target, clock: &mut RedisClock, due: Vec<(Name, u64)>, now: u64) -> Result<(), LifetimeError> {
    let names: Vec<Name> = due.iter().map(|(name, _)| Arc::clone(name)).collect();
    let found = times(target, &names, clock.tells_rest_alone, now)?;
    for ((name, at), found) in due.into_iter().zip(found) {
        if let Some(words) = clock.lifetimes.shift(name, found, (at, now)) {
            target.send(&words)?;
        }
    }
    Ok(target.finish()?)
}

/// The times of keys.
fn times(
    target: &mut Target,
    names: &[Name],
    tells_rest_alone: bool,
    now: u64,
) -> Result<Vec<KeyLifetime>, LifetimeError> {
    let question: &[u8] = if tells_rest_alone { b"PTTL" } else { b"PEXPIRETIME" };
    let questions: Vec<[&[u8]; 2]> = names.iter().map(|name| [question, &name[..]]).collect();
    let replies = target.ask_all(&questions)?;
    let found = replies.into_iter().map(|reply| match reply {
        Value::Integer(-2) => Ok(KeyLifetime::Nothing),
        Value::Integer(number) if number >= 0 => {
            Ok(KeyLifetime::Expires(number as u64 + if tells_rest_alone { now } else { 0 }))
        }
        Value::Integer(_) => Ok(KeyLifetime::Lasting),
        other => Err(LifetimeError::Refused(
            String::from_utf8_lossy(other.as_error().unwrap_or(b"PEXPIRETIME")).into_owned(),
        )),
    });
    found.collect()
}

/// What `TIME` says.
fn milliseconds(time: &Value) -> Option<u64> {
    let [seconds, micros] = time.as_slice()? else { return None };
    let number = |value: &Value| std::str::from_utf8(value.as_bytes()?).ok()?.parse::<u64>().ok();
    Some(number(seconds)? * 1_000 + number(micros)? / 1_000)
}

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// A time by the option that it stands behind, in milliseconds since 1970.
fn time(unit: &[u8], text: &[u8], now: u64) -> Option<u64> {
    let number = std::str::from_utf8(text).ok()?.parse::<i64>().ok()?.max(0) as u64;
    match unit.to_ascii_uppercase().as_slice() {
        b"PXAT" => Some(number),
        b"EXAT" => Some(number.saturating_mul(1_000)),
        b"PX" => Some(now.saturating_add(number)),
        b"EX" => Some(now.saturating_add(number.saturating_mul(1_000))),
        _ => None,
    }
}

/// The time among the options of SET and GETEX.
fn time_option(options: &[&[u8]], now: u64) -> Option<u64> {
    options.windows(2).find_map(|pair| match pair {
        [unit, text] => time(unit, text, now),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    fn passed(lifetimes: &mut Lifetimes, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match lifetimes.pass(&words, NOW) {
            Ok(None) => "as it is".into(),
            Ok(Some(commands)) => {
                let text = |words: &Command| {
                    words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
                };
                commands.iter().map(text).collect::<Vec<_>>().join(" | ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn times_that_are_near_or_over_are_shifted_and_others_are_not() {
        let mut lifetimes = Lifetimes::new(NOW);
        let shifted = |at: u64| (at + SHIFT).to_string();
        let (soon, over, later) = (NOW + 5_000, NOW - 5_000, NOW + 600_000);
        let at = |at: u64| at.to_string();
        for (words, expected) in [
            (vec!["pexpireat", "k", &at(soon)], format!("PEXPIREAT k {}", shifted(soon))),
            (vec!["PEXPIREAT", "k", &at(over), "GT"], format!("PEXPIREAT k {}", shifted(over))),
            (vec!["PEXPIREAT", "k", &at(later)], format!("PEXPIREAT k {later}")),
            (vec!["EXPIRE", "k", "5"], format!("PEXPIREAT k {}", shifted(soon))),
            (vec!["EXPIREAT", "k", &at(soon / 1_000)], format!("PEXPIREAT k {}", shifted(soon))),
            (vec!["SET", "k", "v", "PXAT", &at(soon)], format!("SET k v | PEXPIREAT k {}", shifted(soon))),
            (vec!["SET", "k", "v", "XX", "ex", "5"], format!("SET k v | PEXPIREAT k {}", shifted(soon))),
            (vec!["SET", "k", "PX", "PXAT", &at(later)], format!("SET k PX | PEXPIREAT k {later}")),
            (vec!["PSETEX", "k", "5000", "v"], format!("SET k v | PEXPIREAT k {}", shifted(soon))),
            (vec!["GETEX", "k", "PX", "5000"], format!("PEXPIREAT k {}", shifted(soon))),
            (
                vec!["RESTORE", "k", &at(over), "payload", "REPLACE", "ABSTTL"],
                format!("RESTORE k {} payload ABSTTL REPLACE", shifted(over)),
            ),
            (vec!["RESTORE", "k", "5000", "payload"], format!("RESTORE k {} payload ABSTTL", shifted(soon))),
            (vec!["RESTORE", "k", "0", "payload", "ABSTTL"], "as it is".into()),
            (vec!["SET", "k", "v"], "as it is".into()),
            (vec!["SET", "k", "v", "KEEPTTL"], "as it is".into()),
            (vec!["PERSIST", "k"], "as it is".into()),
            (vec!["EXPIRE", "k", "no number"], "as it is".into()),
        ] {
            assert_eq!(passed(&mut lifetimes, &words), expected, "{words:?}");
        }
        assert!(lifetimes.lacks_times());
        assert_eq!(passed(&mut lifetimes, &["UNLINK", "other", "k"]), "as it is");
        assert!(!lifetimes.lacks_times());
    }

    #[test]
    fn a_key_is_looked_at_when_its_time_comes_near_and_not_when_that_has_changed() {
        let mut lifetimes = Lifetimes::new(NOW);
        let at = |minutes: u64| (NOW + minutes * 60_000).to_string();
        for (key, minutes) in [("a", 10), ("b", 20), ("b", 40), ("c", 40), ("c", 20)] {
            passed(&mut lifetimes, &["PEXPIREAT", key, &at(minutes)]);
        }
        passed(&mut lifetimes, &["RENAME", "x", "d"]);
        let mut due = |minutes: u64| {
            let mut names: Vec<String> = lifetimes
                .take_due(NOW + minutes * 60_000)
                .into_iter()
                .map(|(name, _)| String::from_utf8_lossy(&name).into())
                .collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!((due(0), due(8), due(9)), ("d".into(), String::new(), "a".into()));
        assert_eq!((due(19), due(38), due(39)), ("c".into(), String::new(), "b".into()));
    }

    #[test]
    fn a_key_that_may_have_expired_and_lives_on_ends_the_move() {
        let mut lifetimes = Lifetimes::new(NOW);
        lifetimes.settled.insert(b"soon"[..].into(), NOW + 500);
        lifetimes.settled.insert(b"later"[..].into(), NOW + 5_000);
        assert!(lifetimes.shift(b"gone"[..].into(), KeyLifetime::Nothing, (NOW, NOW)).is_none());
        assert_eq!(passed(&mut lifetimes, &["INCR", "later"]), "as it is");
        assert!(passed(&mut lifetimes, &["INCR", "soon"]).contains("begun anew"));
        assert!(passed(&mut lifetimes, &["PEXPIREAT", "gone", "7"]).contains("begun anew"));
        // The source says that they are gone: what comes then is another one.
        passed(&mut lifetimes, &["DEL", "soon", "gone"]);
        assert_eq!(passed(&mut lifetimes, &["INCR", "soon"]), "as it is");
        assert_eq!(passed(&mut lifetimes, &["INCR", "gone"]), "as it is");
    }
}
