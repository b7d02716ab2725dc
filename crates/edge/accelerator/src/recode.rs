//! Bodies into gzip and out of it, on their way into the cache or to a client.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder, write::MultiGzDecoder};

use crate::backend::Recoding;

/// Speed before size, as Varnish's `gzip_level`.
const LEVEL: u32 = 6;

/// A body on its way.
#[derive(Debug)]
pub enum Recoder {
    /// It goes on as it is.
    Plain,
    /// It is compressed.
    Gzip(Box<GzEncoder<Vec<u8>>>),
    /// It is decompressed.
    Gunzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Recoder {
    /// For a body of which nothing has come.
    #[must_use]
    pub fn new(recoding: Recoding) -> Self {
        match recoding {
            Recoding::None => Self::Plain,
            Recoding::Gzip => Self::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))),
            Recoding::Gunzip => Self::Gunzip(Box::new(MultiGzDecoder::new(Vec::new()))),
        }
    }

    /// Takes the next bytes; `None` if they go on as they are, else what comes out.
    ///
    /// # Errors
    /// They are not gzip.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Plain => Ok(None),
            Self::Gzip(encoder) => {
                encoder.write_all(bytes)?;
                Ok(Some(std::mem::take(encoder.get_mut())))
            }
            Self::Gunzip(decoder) => {
                decoder.write_all(bytes)?;
                Ok(Some(std::mem::take(decoder.get_mut())))
            }
        }
    }

    /// Gives out what can be given of what has been taken.
    ///
    /// # Errors
    /// As [`Recoder::push`].
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain => Ok(Vec::new()),
            Self::Gzip(encoder) => {
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Gunzip(decoder) => {
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }

    /// What comes out at the end.
    ///
    /// # Errors
    /// The end of the gzip has not come.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain => Ok(Vec::new()),
            Self::Gzip(encoder) => {
                encoder.try_finish()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Gunzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}
