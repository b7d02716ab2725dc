//! A body as far as it has been received, for rules and samples that look at it before it goes on.

use http::{BodyLength, ChunkedDecoder};

use crate::session::transaction::Transaction;

/// A body as far as it has been received.
pub(super) struct Peeked {
    /// Its data.
    pub bytes: Vec<u8>,
    /// Whether that is all.
    pub complete: bool,
    /// Whether what comes next is no chunk.
    pub is_malformed: bool,
    /// How many bytes of data are announced, as far as that is known.
    pub announced: Option<u64>,
}

impl Peeked {
    /// Looks at received bytes that begin with the body.
    pub fn at(bytes: &[u8], body: BodyLength, limits: &http::Limits) -> Self {
        match body {
            BodyLength::None => Self { bytes: Vec::new(), complete: true, is_malformed: false, announced: None },
            BodyLength::Exact(announced) => {
                let length = usize::try_from(announced).unwrap_or(usize::MAX);
                let complete = bytes.len() >= length;
                let bytes = bytes.get(..length).unwrap_or(bytes).to_vec();
                Self { bytes, complete, is_malformed: false, announced: Some(announced) }
            }
            BodyLength::Chunked => {
                let mut out = Vec::new();
                let mut decoder = ChunkedDecoder::new(limits);
                let decoded = decoder.decode_into(bytes, &mut out);
                let complete = decoded.as_ref().is_ok_and(|progress| progress.done);
                let announced = Some(out.len() as u64 + decoder.data_ahead());
                Self { bytes: out, complete, is_malformed: decoded.is_err(), announced }
            }
            BodyLength::UntilClose => {
                Self { bytes: bytes.to_vec(), complete: false, is_malformed: false, announced: None }
            }
        }
    }

    /// Tells it to who asks about the request's body.
    pub fn tell(self, transaction: &mut Transaction) {
        transaction.asked.body.bytes = self.bytes;
        transaction.asked.body.complete = self.complete;
        transaction.asked.body.announced = self.announced;
    }
}
