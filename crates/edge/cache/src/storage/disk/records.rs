//! The journal as bytes: docs/formats/cache-journal.md.

use std::sync::Arc;

use http::{ResponseHead, Version};
use smallvec::SmallVec;

use super::{chunk::StoredChunk, space::Extent};
use crate::{
    index::Digest,
    object::{Lifetime, Variant},
};

const MAGIC: &[u8; 8] = b"TIDECACH";
const VERSION: u32 = 1;
/// Bytes of a journal's header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a record before its contents: length, the length's checksum, the contents' checksum.
pub(super) const FRAME_BYTES: usize = 12;
/// Longest record.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A record, read.
#[derive(Debug)]
pub(crate) enum Record<'b> {
    /// An object is whole.
    Put { number: u64, contents: &'b [u8] },
    /// An object has left.
    Remove { number: u64 },
    /// An object's times are others.
    Lifetime { number: u64, ttl: f64, grace: f64, keep: f64 },
    /// A ban was made.
    Ban { number: u64, time: f64, words: Vec<&'b str> },
}

/// Most objects have one for the body and one for the head.
pub(crate) type Extents = SmallVec<[Extent; 2]>;
/// Most bodies are one piece.
pub(crate) type Chunks = SmallVec<[StoredChunk; 1]>;

/// What there is to know of an object without reading its data.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredObject {
    pub(crate) digest: [u8; 32],
    pub(crate) lifetime: Lifetime,
    pub(crate) ban: u64,
    pub(crate) variant: Variant,
    pub(crate) tags: Vec<Box<[u8]>>,
    pub(crate) head: StoredChunk,
    pub(crate) extents: Extents,
    pub(crate) chunks: Chunks,
}

impl StoredObject {
    pub(crate) fn digest(&self) -> Digest {
        Digest(self.digest)
    }
}

/// How a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a whole record, or the process was killed while it wrote this one.
    Whole { length: usize },
    /// Something else stands where a record should: a ban or a removal may be lost with it.
    Damaged { at: usize },
}

pub(crate) fn header(size: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let fields = MAGIC.iter().copied().chain(VERSION.to_le_bytes()).chain([0; 4]).chain(size.to_le_bytes());
    bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    let sum = crc32c::crc32c(bytes.get(..24).unwrap_or_default());
    bytes.iter_mut().skip(24).zip(sum.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// Calls `take` with each record, oldest first.
pub(crate) fn read<'b>(bytes: &'b [u8], mut take: impl FnMut(Record<'b>)) -> End {
    let Some((start, mut rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        // NOTE: the first write of a journal is its header.
        return if bytes.len() < HEADER_BYTES
            && header(0).starts_with(bytes.get(..bytes.len().min(8)).unwrap_or_default())
        {
            End::Whole { length: 0 }
        } else {
            End::Damaged { at: 0 }
        };
    };
    let mut reader = Reader(start.get(16..24).unwrap_or_default());
    if reader.u64().is_none_or(|size| header(size) != start) {
        return End::Damaged { at: 0 };
    }
    loop {
        let at = bytes.len() - rest.len();
        let mut reader = Reader(rest);
        let (Some(length), Some(length_sum)) = (reader.u32(), reader.u32()) else { return End::Whole { length: at } };
        // NOTE: a length that is damaged must not look like a record that ends behind the file.
        if crc32c::crc32c(&length.to_le_bytes()) != length_sum || length == 0 || length as usize > RECORD_BYTES_MAX {
            return End::Damaged { at };
        }
        let length = length as usize;
        let (Some(sum), Some(contents)) = (reader.u32(), reader.bytes(length)) else {
            return End::Whole { length: at };
        };
        let record = if crc32c::crc32c(contents) == sum { Record::read(contents) } else { None };
        let Some(record) = record else { return End::Damaged { at } };
        take(record);
        rest = rest.get(FRAME_BYTES + length..).unwrap_or_default();
    }
}

impl<'b> Record<'b> {
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = match reader.u8()? {
            1 => Self::Put { number: reader.u64()?, contents: std::mem::take(&mut reader.0) },
            2 => Self::Remove { number: reader.u64()? },
            3 => {
                Self::Lifetime { number: reader.u64()?, ttl: reader.f64()?, grace: reader.f64()?, keep: reader.f64()? }
            }
            4 => {
                let (number, time, count) = (reader.u64()?, reader.f64()?, reader.u16()?);
                let word = |_| std::str::from_utf8(reader.short()?).ok();
                let words = (0..count).map(word).collect::<Option<Vec<_>>>()?;
                Self::Ban { number, time, words }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }
}

pub(crate) fn remove(number: u64) -> Vec<u8> {
    frame(2, |to| to.extend_from_slice(&number.to_le_bytes()))
}

pub(crate) fn lifetime(number: u64, lifetime: &Lifetime) -> Vec<u8> {
    frame(3, |to| {
        to.extend_from_slice(&number.to_le_bytes());
        [lifetime.ttl, lifetime.grace, lifetime.keep]
            .iter()
            .for_each(|time| to.extend_from_slice(&finite(*time).to_le_bytes()));
    })
}

pub(crate) fn ban(number: u64, time: f64, words: &[String]) -> Option<Vec<u8>> {
    let count = u16::try_from(words.len()).ok()?;
    let mut fits = true;
    let bytes = frame(4, |to| {
        to.extend_from_slice(&number.to_le_bytes());
        to.extend_from_slice(&finite(time).to_le_bytes());
        to.extend_from_slice(&count.to_le_bytes());
        words.iter().for_each(|word| fits &= push_short(to, word.as_bytes()));
    });
    fits.then_some(bytes)
}

/// `None` if a name, a tag or the whole is longer than a record can have it.
pub(crate) fn put(number: u64, object: &StoredObject) -> Option<Vec<u8>> {
    let mut fits = true;
    let bytes = frame(1, |to| {
        to.extend_from_slice(&number.to_le_bytes());
        to.extend_from_slice(&object.digest);
        let Lifetime { origin, ttl, grace, keep } = object.lifetime;
        [origin, ttl, grace, keep].iter().for_each(|time| to.extend_from_slice(&finite(*time).to_le_bytes()));
        to.extend_from_slice(&object.ban.to_le_bytes());
        push_chunk(to, object.head);
        fits &= push_count(to, object.variant.names.len());
        object.variant.names.iter().for_each(|name| fits &= push_short(to, name));
        fits &= push_short(to, &object.variant.key);
        fits &= push_count(to, object.tags.len());
        object.tags.iter().for_each(|tag| fits &= push_short(to, tag));
        fits &= push_count(to, object.extents.len());
        for extent in &object.extents {
            to.extend_from_slice(&extent.at.to_le_bytes());
            to.extend_from_slice(&extent.length.to_le_bytes());
        }
        object.chunks.iter().for_each(|chunk| push_chunk(to, *chunk));
    });
    (fits && bytes.len() <= RECORD_BYTES_MAX).then_some(bytes)
}

pub(crate) fn read_put(contents: &[u8]) -> Option<StoredObject> {
    let mut reader = Reader(contents);
    let digest = reader.bytes(32)?.try_into().ok()?;
    let lifetime = Lifetime { origin: reader.f64()?, ttl: reader.f64()?, grace: reader.f64()?, keep: reader.f64()? };
    let ban = reader.u64()?;
    let head = reader.chunk()?;
    let names = (0..reader.u16()?).map(|_| Some(reader.short()?.to_vec())).collect::<Option<Vec<_>>>()?;
    let key = reader.short()?.into();
    let tags = (0..reader.u16()?).map(|_| Some(reader.short()?.into())).collect::<Option<Vec<_>>>()?;
    let extent = |reader: &mut Reader<'_>| Some(Extent { at: reader.u64()?, length: reader.u64()? });
    let extents = (0..reader.u16()?).map(|_| extent(&mut reader)).collect::<Option<_>>()?;
    let mut chunks = Chunks::with_capacity(reader.0.len() / 16);
    while !reader.0.is_empty() {
        chunks.push(reader.chunk()?);
    }
    // NOTE: an empty one by itself takes no memory.
    let names = if names.is_empty() { Arc::default() } else { names.into() };
    let variant = Variant { names, key };
    Some(StoredObject { digest, lifetime, ban, variant, tags, head, extents, chunks })
}

/// A response's head as bytes.
pub(crate) fn head(head: &ResponseHead) -> Vec<u8> {
    let mut to = Vec::with_capacity(64 + head.headers.text_len());
    to.extend_from_slice(&head.status().to_le_bytes());
    to.push(u8::from(head.version() == Version::Http10));
    let text = |to: &mut Vec<u8>, bytes: &[u8]| {
        to.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        to.extend_from_slice(bytes);
    };
    text(&mut to, head.reason());
    for (name, value) in head.headers.iter() {
        text(&mut to, name);
        text(&mut to, value);
    }
    to
}

pub(crate) fn read_head(bytes: &[u8]) -> Option<ResponseHead> {
    let mut reader = Reader(bytes);
    let status = reader.u16()?;
    let version = if reader.u8()? == 1 { Version::Http10 } else { Version::Http11 };
    let mut head = ResponseHead::new();
    head.start(version, status);
    let reason = reader.long()?;
    if reason != head.reason() {
        head.set_reason(reason);
    }
    while !reader.0.is_empty() {
        head.headers.add(reader.long()?, reader.long()?);
    }
    Some(head)
}

fn frame(kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    bytes.push(kind);
    fill(&mut bytes);
    let contents = bytes.get(FRAME_BYTES..).unwrap_or_default();
    let length = u32::try_from(contents.len()).unwrap_or(u32::MAX).to_le_bytes();
    let sums = [crc32c::crc32c(&length), crc32c::crc32c(contents)].map(u32::to_le_bytes);
    bytes.iter_mut().zip(length.into_iter().chain(sums.into_iter().flatten())).for_each(|(to, from)| *to = from);
    bytes
}

/// Times that are no numbers are not read.
fn finite(time: f64) -> f64 {
    if time.is_nan() { 0.0 } else { time.clamp(f64::MIN, f64::MAX) }
}

fn push_count(to: &mut Vec<u8>, count: usize) -> bool {
    let short = u16::try_from(count);
    to.extend_from_slice(&short.unwrap_or(0).to_le_bytes());
    short.is_ok()
}

fn push_short(to: &mut Vec<u8>, bytes: &[u8]) -> bool {
    to.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes());
    to.extend_from_slice(bytes);
    u16::try_from(bytes.len()).is_ok()
}

fn push_chunk(to: &mut Vec<u8>, chunk: StoredChunk) {
    to.extend_from_slice(&chunk.at.to_le_bytes());
    to.extend_from_slice(&chunk.length.to_le_bytes());
    to.extend_from_slice(&chunk.sum.to_le_bytes());
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes).filter(|value| value.is_finite())
    }

    fn short(&mut self) -> Option<&'b [u8]> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    fn long(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    fn chunk(&mut self) -> Option<StoredChunk> {
        Some(StoredChunk { at: self.u64()?, length: self.u32()?, sum: self.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// docs/formats/cache-journal.md: what is written once must be read for ever.
    #[test]
    fn layout_of_version_1() {
        let stored = StoredObject {
            digest: [0xdd; 32],
            lifetime: Lifetime { origin: 1.0, ttl: 2.0, grace: 3.0, keep: 4.0 },
            ban: 5,
            variant: Variant { names: vec![b"accept".to_vec()].into(), key: (*b"k").into() },
            tags: vec![(*b"t").into()],
            head: StoredChunk { at: 0x400, length: 6, sum: 7 },
            extents: [Extent { at: 0x100, length: 0x200 }, Extent { at: 0x400, length: 0x100 }].into(),
            chunks: [StoredChunk { at: 0x100, length: 8, sum: 9 }].into(),
        };
        let put_contents = [
            "01",
            "0a00000000000000",
            &"dd".repeat(32),
            "000000000000f03f",
            "0000000000000040",
            "0000000000000840",
            "0000000000001040",
            "0500000000000000",
            "0004000000000000",
            "06000000",
            "07000000",
            "0100",
            "0600616363657074",
            "01006b",
            "0100",
            "010074",
            "0200",
            "0001000000000000",
            "0002000000000000",
            "0004000000000000",
            "0001000000000000",
            "0001000000000000",
            "08000000",
            "09000000",
        ]
        .concat();
        let record = put(10, &stored).unwrap();
        assert_eq!(hex(&record[FRAME_BYTES..]), put_contents);
        assert_eq!(hex(&remove(10)[FRAME_BYTES..]), "020a00000000000000");
        let times = lifetime(10, &stored.lifetime);
        assert_eq!(hex(&times[FRAME_BYTES..]), "030a00000000000000000000000000004000000000000008400000000000001040");
        let words: Vec<String> = ["req.url", "~", "a"].map(str::to_owned).to_vec();
        let banned = ban(2, 1.0, &words).unwrap();
        assert_eq!(hex(&banned[FRAME_BYTES..]), "040200000000000000000000000000f03f030007007265712e75726c01007e010061");
        assert_eq!(hex(&remove(10)), "0900000099826663564c3786020a00000000000000");
        assert_eq!(hex(&header(1 << 20)), "5449444543414348010000000000000000001000000000000b9c9b0e00000000");

        let journal = [&header(1 << 20)[..], &record, &times, &banned, &remove(10)].concat();
        let mut kinds = Vec::new();
        let end = read(&journal, |record| match record {
            Record::Put { number, contents } => {
                assert_eq!((number, read_put(contents)), (10, Some(stored.clone())));
                kinds.push(1);
            }
            Record::Remove { number } => {
                assert_eq!(number, 10);
                kinds.push(2);
            }
            Record::Lifetime { number, ttl, grace, keep } => {
                assert_eq!((number, [ttl, grace, keep]), (10, [2.0, 3.0, 4.0]));
                kinds.push(3);
            }
            Record::Ban { number, time, words } => {
                assert_eq!((number, time, words), (2, 1.0, vec!["req.url", "~", "a"]));
                kinds.push(4);
            }
        });
        assert_eq!((end, kinds), (End::Whole { length: journal.len() }, vec![1, 3, 4, 2]));
        // The process may be killed within any record.
        for length in 0..journal.len() {
            assert!(matches!(read(&journal[..length], |_| {}), End::Whole { length: whole } if whole <= length));
        }
    }

    #[test]
    fn heads() {
        let mut from = ResponseHead::new();
        from.start(Version::Http10, 404);
        from.set_reason(b"Gone");
        from.headers.add(b"A", b"");
        from.headers.add(b"Set-Cookie", b"x");
        let bytes = head(&from);
        let expected = [
            "9401",
            "01",
            "04000000",
            "476f6e65",
            "01000000",
            "41",
            "00000000",
            "0a000000",
            "5365742d436f6f6b6965",
            "01000000",
            "78",
        ];
        assert_eq!(hex(&bytes), expected.concat());
        let back = read_head(&bytes).unwrap();
        assert_eq!((back.status(), back.version(), back.reason()), (404, Version::Http10, &b"Gone"[..]));
        assert_eq!(back.headers.iter().collect::<Vec<_>>(), from.headers.iter().collect::<Vec<_>>());
        (1..bytes.len()).for_each(|length| drop(read_head(&bytes[..length])));
    }
}
