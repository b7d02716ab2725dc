//! Elements that a command needs and the cache of the tables may not have.
//!
//! Elements that are records are read in place, as long as that is quick: the tables have a cache. When whoever reads them finds
//! that the disk is slow ([`Keyspace::set_cold`](keyspace::Keyspace::set_cold)), the elements that a command names, and the
//! entries of a stream that it begins with, are read off the loop first, which brings them into that cache, and then the command
//! runs.

use keyspace::{
    Collection, Keys, Value,
    value::{Stream, stream::Id},
};

use crate::{Session, SessionId};

use super::Server;

/// Elements to be read off the loop, for a client that waits.
#[derive(Debug)]
pub struct Warmup {
    /// Who waits.
    pub session: SessionId,
    /// The elements of which collection.
    pub of: Collection,
    /// What of them.
    pub what: Wanted,
}

/// Which elements are to be read.
#[derive(Debug)]
pub enum Wanted {
    /// Those of these names.
    Named(Vec<Vec<u8>>),
    /// So many from a name on, in a direction.
    Some {
        /// The name.
        from: Vec<u8>,
        /// Whether they are those before it.
        backwards: bool,
        /// How many.
        count: usize,
    },
}

/// Commands whose words name elements: from which word on, and each how many words. More than elements does no harm.
const NAMES_ELEMENTS: &[(&str, usize, usize)] = &[
    ("HDEL", 2, 1),
    ("HEXISTS", 2, usize::MAX),
    ("HGET", 2, usize::MAX),
    ("HINCRBY", 2, usize::MAX),
    ("HINCRBYFLOAT", 2, usize::MAX),
    ("HMGET", 2, 1),
    ("HMSET", 2, 2),
    ("HSET", 2, 2),
    ("HSETNX", 2, usize::MAX),
    ("HSTRLEN", 2, usize::MAX),
    ("SADD", 2, 1),
    ("SISMEMBER", 2, usize::MAX),
    ("SMISMEMBER", 2, 1),
    ("SMOVE", 3, usize::MAX),
    ("SREM", 2, 1),
    ("ZADD", 3, 1),
    ("ZINCRBY", 3, usize::MAX),
    ("ZMSCORE", 2, 1),
    ("ZRANK", 2, usize::MAX),
    ("ZREM", 2, 1),
    ("ZREVRANK", 2, usize::MAX),
    ("ZSCORE", 2, usize::MAX),
];
/// Commands that name entries of a stream: from which word on.
const NAMES_ENTRIES: &[(&str, usize)] = &[("XACK", 3), ("XCLAIM", 5), ("XDEL", 2)];
/// How many elements of a command are read together; it reads others itself.
const WARMUP_MAX: usize = 1_000;

/// So many nodes of a stream are looked for at the same time.
const NODES_MAX: usize = 16;
/// So many nodes of a range are read that follow each other.
const NODES_OF_RANGE: usize = 4;

impl Server {
    /// Asks for the elements of a collection that a command begins with, if they are records. The key is one of its words.
    pub(super) fn ask_for_elements(&mut self, session: &mut Session, command: &str, place: usize, words: &[&[u8]]) {
        let Some(key) = words.get(place) else { return };
        let keys = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes);
        let mut wanted = Vec::new();
        match keys.held(key) {
            Some(Value::Stream(stream)) => of_stream(stream, command, place, words, &mut wanted),
            Some(value) => {
                if let Some(named) = value.named()
                    && let Some((_, first, step)) = NAMES_ELEMENTS.iter().find(|(name, ..)| *name == command)
                {
                    let names = words.iter().skip(*first).step_by(*step).take(WARMUP_MAX);
                    let names = names.map(|name| named.record(name)).collect();
                    wanted.push((named.elements().collection(), Wanted::Named(names)));
                }
            }
            None => {}
        }
        session.loading += wanted.len();
        self.warmups.extend(wanted.into_iter().map(|(of, what)| Warmup { session: session.id, of, what }));
    }

    /// The elements to be read since this was asked last. Each answer is told by [`warmed`](Self::warmed).
    pub fn take_warmups(&mut self, warmups: &mut Vec<Warmup>) {
        warmups.append(&mut self.warmups);
    }

    /// Elements were read that a client waits for, or cannot be: its command finds out.
    pub fn warmed(&mut self, id: SessionId) {
        let Some(session) = self.shared.session_mut(id) else { return };
        session.loading = session.loading.saturating_sub(1);
        if session.loading == 0 {
            self.shared.schedule.runnable.push_back(id);
        }
    }
}

/// An id among the words; nothing if it is none, which the command says itself.
fn id_in(word: &[u8]) -> Option<Id> {
    match word {
        b"-" => Some(Id::MIN),
        b"+" => Some(Id::MAX),
        _ => Id::parse(word.strip_prefix(b"(").unwrap_or(word), 0),
    }
}

fn of_stream(stream: &Stream, command: &str, place: usize, words: &[&[u8]], wanted: &mut Vec<(Collection, Wanted)>) {
    let mut want_nodes = |id: Id, backwards: bool, count: usize| {
        if let Some((of, from)) = stream.record_of(id) {
            wanted.push((of, Wanted::Some { from, backwards, count }));
        }
    };
    // The node that an id is in begins with it or before it.
    match command {
        "XRANGE" | "XREAD" | "XREADGROUP" => {
            if let Some(id) = begin_of(stream, command, place, words) {
                want_nodes(id, true, 1);
                want_nodes(id, false, NODES_OF_RANGE);
            }
        }
        "XREVRANGE" => {
            if let Some(id) = words.get(2).and_then(|word| id_in(word)) {
                want_nodes(id, true, NODES_OF_RANGE);
            }
        }
        _ => {
            let Some((_, first)) = NAMES_ENTRIES.iter().find(|(name, _)| *name == command) else { return };
            let ids: Vec<Id> = words.iter().skip(*first).take(WARMUP_MAX).map_while(|word| id_in(word)).collect();
            if command != "XACK" {
                ids.iter().take(NODES_MAX).for_each(|id| want_nodes(*id, true, 1));
            }
            let group = words.get(2).filter(|_| command != "XDEL").and_then(|name| stream.groups.get(*name));
            wanted.extend(group.and_then(|group| group.records_of(&ids)).map(|(of, names)| (of, Wanted::Named(names))));
        }
    }
}

/// The id that a reading command begins at, or behind.
fn begin_of(stream: &Stream, command: &str, place: usize, words: &[&[u8]]) -> Option<Id> {
    if command == "XRANGE" {
        return id_in(words.get(2)?);
    }
    // The ids stand behind the keys, one for each.
    let streams = words.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"))?;
    match words.get(place + words.len().saturating_sub(streams + 1) / 2) {
        Some(&b">") => stream.groups.get(*words.get(2)?).map(|group| group.last),
        word => id_in(word?),
    }
}
