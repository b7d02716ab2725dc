//! What a fetch asks for, and what it gives.

use std::sync::Arc;

use cache::{
    esi::{Note, Parser},
    index::Fetch,
    object::{Filler, Object, Page},
};
use http::ResponseHead;
use vcl::run::Backend as Target;

/// What is to be done next for a fetch.
#[derive(Debug)]
pub enum Step {
    /// Send [`Backend::request`](super::Backend::request) to this backend; then [`Backend::responded`](super::Backend::responded) or [`Backend::failed`](super::Backend::failed).
    Ask(Target),
    /// The response goes to whoever waits, and its body with it.
    Accept(Box<Accepted>),
    /// There is nothing for whoever waits.
    Abandon,
}

/// A response that has been accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Where it is kept; `None` for a response that is passed on directly, or that is kept already.
    pub stored: Option<Stored>,
    /// The head, for a response that is passed on directly; of one that is stored, what the client gets who had it fetched, if that
    /// is not the same.
    pub head: ResponseHead,
    /// The body.
    pub body: AcceptedBody,
}

/// Where a response is kept.
#[derive(Debug)]
pub struct Stored {
    /// The object.
    pub object: Arc<Object>,
    /// Fills its body.
    pub filler: Filler,
    /// What puts it into the cache; `None` for one client's.
    pub fetch: Option<Fetch>,
    /// Whether that is done at once, or when the body is whole.
    pub streams: bool,
    /// Looks for what the body includes, as it goes into the cache.
    pub includes: Option<IncludeFinder>,
}

/// Finds what a page includes.
#[derive(Debug)]
pub struct IncludeFinder {
    pub(super) parser: Parser,
    pub(super) is_gzip: bool,
}

impl IncludeFinder {
    /// Takes the next bytes of the body.
    pub fn look_at(&mut self, bytes: &[u8]) {
        self.parser.parse(bytes);
    }

    /// The body is over; what was wrong with it is told too.
    #[must_use]
    pub fn finish(mut self) -> (Reading, Vec<Note>) {
        let reading = match self.parser.finish() {
            Some(plan) => Reading::Page(Page { plan, is_gzip: self.is_gzip }),
            None if self.is_gzip => Reading::Packed,
            None => Reading::Plain,
        };
        (reading, self.parser.take_notes())
    }
}

/// What a body was found to be that might have been a page.
#[derive(Debug)]
pub enum Reading {
    /// It includes others.
    Page(Page),
    /// It does not; it is to be stored in gzip.
    Packed,
    /// It does not; it is to be stored as it is.
    Plain,
}

/// Where an accepted body comes from.
#[derive(Debug)]
pub enum AcceptedBody {
    /// From the backend, through this filter.
    Backend(Recoding),
    /// The object before has it: the backend said that it has not changed.
    Stale(Arc<Object>),
    /// It has been made here.
    Made(Vec<u8>),
}

/// What is done to a body on its way into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recoding {
    /// Nothing.
    None,
    /// It is compressed.
    Gzip,
    /// It is decompressed.
    Gunzip,
    /// It stays as it is, and is tried: what is broken is an error.
    Test,
    /// Several of these, one after the other.
    Several(Codings),
}

/// One thing that is done to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// It is compressed.
    Gzip,
    /// It is decompressed.
    Gunzip,
    /// It is tried.
    Test,
}

/// Things that are done to a body in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings {
    /// Two bits each, the first one lowest; 0 for none.
    bits: u32,
    count: u32,
}

impl Codings {
    const MAX: u32 = 16;

    pub(super) fn push(&mut self, coding: Coding) -> Result<(), ()> {
        if self.count == Self::MAX {
            return Err(());
        }
        self.bits |= (coding as u32) << (2 * self.count);
        self.count += 1;
        Ok(())
    }

    pub(super) fn only(self) -> Option<Coding> {
        if self.count == 1 { self.all().next() } else { None }
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = Coding> {
        (0..self.count).map(move |place| match self.bits >> (2 * place) & 3 {
            0 => Coding::Gzip,
            1 => Coding::Gunzip,
            _ => Coding::Test,
        })
    }
}
