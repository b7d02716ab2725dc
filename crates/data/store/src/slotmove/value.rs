//! A value on its way: a small one whole, by `RESTORE`; a large one in pieces, by commands that each add a part of it. So neither the
//! mover nor the target ever has much in its hands at once, and the target serves others in between.

use std::io::BufRead;

use keyspace::rdb::listpack;

use super::lifetimes::LifetimeError;
use crate::import::{Problem, rdb, source::Source, value};

/// Values up to this length go whole.
const WHOLE_MAX: usize = 64 << 10;
/// A piece is sent when it has so many bytes, or so many words.
const PIECE_LEN: usize = 64 << 10;
const PIECE_WORDS: usize = 512;
/// Bytes of one `APPEND`.
const APPENDED: usize = 1 << 20;

/// RDB's forms of which the elements stand one behind the other.
mod form {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const QUICKLIST: u8 = 18;
}

/// Takes a command.
pub type Sink<'a> = &'a mut dyn FnMut(&[&[u8]]) -> Result<(), LifetimeError>;

/// Why a value is not sent.
#[derive(Debug)]
pub enum ValueError {
    /// The copy is not right.
    Copy(Problem),
    /// The target takes no more.
    Target(LifetimeError),
}

impl From<Problem> for ValueError {
    fn from(problem: Problem) -> Self {
        Self::Copy(problem)
    }
}

/// Sends the value that comes next in a copy.
pub fn send<R: BufRead>(
    source: &mut Source<R>,
    (key, expires, form): (&[u8], Option<u64>, u8),
    sink: Sink<'_>,
) -> Result<(), ValueError> {
    source.begin_copy(form);
    let command: &[u8] = match form {
        form::LIST | form::QUICKLIST => b"RPUSH",
        form::SET => b"SADD",
        form::HASH => b"HSET",
        form::SORTED_SET => b"ZADD",
        value::QUEUE => {
            drop(source.end_copy());
            value::queue(source, key, |words| sink(words).map_err(ValueError::Target))?;
            return expire(key, expires, sink);
        }
        _ => {
            value::skip(form, source)?;
            let whole = source.end_copy();
            if form == form::STRING && whole.len() > APPENDED {
                return send_string(&whole, key, expires, sink);
            }
            return restore(whole, key, expires, sink);
        }
    };
    let count = source.number()?;
    for taken in 0..count {
        if source.copy_len() > WHOLE_MAX {
            let begun = source.end_copy();
            return in_pieces(source, Begun { key, expires, form, command, begun, taken, count }, sink);
        }
        skip_element(form, source)?;
    }
    restore(source.end_copy(), key, expires, sink)
}

fn restore(value: Vec<u8>, key: &[u8], expires: Option<u64>, sink: Sink<'_>) -> Result<(), ValueError> {
    let payload = rdb::payload(value);
    let at = expires.unwrap_or(0).to_string();
    let words: [&[u8]; 6] = [b"RESTORE", key, at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
    let len = if expires.is_some() { 6 } else { 5 };
    sink(words.get(..len).unwrap_or(&words)).map_err(ValueError::Target)
}

fn send_string(value: &[u8], key: &[u8], expires: Option<u64>, sink: Sink<'_>) -> Result<(), ValueError> {
    let text = Source::new(value.get(1..).unwrap_or_default()).string()?;
    sink(&[b"DEL", key]).map_err(ValueError::Target)?;
    for piece in text.chunks(APPENDED) {
        sink(&[b"APPEND", key, piece]).map_err(ValueError::Target)?;
    }
    expire(key, expires, sink)
}

fn expire(key: &[u8], expires: Option<u64>, sink: Sink<'_>) -> Result<(), ValueError> {
    let Some(at) = expires.map(|at| at.to_string()) else { return Ok(()) };
    sink(&[b"PEXPIREAT", key, at.as_bytes()]).map_err(ValueError::Target)
}

fn skip_element<R: BufRead>(form: u8, source: &mut Source<R>) -> Result<(), Problem> {
    match form {
        form::HASH => source.skip_string().and_then(|()| source.skip_string()),
        form::SORTED_SET => source.skip_string().and_then(|()| source.skip(8)),
        form::QUICKLIST => source.number().and_then(|_| source.skip_string()),
        _ => source.skip_string(),
    }
}

/// A value that has turned out to be large.
struct Begun<'a> {
    key: &'a [u8],
    expires: Option<u64>,
    form: u8,
    command: &'a [u8],
    /// What was copied of it: the form, the number of elements, and those that were taken.
    begun: Vec<u8>,
    taken: u64,
    count: u64,
}

fn in_pieces<R: BufRead>(source: &mut Source<R>, value: Begun<'_>, sink: Sink<'_>) -> Result<(), ValueError> {
    sink(&[b"DEL", value.key]).map_err(ValueError::Target)?;
    let mut piece = Piece { words: Vec::new(), len: 0 };
    let mut begun = Source::new(value.begun.get(1..).unwrap_or_default());
    begun.number()?;
    for _ in 0..value.taken {
        take_element(value.form, &mut begun, &mut piece)?;
        piece.send_if_full(&value, sink)?;
    }
    for _ in value.taken..value.count {
        take_element(value.form, source, &mut piece)?;
        piece.send_if_full(&value, sink)?;
    }
    piece.send(&value, sink)?;
    expire(value.key, value.expires, sink)
}

/// Words of a command that is being gathered.
struct Piece {
    words: Vec<Vec<u8>>,
    len: usize,
}

impl Piece {
    fn push(&mut self, word: Vec<u8>) {
        self.len += word.len();
        self.words.push(word);
    }

    fn send_if_full(&mut self, value: &Begun<'_>, sink: Sink<'_>) -> Result<(), ValueError> {
        if self.len >= PIECE_LEN || self.words.len() >= PIECE_WORDS { self.send(value, sink) } else { Ok(()) }
    }

    fn send(&mut self, value: &Begun<'_>, sink: Sink<'_>) -> Result<(), ValueError> {
        if !self.words.is_empty() {
            let words: Vec<&[u8]> =
                [value.command, value.key].into_iter().chain(self.words.iter().map(Vec::as_slice)).collect();
            sink(&words).map_err(ValueError::Target)?;
            self.words.clear();
            self.len = 0;
        }
        Ok(())
    }
}

fn take_element<R: BufRead>(form: u8, source: &mut Source<R>, piece: &mut Piece) -> Result<(), Problem> {
    /// What a node of a list is: an element by itself.
    const PLAIN: u64 = 1;
    match form {
        form::HASH => {
            piece.push(source.string()?);
            piece.push(source.string()?);
        }
        form::SORTED_SET => {
            let member = source.string()?;
            let score = f64::from_le_bytes(source.array()?);
            // The shortest text that is read as the same number.
            piece.push(score.to_string().into_bytes());
            piece.push(member);
        }
        form::QUICKLIST => {
            let kind = source.number()?;
            let node = source.string()?;
            if kind == PLAIN {
                piece.push(node);
                return Ok(());
            }
            let wrong = |_| Problem::Format(source.at, "a node of a list");
            for element in listpack::elements(&node).map_err(wrong)? {
                piece.push(element.map_err(wrong)?.text().into_owned());
            }
        }
        _ => piece.push(source.string()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> Vec<u8> {
        // A length of 32 bits.
        let mut out = vec![0x80];
        out.extend((text.len() as u32).to_be_bytes());
        out.extend(text);
        out
    }

    fn sent(form: u8, value: &[u8], expires: Option<u64>) -> Vec<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        let mut source = Source::new(value);
        send(&mut source, (b"k", expires, form), &mut |words| {
            commands.push(words.iter().map(|word| word.to_vec()).collect());
            Ok(())
        })
        .unwrap();
        assert!(source.is_at_end().unwrap(), "all of the value is read");
        commands
    }

    fn count(elements: u32) -> Vec<u8> {
        let mut out = vec![0x80];
        out.extend(elements.to_be_bytes());
        out
    }

    #[test]
    fn a_small_value_goes_whole() {
        let mut value = count(1);
        value.extend(string(b"f"));
        value.extend(string(b"v"));
        let commands = sent(4, &value, Some(77));
        assert_eq!(commands.len(), 1);
        assert_eq!(
            (&commands[0][0][..], &commands[0][2][..], &commands[0][5][..]),
            (&b"RESTORE"[..], &b"77"[..], &b"ABSTTL"[..])
        );
        assert_eq!(sent(0, &string(b"v"), None)[0].len(), 5);
    }

    #[test]
    fn a_large_value_goes_in_pieces_and_nothing_of_it_is_lost() {
        let elements = 20_000;
        for (form, command, words) in [(1, "RPUSH", 1), (2, "SADD", 1), (4, "HSET", 2), (5, "ZADD", 2)] {
            let mut value = count(elements);
            let mut expected = Vec::new();
            for number in 0..elements {
                let name = format!("member:{number}").into_bytes();
                value.extend(string(&name));
                match form {
                    4 => {
                        value.extend(string(b"value"));
                        expected.extend([name, b"value".to_vec()]);
                    }
                    5 => {
                        value.extend((f64::from(number) / 4.0).to_le_bytes());
                        expected.extend([(f64::from(number) / 4.0).to_string().into_bytes(), name]);
                    }
                    _ => expected.push(name),
                }
            }
            let commands = sent(form, &value, Some(9));
            assert_eq!(commands.first().unwrap()[0], b"DEL");
            assert_eq!(commands.last().unwrap()[..], [b"PEXPIREAT".to_vec(), b"k".to_vec(), b"9".to_vec()]);
            let pieces = &commands[1..commands.len() - 1];
            let longest = pieces.iter().map(Vec::len).max().unwrap();
            assert!(longest <= PIECE_WORDS + 3 && pieces.len() > 10, "{longest} {}", pieces.len());
            assert!(pieces.iter().all(|piece| piece[0] == command.as_bytes() && (piece.len() - 2) % words == 0));
            let found: Vec<Vec<u8>> = pieces.iter().flat_map(|piece| piece[2..].to_vec()).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn nodes_of_a_list_and_long_strings_are_cut() {
        let mut value = count(300);
        for number in 0..300 {
            let mut node = listpack::Builder::default();
            node.push(format!("{number}").as_bytes());
            node.push(&[b'x'; 500]);
            value.extend([2]);
            value.extend(string(&node.finish()));
        }
        let commands = sent(18, &value, None);
        let found: Vec<Vec<u8>> = commands[1..].iter().flat_map(|piece| piece[2..].to_vec()).collect();
        assert_eq!((found.len(), &found[598][..]), (600, &b"299"[..]));
        let text = vec![b'y'; 3 * APPENDED + 5];
        let commands = sent(0, &string(&text), None);
        assert_eq!(commands.len(), 5);
        assert_eq!(commands[1..].iter().map(|words| words[2].len()).sum::<usize>(), text.len());
    }
}
