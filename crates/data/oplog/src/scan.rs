//! Frames out of a segment, one after the other, each checked; and the search for good frames behind a bad one.

use std::io;

use crate::{
    Reason,
    disk::DiskFile,
    frame::{FrameHeader, GENERATION_AT, HEADER_LEN},
    segment::{self, Mark, SegmentHeader},
};

/// How much is read at once.
const CHUNK_LEN: usize = 256 * 1024;
/// How much more is read than what is known to come: headers of frames.
const EXPECTED_MORE: usize = 4_096;
/// Of a segment, how many times over its bytes may be summed in the search for frames: what clients send cannot be made to
/// look like frames, but like headers of them.
const SUMMED_MAX: u64 = 8;
/// How much higher the generation of a segment may be than that of one before it.
const GENERATIONS_AHEAD: u32 = 64;

/// What is at a place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScannedFrame {
    /// A good frame; [`Scanner::commands`] has what is in it.
    Frame(FrameHeader),
    /// None: the log ends here, or it is damaged.
    Bad(Reason),
}

/// Goes through a segment's frames.
#[derive(Debug)]
pub(crate) struct Scanner<F> {
    file: F,
    salt: u32,
    generation: u32,
    /// Where the next frame begins.
    position: u64,
    /// The offset of its first byte.
    offset: u64,
    /// What was read: the bytes of the file from `buffer_at` on.
    buffer: Vec<u8>,
    buffer_at: u64,
    /// Where the commands of the last frame are in the buffer.
    commands: std::ops::Range<usize>,
    /// How much is read at once.
    chunk_len: usize,
}

impl<F: DiskFile> Scanner<F> {
    /// From the first frame of a segment on.
    pub(crate) fn new(file: F, header: &SegmentHeader) -> Self {
        Self {
            file,
            salt: header.salt,
            generation: header.generation,
            position: segment::HEADER_LEN as u64,
            offset: header.first_offset,
            buffer: Vec::new(),
            buffer_at: 0,
            commands: 0..0,
            chunk_len: CHUNK_LEN,
        }
    }

    /// Goes to a frame.
    pub(crate) fn go_to(&mut self, mark: Mark) {
        self.position = mark.position;
        self.offset = mark.offset;
    }

    /// Where the next frame begins, in the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The offset at which the next frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The commands of the frame found last.
    pub(crate) fn commands(&self) -> &[u8] {
        self.buffer.get(self.commands.clone()).unwrap_or_default()
    }

    /// What is at this place; behind a frame, the place is the next one.
    pub(crate) fn next(&mut self) -> io::Result<ScannedFrame> {
        let Some(bytes) = self.bytes(HEADER_LEN)?.and_then(|start| self.buffer.get(start..)?.first_chunk()) else {
            return Ok(ScannedFrame::Bad(Reason::Length));
        };
        let header = FrameHeader::decode(bytes);
        let behind = self.position + HEADER_LEN as u64;
        let room = if header.len as usize <= CHUNK_LEN - HEADER_LEN {
            u64::MAX
        } else {
            self.file.len()?.saturating_sub(behind)
        };
        if let Err(reason) = header.check_place(self.generation, self.offset, room) {
            return Ok(ScannedFrame::Bad(reason));
        }
        let len = HEADER_LEN + header.len as usize;
        let Some(start) = self.bytes(len)? else { return Ok(ScannedFrame::Bad(Reason::Length)) };
        self.commands = start + HEADER_LEN..start + len;
        if !header.check_sum(self.salt, self.commands()) {
            return Ok(ScannedFrame::Bad(Reason::Checksum));
        }
        if header.flags != 0 {
            return Ok(ScannedFrame::Bad(Reason::Version));
        }
        self.position += len as u64;
        self.offset = header.end();
        Ok(ScannedFrame::Frame(header))
    }

    /// Sees to it that so many bytes from the place on are in the buffer; where they begin in it. `None` if the file ends
    /// before.
    fn bytes(&mut self, len: usize) -> io::Result<Option<usize>> {
        let start = usize::try_from(self.position.wrapping_sub(self.buffer_at)).unwrap_or(usize::MAX);
        if start.checked_add(len).is_some_and(|end| end <= self.buffer.len()) {
            return Ok(Some(start));
        }
        // A log that grows has changed behind what was read before, so that is read anew.
        let room = usize::try_from(self.file.len()?.saturating_sub(self.position)).unwrap_or(usize::MAX);
        self.buffer.resize(len.max(self.chunk_len).min(room), 0);
        let read = self.file.read_full_at(&mut self.buffer, self.position);
        self.buffer_at = self.position;
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(|read| (read >= len).then_some(0))
    }

    /// Says how many bytes of commands are still to come: not much more need be read.
    pub(crate) fn expect(&mut self, commands_len: u64) {
        let len = usize::try_from(commands_len).unwrap_or(CHUNK_LEN);
        self.chunk_len = len.saturating_mul(2).saturating_add(EXPECTED_MORE).min(CHUNK_LEN);
    }

    /// Forgets what was read but not used: the file may have more by now.
    pub(crate) fn refresh(&mut self) {
        self.buffer.clear();
        self.buffer_at = self.position;
    }

    pub(crate) fn file(&self) -> &F {
        &self.file
    }
}

/// What good frames behind a bad one say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// There are some.
    pub(crate) any: bool,
    /// Up to where they know the log to be durable.
    pub(crate) durable: u64,
}

/// What good frames of a segment say, at `position` or behind it; their offsets are `first` or more.
pub(crate) fn durable_claim<F: DiskFile>(
    file: &F,
    header: &SegmentHeader,
    position: u64,
    first: u64,
) -> io::Result<Claim> {
    // Generation and flags stand side by side.
    let mut pattern = [0; 8];
    crate::frame::put(&mut pattern, 0, &header.generation.to_le_bytes());
    let finder = memchr::memmem::Finder::new(&pattern);
    search(file, header.salt, position, first, |bytes| {
        finder.find_iter(bytes.get(GENERATION_AT..).unwrap_or_default()).collect()
    })
}

/// The same for a segment whose header is lost, of the log that `known` is a segment of: its generation is a little higher.
pub(crate) fn durable_claim_of_unknown<F: DiskFile>(
    file: &F,
    known: &SegmentHeader,
    position: u64,
    first: u64,
) -> io::Result<Claim> {
    let generations = known.generation.saturating_add(1)..known.generation.saturating_add(GENERATIONS_AHEAD);
    search(file, known.salt, position, first, |bytes| {
        let is_candidate = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map(FrameHeader::decode)
                .is_some_and(|frame| frame.flags == 0 && generations.contains(&frame.generation))
        };
        bytes.windows(HEADER_LEN).enumerate().filter(|(_, bytes)| is_candidate(bytes)).map(|(at, _)| at).collect()
    })
}

/// Tries all places that `candidates` finds in a piece of the file.
fn search<F: DiskFile>(
    file: &F,
    salt: u32,
    position: u64,
    first: u64,
    candidates: impl Fn(&[u8]) -> Vec<usize>,
) -> io::Result<Claim> {
    let file_len = file.len()?;
    let mut claim = Claim::default();
    let mut sum_budget = file_len.saturating_mul(SUMMED_MAX);
    let room = usize::try_from(file_len.saturating_sub(position)).unwrap_or(CHUNK_LEN);
    let mut chunk = vec![0; CHUNK_LEN.min(room)];
    let mut commands = Vec::new();
    let mut at = position;
    while at + HEADER_LEN as u64 <= file_len {
        let read = file.read_full_at(&mut chunk, at)?;
        let bytes = chunk.get(..read).unwrap_or_default();
        if bytes.len() < HEADER_LEN {
            break;
        }
        for place in candidates(bytes) {
            let Some(candidate) = bytes.get(place..).and_then(<[u8]>::first_chunk) else { break };
            let frame = FrameHeader::decode(candidate);
            let behind = at + (place + HEADER_LEN) as u64;
            let len = u64::from(frame.len);
            let is_possible = frame.offset >= first
                && frame.durable <= frame.offset
                && len <= file_len.saturating_sub(behind)
                && len <= sum_budget;
            if !is_possible || (claim.any && frame.durable <= claim.durable) {
                continue;
            }
            sum_budget -= len;
            commands.resize(frame.len as usize, 0);
            if file.read_full_at(&mut commands, behind)? == commands.len() && frame.check_sum(salt, &commands) {
                claim.any = true;
                claim.durable = claim.durable.max(frame.durable);
            }
        }
        at += (bytes.len() - (HEADER_LEN - 1)) as u64;
    }
    Ok(claim)
}
