//! The answer to a command that went to several servers.

use resp::{Protocol, Reply};

use super::scan::Walk;
use crate::{
    frame::{bulk, elements, integer},
    route::Merge,
};

/// Replies that are to become one.
#[derive(Debug)]
pub struct Gathering {
    merge: Merge,
    /// By part.
    replies: Vec<Option<Vec<u8>>>,
    missing: usize,
    /// For [`Merge::InOrder`]: the part of each element of the answer.
    parts: Vec<u32>,
    /// Parts that went on as several: which, the number of their first part, and what there is of these.
    nested: Vec<(u32, u32, Gathering)>,
}

impl Gathering {
    /// Of so many parts; `parts` says which one each element of the answer comes from, where that matters.
    pub fn new(merge: Merge, count: usize, parts: Vec<u32>) -> Self {
        Self { merge, replies: vec![None; count], missing: count, parts, nested: Vec::new() }
    }

    /// Has a part go on as several. Returns the number of the first of these; the others follow it.
    pub fn nest(&mut self, part: u32, gathering: Self) -> u32 {
        let last = self.nested.last().map(|(_, first, nested)| first + nested.replies.len() as u32);
        let first = last.unwrap_or(self.replies.len() as u32);
        self.nested.push((part, first, gathering));
        first
    }

    /// The reply to a part of a part that is whole by now.
    fn take_nested(&mut self, part: u32, reply: &[u8]) -> Option<(u32, Vec<u8>)> {
        let range = |first: u32, nested: &Self| first..first + nested.replies.len() as u32;
        let (of, first, nested) =
            self.nested.iter_mut().find(|(_, first, nested)| range(*first, nested).contains(&part))?;
        if !nested.take(part - *first, reply) {
            return None;
        }
        let whole = std::mem::replace(
            nested,
            Self { replies: vec![None; nested.replies.len()], ..Self::new(nested.merge, 0, Vec::new()) },
        );
        let mut out = Vec::new();
        whole.write(&mut out);
        Some((*of, out))
    }

    /// Takes the reply to a part; `true` once it is the last.
    pub fn take(&mut self, part: u32, reply: &[u8]) -> bool {
        if part as usize >= self.replies.len() {
            let whole = self.take_nested(part, reply);
            return whole.is_some_and(|(part, reply)| self.take(part, &reply));
        }
        if let Some(place) = self.replies.get_mut(part as usize)
            && place.replace(reply.to_vec()).is_none()
        {
            self.missing -= 1;
        }
        self.missing == 0
    }

    /// Appends the answer. An error of any part is the answer to all.
    pub fn write(self, out: &mut Vec<u8>) {
        let Self { merge, replies, parts, .. } = self;
        let replies: Vec<Vec<u8>> = replies.into_iter().flatten().collect();
        let is_partial = merge == Merge::Information;
        if !is_partial && let Some(error) = replies.iter().find(|reply| reply.first() == Some(&b'-')) {
            out.extend_from_slice(error);
            return;
        }
        let written = out.len();
        if merged(merge, &replies, &parts, out).is_none() {
            out.truncate(written);
            Reply::new(out, Protocol::Resp2)
                .error("ERR servers gave replies that do not fit together: are they all Redis?");
        }
    }
}

/// `None` where replies are not what they have to be.
fn merged(merge: Merge, replies: &[Vec<u8>], parts: &[u32], out: &mut Vec<u8>) -> Option<()> {
    match merge {
        Merge::Sum => {
            let sum = replies.iter().map(|reply| integer(reply)).sum::<Option<i64>>()?;
            Reply::new(out, Protocol::Resp2).integer(sum);
        }
        Merge::Same => out.extend_from_slice(replies.first()?),
        Merge::InOrder => {
            let mut elements =
                replies.iter().map(|reply| Some(elements(reply)?.into_iter())).collect::<Option<Vec<_>>>()?;
            Reply::new(out, Protocol::Resp2).array(parts.len());
            for part in parts {
                out.extend_from_slice(elements.get_mut(*part as usize)?.next()?);
            }
        }
        Merge::Joined => {
            let arrays = replies.iter().map(|reply| elements(reply)).collect::<Option<Vec<_>>>()?;
            Reply::new(out, Protocol::Resp2).array(arrays.iter().map(Vec::len).sum());
            arrays.into_iter().flatten().for_each(|element| out.extend_from_slice(element));
        }
        Merge::Information => {
            Reply::new(out, Protocol::Resp2).bulk(super::information::merged(replies).as_bytes());
        }
        Merge::AnyOne => {
            let some: Vec<&Vec<u8>> = replies.iter().filter(|reply| bulk(reply).is_some()).collect();
            // NOTE: which one is by chance enough: each server has drawn its own.
            let length = some.first().map_or(0, |reply| reply.len());
            let place = length.checked_rem(some.len().max(1)).unwrap_or(0);
            out.extend_from_slice(some.get(place).copied().or(replies.first())?);
        }
        Merge::Least => {
            let arrays = replies.iter().map(|reply| elements(reply)).collect::<Option<Vec<_>>>()?;
            let count = arrays.first()?.len();
            Reply::new(out, Protocol::Resp2).array(count);
            for place in 0..count {
                let numbers = arrays.iter().map(|array| integer(array.get(place)?)).collect::<Option<Vec<_>>>()?;
                Reply::new(out, Protocol::Resp2).integer(numbers.into_iter().min()?);
            }
        }
    }
    Some(())
}

/// The reply to `SCAN` for the client: the cursor has the number of the server in it.
pub fn scanned(reply: &[u8], walk: Walk, out: &mut Vec<u8>) {
    let parts = elements(reply);
    let cursor = parts.as_ref().and_then(|parts| std::str::from_utf8(bulk(parts.first()?)?).ok()?.parse::<u64>().ok());
    let (Some(parts), Some(cursor)) = (parts, cursor) else {
        // An error, most likely.
        out.extend_from_slice(reply);
        return;
    };
    let next = match cursor {
        0 => Some(walk.next.map_or(0, |server| walk.kind + server as u64)),
        cursor => {
            let cursor = cursor.checked_mul(walk.servers as u64);
            // What is above all positions stays there.
            let cursor = cursor.filter(|cursor| walk.kind == 0 || *cursor < walk.kind);
            cursor.and_then(|cursor| cursor.checked_add(walk.server as u64 + walk.kind))
        }
    };
    let mut reply = Reply::new(out, Protocol::Resp2);
    let Some(next) = next else {
        reply.error("ERR the server's cursor is too large to be passed on by a proxy");
        return;
    };
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.raw(parts.get(1).copied().unwrap_or(b"*0\r\n"));
}

/// The server and its own cursor, out of one that a client has.
pub fn cursor_of(cursor: u64, servers: usize) -> (usize, u64) {
    let servers = servers.max(1) as u64;
    (usize::try_from(cursor % servers).unwrap_or(0), cursor / servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(merge: Merge, parts: &[u32], replies: &[&str]) -> String {
        let mut gathering = Gathering::new(merge, replies.len(), parts.to_vec());
        for (part, reply) in replies.iter().enumerate().rev() {
            assert_eq!(gathering.take(part as u32, reply.as_bytes()), part == 0);
        }
        let mut out = Vec::new();
        gathering.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_become_one() {
        assert_eq!(answer(Merge::Sum, &[], &[":1\r\n", ":41\r\n"]), ":42\r\n");
        assert_eq!(answer(Merge::Same, &[], &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        let halves = ["*2\r\n$1\r\na\r\n$-1\r\n", "*1\r\n$1\r\nb\r\n"];
        assert_eq!(answer(Merge::InOrder, &[0, 1, 0], &halves), "*3\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n");
        assert_eq!(answer(Merge::Joined, &[], &halves), "*3\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n");
        assert_eq!(answer(Merge::AnyOne, &[], &["$-1\r\n", "$1\r\na\r\n"]), "$1\r\na\r\n");
        assert_eq!(answer(Merge::AnyOne, &[], &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
        assert_eq!(answer(Merge::Least, &[], &["*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n:1\r\n"]), "*2\r\n:1\r\n:0\r\n");
    }

    #[test]
    fn an_error_of_any_part_is_the_answer() {
        assert_eq!(answer(Merge::Sum, &[], &[":1\r\n", "-OOM no\r\n"]), "-OOM no\r\n");
        assert!(answer(Merge::Sum, &[], &[":1\r\n", "+OK\r\n"]).starts_with("-ERR servers gave"));
        assert!(answer(Merge::InOrder, &[0, 0], &["*1\r\n:1\r\n"]).starts_with("-ERR servers gave"));
    }

    #[test]
    fn cursors_carry_the_server() {
        let next = |cursor: &str, server| {
            let mut out = Vec::new();
            scanned(
                format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len()).as_bytes(),
                Walk { server, servers: 3, next: Some(server + 1).filter(|next| *next < 3), kind: 0 },
                &mut out,
            );
            let parts = elements(&out).unwrap();
            std::str::from_utf8(bulk(parts[0]).unwrap()).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(cursor_of(next("7", 2), 3), (2, 7));
        assert_eq!(cursor_of(next("0", 0), 3), (1, 0));
        assert_eq!(next("0", 2), 0);
    }
}
