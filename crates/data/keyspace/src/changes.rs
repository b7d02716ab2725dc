//! What a command changed: for the log, for those who watch, for those who wait.

use std::{ops::Range, rc::Rc};

use bitflags::bitflags;

use crate::{Bytes, received_query::ReceivedQuery};

bitflags! {
    /// Classes of keyspace events (`notify-keyspace-events`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct EventClass: u16 {
        /// `K`: published as `__keyspace@db__:key`.
        const KEYSPACE = 1;
        /// `E`: published as `__keyevent@db__:event`.
        const KEYEVENT = 1 << 1;
        /// `g`: commands of no type, as DEL and EXPIRE.
        const GENERIC = 1 << 2;
        /// `$`.
        const STRING = 1 << 3;
        /// `l`.
        const LIST = 1 << 4;
        /// `s`.
        const SET = 1 << 5;
        /// `h`.
        const HASH = 1 << 6;
        /// `z`.
        const SORTED_SET = 1 << 7;
        /// `x`.
        const EXPIRED = 1 << 8;
        /// `e`.
        const EVICTED = 1 << 9;
        /// `t`.
        const STREAM = 1 << 10;
        /// `m`.
        const KEY_MISS = 1 << 11;
        /// `q`, which Redis does not have.
        const QUEUE = 1 << 12;
        /// `n`.
        const NEW = 1 << 13;
    }
}

/// A keyspace event.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name.
    pub name: &'static str,
    /// The key.
    pub key: Bytes,
    /// The key's database.
    pub db: usize,
}

/// A command to propagate, in words.
pub type Words = Vec<Bytes>;

/// Commands as the log has them, made bit by bit.
#[derive(Debug, Default)]
pub struct Encoded {
    /// Pieces that are whole, and one that goes on: growing does not move what is there.
    pieces: Vec<EffectBytes>,
    last: Vec<u8>,
    count: u64,
}

/// From so many bytes on a piece is not added to.
const PIECE_FROM: usize = 256 * 1024;

impl Encoded {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.last.is_empty()
    }

    /// Begins a command of so many words.
    pub fn command(&mut self, words: usize) {
        self.count += 1;
        resp::encode_command_header(self.piece(), words);
    }

    /// The next word of the command.
    pub fn word(&mut self, word: &[u8]) {
        resp::encode_argument(self.piece(), word);
    }

    /// The same with one that came so, in the query that is given: it is not copied if it is long.
    pub fn received_word(&mut self, sent: Option<&Rc<ReceivedQuery>>, place: usize, word: &[u8]) {
        let found = sent.and_then(|sent| Some((sent, sent.place(place)?)));
        match found.filter(|(_, range)| word.len() > LONG_WORD && range.len() == word.len()) {
            Some((sent, range)) => {
                self.last.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                self.pieces.push(EffectBytes::Made(std::mem::take(&mut self.last)));
                self.pieces.push(EffectBytes::Received(Rc::clone(sent), range));
                self.last.extend_from_slice(b"\r\n");
            }
            None => self.word(word),
        }
    }

    /// The piece that goes on.
    fn piece(&mut self) -> &mut Vec<u8> {
        if self.last.len() >= PIECE_FROM {
            self.pieces.push(EffectBytes::Made(std::mem::take(&mut self.last)));
        }
        &mut self.last
    }

    /// A whole command.
    pub fn push(&mut self, words: &[Bytes]) {
        self.command(words.len());
        words.iter().for_each(|word| self.word(word));
    }
}

/// The changes of the commands that have run since they were last taken.
#[derive(Debug, Default)]
pub struct Changes {
    /// How many changes there were, ever: `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
    /// Keys that changed, by database. Filled only while `watched`.
    pub modified: Vec<(usize, Bytes)>,
    /// Whether anybody wants to know of `modified`: watches, tracking, blocked clients.
    pub watched: bool,
    /// All keys of a database were removed at once.
    pub flushed: bool,
    /// Events that somebody may hear.
    pub events: Vec<Event>,
    /// The classes that are published.
    pub classes: EventClass,
    /// Propagated instead of the command as it came.
    pub instead: Option<Vec<Words>>,
    /// The same in the form that the log has.
    pub encoded: Option<Encoded>,
    /// Commands that took effect before the one in run: keys that it found expired.
    pub before: Vec<(usize, Words)>,
}

impl Changes {
    /// Notes an event.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8], db: usize) {
        if self.classes.intersects(class) {
            self.events.push(Event { class, name, key: Bytes::from_slice(key), db });
        }
    }

    /// Says what to propagate instead of the command in run; without words nothing is.
    pub fn propagate_instead(&mut self, commands: Vec<Words>) {
        self.instead = Some(commands);
    }

    /// The same with commands that are in the log's form.
    pub fn propagate_encoded(&mut self, commands: Encoded) {
        self.instead = Some(Vec::new());
        self.encoded = Some(commands);
    }
}

/// How much room effects keep when a turn needed less.
const BYTES_KEPT: usize = 64 * 1024;
/// How much room they keep at most.
const BYTES_KEPT_MAX: usize = 4 * 1024 * 1024;

/// From how many bytes on a word has room made for it.
const LONG_WORD: usize = 1 << 20;
/// What stands around it, and behind it.
const WORD_BESIDE: usize = 64;

/// Some of them.
#[derive(Debug)]
enum EffectBytes {
    Made(Vec<u8>),
    /// A long word, where it came.
    Received(Rc<ReceivedQuery>, Range<usize>),
}

impl EffectBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Made(bytes) => bytes,
            Self::Received(sent, place) => sent.bytes().get(place.clone()).unwrap_or_default(),
        }
    }
}

/// The log's bytes of a tick: commands in order, each under the database that was selected.
#[derive(Debug, Default)]
pub struct Effects {
    /// What is in front of the rest: long commands are not copied together.
    parts: Vec<EffectBytes>,
    bytes: Vec<u8>,
    selected: Option<usize>,
    count: u64,
    /// Groups within groups: a script in a transaction is part of it.
    depth: usize,
}

/// The beginning of a group.
#[derive(Debug)]
pub struct Group {
    at: usize,
    count: u64,
}

impl Effects {
    /// Appends a command on a database.
    pub fn push<'a>(&mut self, db: usize, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.select(db);
        self.count += 1;
        resp::encode_command_header(&mut self.bytes, words.len());
        words.for_each(|word| {
            if word.len() > LONG_WORD && word.len() > self.bytes.len() {
                // As much as it takes: growing as ever would take up to twice of it.
                self.bytes.reserve_exact(word.len() + WORD_BESIDE);
            }
            resp::encode_argument(&mut self.bytes, word);
        });
    }

    /// Appends a command on a database that came so, if it is known where.
    pub fn push_received(&mut self, db: usize, words: &[&[u8]], sent: Option<&Rc<ReceivedQuery>>) {
        let long = words.iter().any(|word| word.len() > LONG_WORD);
        let Some(sent) = sent.filter(|_| long && self.depth == 0) else {
            return self.push(db, words.iter().copied());
        };
        let mut command = Encoded::default();
        command.command(words.len());
        words.iter().enumerate().for_each(|(place, word)| command.received_word(Some(sent), place, word));
        self.push_encoded(db, command);
    }

    /// Appends commands on a database that are in the log's form.
    pub fn push_encoded(&mut self, db: usize, commands: Encoded) {
        if commands.is_empty() {
            return;
        }
        self.select(db);
        self.count += commands.count;
        if self.depth == 0 && !commands.pieces.is_empty() {
            self.parts.push(EffectBytes::Made(std::mem::take(&mut self.bytes)));
            self.parts.extend(commands.pieces);
        } else {
            commands.pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece.bytes()));
        }
        self.bytes.extend_from_slice(&commands.last);
    }

    fn select(&mut self, db: usize) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            let number = crate::number::integer_bytes(db as i64);
            resp::encode_command(&mut self.bytes, &[b"SELECT".as_slice(), &number]);
        }
    }

    /// Begins a group of commands that take effect together.
    pub fn begin(&mut self) -> Group {
        self.depth += 1;
        Group { at: self.bytes.len(), count: self.count }
    }

    /// Ends a group: more than one command go between MULTI and EXEC.
    pub fn end(&mut self, group: Group) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 || self.count - group.count < 2 {
            return;
        }
        // MULTI stands before the first SELECT, as EXEC stands behind all.
        let tail = self.bytes.split_off(group.at);
        resp::encode_command(&mut self.bytes, &["MULTI"]);
        self.bytes.extend_from_slice(&tail);
        resp::encode_command(&mut self.bytes, &["EXEC"]);
    }

    /// Takes a group back that has not come to its end.
    pub fn discard(&mut self, group: &Group) {
        self.bytes.truncate(group.at);
        self.count = group.count;
        self.selected = None;
    }

    /// Whether nothing took effect.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.parts.is_empty()
    }

    /// How many bytes there are so far.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.bytes().len()).sum::<usize>() + self.bytes.len()
    }

    /// The bytes, one part after the other.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.parts.iter().map(EffectBytes::bytes).chain([self.bytes.as_slice()])
    }

    /// The bytes so far, in one piece.
    pub fn bytes(&mut self) -> &[u8] {
        if !self.parts.is_empty() {
            self.bytes = self.parts().collect::<Vec<_>>().concat();
            self.parts.clear();
        }
        &self.bytes
    }

    /// Forgets the bytes. The next command names its database again, so that the log can be read from there.
    pub fn clear(&mut self) {
        self.parts = Vec::new();
        let (len, room) = (self.bytes.len(), self.bytes.capacity());
        self.bytes.clear();
        // One turn with much to tell does not take its room for ever; turns that all have much keep theirs.
        if room > BYTES_KEPT && (len < room / 8 || room > BYTES_KEPT_MAX) {
            self.bytes.shrink_to(BYTES_KEPT);
        }
        self.selected = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room after a turn of so many bytes.
    fn room_after(effects: &mut Effects, len: usize) -> usize {
        let value = vec![b'x'; len];
        effects.push(0, [b"SET".as_slice(), b"key", &value].into_iter());
        assert!(effects.bytes().len() > len);
        effects.clear();
        assert!(effects.is_empty());
        effects.bytes.capacity()
    }

    #[test]
    fn room_for_much_stays_as_long_as_there_is_much() {
        let mut effects = Effects::default();
        let large = room_after(&mut effects, 1 << 20);
        assert!(large > 1 << 20);
        assert_eq!(room_after(&mut effects, 1 << 20), large);
        assert_eq!(room_after(&mut effects, 1 << 19), large);
        assert!(room_after(&mut effects, 10) <= BYTES_KEPT);
        assert!(room_after(&mut effects, 2 * BYTES_KEPT_MAX) <= BYTES_KEPT, "so much does not stay at all");
    }
}
