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

use crate::{Session, SessionId, table::ElementWords};

use super::{Command, Request, Server};

/// Elements to be read off the loop, for a client that waits.
#[derive(Debug)]
pub struct Warmup {
    /// Who waits.
    pub session: SessionId,
    /// The elements of which collection.
    pub of: Collection,
    /// What of them.
    pub what: WantedElements,
}

/// Which elements are to be read.
#[derive(Debug)]
pub enum WantedElements {
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

/// How many elements of a command are read together; it reads others itself.
const WARMUP_MAX: usize = 1_000;

/// So many nodes of a stream are looked for at the same time.
const NODES_MAX: usize = 16;
/// So many nodes of a range are read that follow each other.
const NODES_OF_RANGE: usize = 4;

impl Server {
    /// Asks for the elements of a collection that a command begins with, if they are records. The key is one of its words.
    pub(super) fn ask_for_elements(&mut self, session: &mut Session, command: &Command, place: usize, words: &[&[u8]]) {
        let Some(elements) = command.elements else { return };
        let Some(key) = words.get(place) else { return };
        let keys = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes);
        let mut wanted = Vec::new();
        match keys.held(key) {
            Some(Value::Stream(stream)) => of_stream(stream, elements, place, words, &mut wanted),
            Some(value) => {
                if let Some(named) = value.named()
                    && let ElementWords::Names { first, step } = elements
                {
                    let names = words.iter().skip(first).step_by(step).take(WARMUP_MAX);
                    let names = names.map(|name| named.record(name)).collect();
                    wanted.push((named.elements().collection(), WantedElements::Named(names)));
                }
            }
            None => {}
        }
        session.loading += wanted.len();
        for (of, what) in wanted {
            self.shared.outbox.push(Request::Warm(Warmup { session: session.id, of, what }));
        }
    }

    /// Elements were read that a client waits for, or cannot be: its command finds out.
    pub fn warmed(&mut self, id: SessionId) {
        let Some(session) = self.shared.sessions.get_mut(id) else { return };
        session.loading = session.loading.saturating_sub(1);
        if session.loading == 0 {
            self.shared.sessions.schedule.runnable.push_back(id);
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

/// The nodes of a stream that a command reads, and what is pending in its group.
fn of_stream(
    stream: &Stream,
    elements: ElementWords,
    place: usize,
    words: &[&[u8]],
    wanted: &mut Vec<(Collection, WantedElements)>,
) {
    let mut want_nodes = |id: Id, backwards: bool, count: usize| {
        if let Some((of, from)) = stream.record_of(id) {
            wanted.push((of, WantedElements::Some { from, backwards, count }));
        }
    };
    let begin = match elements {
        ElementWords::Range { .. } => words.get(2).and_then(|word| id_in(word)),
        ElementWords::Streams => read_from(stream, place, words),
        ElementWords::Names { .. } | ElementWords::Entries { .. } => None,
    };
    match elements {
        ElementWords::Range { backwards: true } => {
            if let Some(id) = begin {
                want_nodes(id, true, NODES_OF_RANGE);
            }
        }
        ElementWords::Range { backwards: false } | ElementWords::Streams => {
            if let Some(id) = begin {
                // The node that an id is in begins with it or before it.
                want_nodes(id, true, 1);
                want_nodes(id, false, NODES_OF_RANGE);
            }
        }
        ElementWords::Entries { first, are_read, are_pending } => {
            let ids: Vec<Id> = words.iter().skip(first).take(WARMUP_MAX).map_while(|word| id_in(word)).collect();
            if are_read {
                ids.iter().take(NODES_MAX).for_each(|id| want_nodes(*id, true, 1));
            }
            let group = words.get(2).filter(|_| are_pending).and_then(|name| stream.groups.get(*name));
            wanted.extend(
                group.and_then(|group| group.records_of(&ids)).map(|(of, names)| (of, WantedElements::Named(names))),
            );
        }
        ElementWords::Names { .. } => {}
    }
}

/// The id behind which a stream is read.
fn read_from(stream: &Stream, place: usize, words: &[&[u8]]) -> Option<Id> {
    // The ids stand behind the keys, one for each.
    let streams = words.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"))?;
    match words.get(place + words.len().saturating_sub(streams + 1) / 2) {
        Some(&b">") => stream.groups.get(*words.get(2)?).map(|group| group.last),
        word => id_in(word?),
    }
}
