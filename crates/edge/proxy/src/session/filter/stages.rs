//! What a body goes through between two wires: chunks taken apart, compression, limits of bandwidth.

use std::{
    rc::Rc,
    task::{Context, Poll},
    time::Instant,
};

use http::{ChunkPart, ChunkedDecoder, Limits, ParseError};
use net::Deadline;

use super::{BandwidthLimiter, Compression, trace::PayloadTrace};
use crate::{session::caching::Storing, worker::Worker};

/// The stages of one body.
#[derive(Default)]
pub struct Stages {
    /// Takes chunks apart, for who does not know them or for compression.
    decoder: Option<ChunkedDecoder>,
    compression: Option<Compression>,
    paces: Vec<BandwidthLimiter>,
    /// Trailers, to go behind the last chunk that compression makes.
    trailers: Vec<u8>,
    /// Cuts what passes into parts of random sizes.
    random: Option<Rc<Worker>>,
    traces: Vec<PayloadTrace>,
    /// Stores what passes.
    storing: Option<Storing>,
    timer: Deadline,
    waits: bool,
    finished: bool,
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Stages").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl Stages {
    /// Takes chunks apart.
    #[must_use]
    pub fn decoding(limits: &Limits) -> Self {
        Self { decoder: Some(ChunkedDecoder::new(limits)), ..Self::default() }
    }

    /// Takes chunks apart if `former` does.
    pub fn decode_as(&mut self, former: Self) {
        self.decoder = self.decoder.take().or(former.decoder);
    }

    /// Compresses; a chunked body is taken apart by `limits` before.
    pub fn compress(&mut self, compression: Compression, chunked: Option<&Limits>) {
        self.decoder = chunked.map(ChunkedDecoder::new);
        self.compression = Some(compression);
    }

    /// Limits the bandwidth.
    pub fn pace(&mut self, pace: BandwidthLimiter) {
        self.paces.push(pace);
    }

    /// Cuts what passes into parts of random sizes.
    pub fn shuffle(&mut self, worker: Rc<Worker>) {
        self.random = Some(worker);
    }

    /// Shows what passes.
    pub fn trace(&mut self, trace: PayloadTrace) {
        self.traces.push(trace);
    }

    /// Stores what passes.
    pub fn store(&mut self, storing: Storing) {
        self.storing = Some(storing);
    }

    /// How many of `waiting` bytes may go on now.
    pub fn allowance(&mut self, waiting: usize) -> usize {
        let mut allowed = waiting;
        let now = if self.paces.is_empty() { None } else { Some(Instant::now()) };
        for pace in &mut self.paces {
            allowed = now.map_or(0, |now| allowed.min(pace.allowance(waiting, now)));
        }
        match &self.random {
            Some(worker) if allowed > 1 => usize::try_from(worker.random()).unwrap_or(0) % allowed + 1,
            _ => allowed,
        }
    }

    /// Takes note of bytes that go on.
    pub fn note(&mut self, bytes: &[u8]) {
        for pace in &mut self.paces {
            pace.spend(bytes.len());
        }
        for trace in &self.traces {
            trace.tell(bytes);
        }
        if let Some(storing) = &mut self.storing {
            storing.take(bytes);
        }
    }

    /// Takes in bytes of the body as they came and appends to `out` what is to be sent.
    ///
    /// # Errors
    /// When chunks are malformed.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ParseError> {
        self.note(bytes);
        let Some(decoder) = &mut self.decoder else {
            match &mut self.compression {
                Some(compression) => compression.add(bytes, out),
                None => out.extend_from_slice(bytes),
            }
            return Ok(());
        };
        loop {
            let trailers_before = decoder.trailer_len();
            let part = decoder.next_part(bytes)?;
            let len = match part {
                ChunkPart::Data(len) => {
                    let data = bytes.get(..len).unwrap_or_default();
                    match &mut self.compression {
                        Some(compression) => compression.add(data, out),
                        None => out.extend_from_slice(data),
                    }
                    len
                }
                ChunkPart::Framing(len) | ChunkPart::End(len) => {
                    if self.compression.is_some() && decoder.trailer_len() > trailers_before {
                        keep_trailers(
                            &mut self.trailers,
                            bytes.get(..len).unwrap_or_default(),
                            decoder,
                            trailers_before,
                        );
                    }
                    len
                }
            };
            bytes = bytes.get(len..).unwrap_or_default();
            if len == 0 || bytes.is_empty() || matches!(part, ChunkPart::End(_)) {
                return Ok(());
            }
        }
    }

    /// Appends what has been held back so far: nothing more comes for now.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(compression) = &mut self.compression
            && !self.finished
        {
            compression.flush(out);
        }
    }

    /// Appends the end of the body, once.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if let Some(storing) = &mut self.storing {
            storing.finish();
        }
        if let Some(compression) = &mut self.compression {
            compression.finish(&self.trailers, out);
        }
    }

    /// Ready once more of `waiting` bytes may go on.
    pub fn poll_pace(&mut self, waiting: usize, context: &mut Context<'_>) -> Poll<()> {
        let ready = self.paces.iter().filter_map(|pace| pace.ready_at(waiting)).max();
        if ready.is_none() {
            return Poll::Ready(());
        }
        self.timer.set(ready);
        let polled = self.timer.poll(context);
        self.waits = polled.is_pending();
        polled
    }

    /// Whether it waits for a limit of bandwidth.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waits
    }
}

/// Keeps those of `framing` that belong to trailers: they are its last bytes.
fn keep_trailers(kept: &mut Vec<u8>, framing: &[u8], decoder: &ChunkedDecoder, before: usize) {
    // The empty line is not one of them, and may be there in part or whole.
    let end = framing.len() - decoder.empty_line_len().min(framing.len());
    let start = end.saturating_sub(decoder.trailer_len() - before);
    kept.extend_from_slice(framing.get(start..end).unwrap_or_default());
}
