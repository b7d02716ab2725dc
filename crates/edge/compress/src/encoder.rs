//! One body on its way through a coding.

use brotli::enc::{
    StandardAlloc,
    backward_references::BrotliEncoderParams,
    encode::{BrotliEncoderOperation, BrotliEncoderStateStruct},
};
use http::Coding;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};

use crate::{
    adler::Adler,
    deflate::{Deflate, Workspace},
};

/// A gzip header without a name or time, by the fastest of methods, from a Unix (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 3];
/// A window of 32 kB, the fastest of levels (RFC 1950 section 2.2).
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];
/// Brotli's quality from which it finds more than our own DEFLATE does, at a cost of the same order.
const BROTLI_QUALITY: i32 = 2;
/// Zstandard's fastest level of the usual ones.
const ZSTD_LEVEL: i32 = 1;
/// History that a stream of Brotli or Zstandard keeps, as a power of two: larger ones take more memory than they are worth
/// for web pages.
const WINDOW_BITS: u32 = 16;
/// Bytes that a call of an encoder may make at once.
const STEP: usize = 4_096;

/// One body on its way through a coding.
pub struct Encoder(State);

enum State {
    Identity,
    Deflate { wrap: Wrap, started: bool, deflate: Deflate, level: u8 },
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Zstd(Box<CCtx<'static>>),
}

/// What stands around DEFLATE.
enum Wrap {
    Gzip { checksum: crc32fast::Hasher, len: u32 },
    Zlib(Adler),
    Raw,
}

/// An encoder's library has failed, which it does for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl std::fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Encoder").field(&self.coding_name()).finish()
    }
}

impl Encoder {
    /// An encoder at the start of a body.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(coding: Coding) -> Result<Self, Failed> {
        let deflate = |wrap| State::Deflate { wrap, started: false, deflate: Deflate::default(), level: 1 };
        Ok(Self(match coding {
            Coding::Identity => State::Identity,
            Coding::Gzip => deflate(Wrap::Gzip { checksum: crc32fast::Hasher::new(), len: 0 }),
            Coding::Deflate => deflate(Wrap::Zlib(Adler::default())),
            Coding::RawDeflate => deflate(Wrap::Raw),
            Coding::Brotli => {
                let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
                state.params = BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    lgwin: WINDOW_BITS as i32,
                    ..BrotliEncoderParams::default()
                };
                State::Brotli(Box::new(state))
            }
            Coding::Zstd => {
                let mut context = CCtx::try_create().ok_or(Failed)?;
                for parameter in [CParameter::CompressionLevel(ZSTD_LEVEL), CParameter::WindowLog(WINDOW_BITS)] {
                    context.set_parameter(parameter).map_err(|_| Failed)?;
                }
                State::Zstd(Box::new(context))
            }
        }))
    }

    fn coding_name(&self) -> &'static str {
        match &self.0 {
            State::Identity => "identity",
            State::Deflate { wrap: Wrap::Gzip { .. }, .. } => "gzip",
            State::Deflate { wrap: Wrap::Zlib(_), .. } => "deflate",
            State::Deflate { wrap: Wrap::Raw, .. } => "raw-deflate",
            State::Brotli(_) => "br",
            State::Zstd(_) => "zstd",
        }
    }

    /// Bytes of memory that an encoder of this coding keeps, about; what all share is not counted.
    #[must_use]
    pub fn memory_bytes(coding: Coding) -> usize {
        match coding {
            Coding::Identity | Coding::Gzip | Coding::Deflate | Coding::RawDeflate => 256,
            Coding::Brotli => 512 * 1024,
            Coding::Zstd => 512 * 1024,
        }
    }

    /// Whether it compresses now.
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        !matches!(&self.0, State::Identity | State::Deflate { level: 0, .. })
    }

    /// Compresses from here on, or passes on what comes within the coding's framing; only the codings of DEFLATE can change.
    pub fn set_compressing(&mut self, compresses: bool) {
        if let State::Deflate { level, .. } = &mut self.0 {
            *level = u8::from(compresses);
        }
    }

    /// Appends what `input` becomes. Some of it may stay inside until more comes.
    ///
    /// # Errors
    /// When the library fails.
    pub fn add(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        match &mut self.0 {
            State::Identity => out.extend_from_slice(input),
            State::Deflate { wrap, started, deflate, level } => {
                begin(wrap, started, out);
                match wrap {
                    Wrap::Gzip { checksum, len } => {
                        checksum.update(input);
                        // RFC 1952: the length modulo 2^32.
                        *len = len.wrapping_add(input.len() as u32);
                    }
                    Wrap::Zlib(sum) => sum.update(input),
                    Wrap::Raw => {}
                }
                if *level == 0 {
                    deflate.store(input, out);
                } else {
                    deflate.compress(workspace, input, out);
                }
            }
            State::Brotli(state) => brotli(state, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, input, out)?,
            State::Zstd(context) => zstd(context, ZSTD_EndDirective::ZSTD_e_continue, input, out)?,
        }
        Ok(())
    }

    /// Appends what it takes for the receiver to read all that was put in.
    ///
    /// # Errors
    /// When the library fails.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        match &mut self.0 {
            State::Identity => {}
            State::Deflate { deflate, .. } => deflate.flush(out),
            State::Brotli(state) => brotli(state, BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, b"", out)?,
            State::Zstd(context) => zstd(context, ZSTD_EndDirective::ZSTD_e_flush, b"", out)?,
        }
        Ok(())
    }

    /// Appends the end of the body.
    ///
    /// # Errors
    /// When the library fails.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        match &mut self.0 {
            State::Identity => {}
            State::Deflate { wrap, started, deflate, .. } => {
                begin(wrap, started, out);
                deflate.finish(out);
                match wrap {
                    Wrap::Gzip { checksum, len } => {
                        out.extend_from_slice(&checksum.clone().finalize().to_le_bytes());
                        out.extend_from_slice(&len.to_le_bytes());
                    }
                    Wrap::Zlib(sum) => out.extend_from_slice(&sum.value().to_be_bytes()),
                    Wrap::Raw => {}
                }
            }
            State::Brotli(state) => brotli(state, BrotliEncoderOperation::BROTLI_OPERATION_FINISH, b"", out)?,
            State::Zstd(context) => zstd(context, ZSTD_EndDirective::ZSTD_e_end, b"", out)?,
        }
        Ok(())
    }
}

fn begin(wrap: &Wrap, started: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::replace(started, true) {
        match wrap {
            Wrap::Gzip { .. } => out.extend_from_slice(&GZIP_HEADER),
            Wrap::Zlib(_) => out.extend_from_slice(&ZLIB_HEADER),
            Wrap::Raw => {}
        }
    }
}

fn brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    operation: BrotliEncoderOperation,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Failed> {
    let (mut left, mut taken) = (input.len(), 0);
    let mut step = [0; STEP];
    loop {
        let (mut room, mut made) = (STEP, 0);
        let done = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut taken,
            &mut room,
            &mut step,
            &mut made,
            &mut None,
            &mut |_, _, _, _| {},
        );
        out.extend_from_slice(step.get(..made).unwrap_or_default());
        if !done {
            return Err(Failed);
        }
        if left == 0 && !state.has_more_output() {
            return Ok(());
        }
    }
}

fn zstd(
    context: &mut CCtx<'static>,
    directive: ZSTD_EndDirective,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Failed> {
    let mut source = InBuffer::around(input);
    let mut step = [0; STEP];
    let is_step = matches!(directive, ZSTD_EndDirective::ZSTD_e_continue);
    loop {
        let mut target = OutBuffer::around(&mut step);
        let left = context.compress_stream2(&mut target, &mut source, directive).map_err(|_| Failed)?;
        out.extend_from_slice(target.as_slice());
        if source.pos() == input.len() && (left == 0 || is_step) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
