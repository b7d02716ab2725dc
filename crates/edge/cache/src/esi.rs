//! Edge Side Includes: finds in a body what is to be replaced when it is delivered (W3C note "ESI Language Specification 1.0").
//!
//! The body is stored as it came. Beside it stands a plan: which of its bytes are delivered, which are left out, and what is included
//! between them. A [`Parser`] makes the plan while the body arrives, in pieces of any size; an [`Assembly`] carries it out.
//!
//! ```
//! use cache::esi::{Parser, Piece, Settings};
//!
//! let mut parser = Parser::new(Settings::default(), b"/news/today?page=1");
//! parser.parse(b"<p>before<esi:incl");
//! parser.parse(b"ude src=\"top&amp;new\"/>after</p>");
//! let plan = parser.finish().unwrap();
//! let [Piece::Deliver(9), Piece::Skip(32), Piece::Include(include), Piece::Deliver(9)] = &plan.pieces[..] else { panic!() };
//! assert_eq!(&*include.target.url, b"/news/top&new");
//! ```
//!
//! It understands what Varnish 7.1 understands, in the same way, as pages are written against that: `<esi:include>` with `src` and
//! `onerror="continue"`, `<esi:remove>`, `<esi:comment>` and `<!--esi ... -->`. It keeps `alt` too, which Varnish skips. Two things
//! that depend on where Varnish's buffers end do not depend on it here; and an attribute of a tag with an error in it is not mistaken
//! for one of the next tag.

mod assembly;
mod include;
mod parser;
mod states;

use std::fmt;

pub use assembly::{Assembly, Step};
pub use include::{Include, Target};
pub use parser::Parser;

/// Longest `src` or `alt`.
pub const ATTRIBUTE_BYTES_MAX: usize = 32 << 10;
/// Most notes that are kept of a body; all are counted.
pub const NOTES_MAX: usize = 256;

/// How bodies are read: the names of Varnish's parameter `feature`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// A body may begin with anything, not with `<` alone (`esi_disable_xml_check`).
    pub disable_xml_check: bool,
    /// `<` begins nothing unless an ESI tag follows: for what is not XML (`esi_ignore_other_elements`).
    pub ignore_other_elements: bool,
    /// A byte order mark at the start is left out (`esi_remove_bom`).
    pub remove_bom: bool,
    /// `https://` is taken for `http://`; such includes are left out otherwise (`esi_ignore_https`).
    pub ignore_https: bool,
    /// A page ends where what it includes fails, unless that says `onerror="continue"` (`esi_include_onerror`).
    pub heeds_onerror: bool,
}

/// What is to be done with the next bytes of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes are delivered.
    Deliver(u64),
    /// So many bytes are left out.
    Skip(u64),
    /// Another object is delivered here.
    Include(Box<Include>),
}

/// What is to be done with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The pieces in their order; together they are as long as the body.
    pub pieces: Vec<Piece>,
}

impl Plan {
    /// Bytes that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_includes: usize = self
            .pieces
            .iter()
            .map(|piece| if let Piece::Include(include) = piece { include.memory_bytes() } else { 0 })
            .sum();
        size_of::<Self>() + self.pieces.capacity() * size_of::<Piece>() + of_includes
    }

    pub(crate) fn add(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), &piece) {
            (_, Piece::Deliver(0) | Piece::Skip(0)) => {}
            (Some(Piece::Deliver(last)), Piece::Deliver(more)) | (Some(Piece::Skip(last)), Piece::Skip(more)) => {
                *last += more;
            }
            _ => self.pieces.push(piece),
        }
    }
}

/// How bad a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The body is delivered as it came.
    NotProcessed,
    /// A tag is taken, but it is not as it should be (`esi_warnings`).
    Warning,
    /// A tag is left out (`esi_errors`).
    Error,
}

/// What is wrong with a body; shown as in Varnish's record `ESI_xmlerror`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// Where the run of delivered or skipped bytes begins in which it is.
    pub after: u64,
    /// What it is.
    pub text: &'static str,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Severity::NotProcessed => formatter.write_str(self.text),
            Severity::Warning => write!(formatter, "WARN after {} {}", self.after, self.text),
            Severity::Error => write!(formatter, "ERR after {} {}", self.after, self.text),
        }
    }
}
