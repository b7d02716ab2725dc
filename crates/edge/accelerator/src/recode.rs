//! Bodies into gzip and out of it, on their way into the cache or to a client.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder, write::MultiGzDecoder};

use crate::backend::{Coding, Recoding};

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
    /// It goes on as it is while it is tried.
    Test(Box<Trial>),
    /// Several of these, one after the other.
    Several(Vec<Recoder>),
}

/// A body in gzip that is tried.
#[derive(Debug)]
pub struct Trial {
    decoder: MultiGzDecoder<io::Sink>,
    has_begun: bool,
}

impl Recoder {
    /// For a body of which nothing has come.
    #[must_use]
    pub fn new(recoding: Recoding) -> Self {
        match recoding {
            Recoding::None => Self::Plain,
            Recoding::Gzip => Self::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))),
            Recoding::Gunzip => Self::Gunzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Recoding::Test => {
                Self::Test(Box::new(Trial { decoder: MultiGzDecoder::new(io::sink()), has_begun: false }))
            }
            Recoding::Several(codings) => Self::Several(
                codings
                    .all()
                    .map(|coding| {
                        Self::new(match coding {
                            Coding::Gzip => Recoding::Gzip,
                            Coding::Gunzip => Recoding::Gunzip,
                            Coding::Test => Recoding::Test,
                        })
                    })
                    .collect(),
            ),
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
            Self::Test(trial) => {
                trial.has_begun |= !bytes.is_empty();
                trial.decoder.write_all(bytes)?;
                Ok(None)
            }
            Self::Several(recoders) => through(recoders, bytes.to_vec()).map(Some),
        }
    }

    /// Gives out what can be given of what has been taken.
    ///
    /// # Errors
    /// As [`Recoder::push`].
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain | Self::Test(_) | Self::Several(_) => Ok(Vec::new()),
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
            Self::Test(trial) => {
                if trial.has_begun {
                    trial.decoder.try_finish()?;
                }
                Ok(Vec::new())
            }
            Self::Several(recoders) => {
                let mut rest = Vec::new();
                for place in 0..recoders.len() {
                    let Some((recoder, behind)) = recoders.get_mut(place..).and_then(<[Self]>::split_first_mut) else {
                        break;
                    };
                    let ending = recoder.finish()?;
                    rest.extend(through(behind, ending)?);
                }
                Ok(rest)
            }
        }
    }
}

/// Sends bytes through all of them.
fn through(recoders: &mut [Recoder], bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    recoders.iter_mut().try_fold(bytes, |bytes, recoder| Ok(recoder.push(&bytes)?.unwrap_or(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recode(recoder: &mut Recoder, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        for piece in bytes.chunks(7) {
            out.extend(recoder.push(piece)?.unwrap_or_else(|| piece.to_vec()));
        }
        out.extend(recoder.finish()?);
        Ok(out)
    }

    #[test]
    fn what_is_tried_stays_as_it_is_or_fails() {
        let packed = recode(&mut Recoder::new(Recoding::Gzip), b"some text").unwrap();
        let test = |bytes: &[u8]| recode(&mut Recoder::new(Recoding::Test), bytes);
        assert_eq!(test(&packed).unwrap(), packed);
        assert_eq!(test(b"").unwrap(), b"");
        assert!(test(packed.get(..packed.len() - 4).unwrap()).is_err(), "cut off");
        assert!(test(&[&packed[..], b"junk"].concat()).is_err(), "junk behind it");
        assert!(test(b"no gzip at all").is_err());
    }

    #[test]
    fn several_one_after_the_other() {
        let mut recoder = Recoder::Several(vec![
            Recoder::new(Recoding::Gzip),
            Recoder::new(Recoding::Gunzip),
            Recoder::new(Recoding::Gzip),
        ]);
        let packed = recode(&mut recoder, b"some text").unwrap();
        assert_eq!(recode(&mut Recoder::new(Recoding::Gunzip), &packed).unwrap(), b"some text");
    }
}
