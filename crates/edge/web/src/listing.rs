//! What is in a folder, as a page for people, as JSON as nginx' `autoindex_format json` has it, or as plain text.
//!
//! A listing is written in pieces, so that one of a hundred thousand names neither takes much memory at once nor lets a client wait for its
//! end. What is in names goes nowhere but into text: any bytes may be in them.

use std::cmp::Ordering;

use http::{RequestHead, query_parameters};

use crate::{mime::MimeTypes, negotiate::media_weight, path::CleanPath};

mod html;
mod order;
mod plain;

pub use html::policy;

/// Most entries that whoever reads a folder keeps of it: each is in memory while it is sorted.
pub const ENTRIES_MAX: usize = 100_000;

/// Bytes from which on a piece is handed out.
const PIECE_BYTES: usize = 16 * 1024;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A device, a pipe, a socket, a symbolic link that leads nowhere.
    Other,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but a slash and NUL.
    pub name: Box<[u8]>,
    /// What it is, or what a symbolic link leads to.
    pub kind: EntryKind,
    /// Bytes of a file.
    pub length: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

/// How a listing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A page.
    Html,
    /// JSON.
    Json,
    /// Lines of text.
    Text,
}

impl Format {
    /// What the request wants: `?format=json` says so, else `Accept` does. A page is what a client gets that has no wish.
    #[must_use]
    pub fn wanted(request: &RequestHead) -> Self {
        let query = request.query().unwrap_or_default();
        let said = query_parameters(query).find(|(name, _)| *name == b"format");
        match said {
            Some((_, b"html")) => return Self::Html,
            Some((_, b"json")) => return Self::Json,
            Some((_, b"text" | b"txt" | b"plain")) => return Self::Text,
            _ => {}
        }
        let weight = |format: Self| media_weight(&request.headers, format.essence());
        let mut best = Self::Html;
        for format in [Self::Json, Self::Text] {
            if weight(format) > weight(best) {
                best = format;
            }
        }
        best
    }

    fn essence(self) -> &'static str {
        match self {
            Self::Html => "text/html",
            Self::Json => "application/json",
            Self::Text => "text/plain",
        }
    }

    /// The `Content-Type` of it.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// What entries are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// The name.
    #[default]
    Name,
    /// The size.
    Size,
    /// The time of modification.
    Date,
}

/// The order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub by: Column,
    /// The last one first.
    pub descending: bool,
}

impl Order {
    /// What a query asks for: `sort=size&order=desc`, or `C=S;O=D` as Apache's links have it.
    #[must_use]
    pub fn wanted(query: Option<&[u8]>) -> Self {
        let mut order = Self::default();
        for (name, value) in query_parameters(query.unwrap_or_default()) {
            match (name, value) {
                (b"sort", b"name") | (b"C", b"N") => order.by = Column::Name,
                (b"sort", b"size") | (b"C", b"S") => order.by = Column::Size,
                (b"sort", b"date") | (b"C", b"M") => order.by = Column::Date,
                (b"order", b"asc") | (b"O", b"A") => order.descending = false,
                (b"order", b"desc") | (b"O", b"D") => order.descending = true,
                _ => {}
            }
        }
        order
    }

    fn compare(self, left: &Entry, right: &Entry) -> Ordering {
        let by_name = || order::natural(&left.name, &right.name);
        let compared = match self.by {
            Column::Name => by_name(),
            Column::Size => size(left).cmp(&size(right)),
            Column::Date => left.modified.cmp(&right.modified),
        };
        let compared = if self.descending { compared.reverse() } else { compared };
        // Folders come first, and what is equal goes by its name, whichever way the others go.
        is_file(left).cmp(&is_file(right)).then(compared).then_with(by_name)
    }
}

fn is_file(entry: &Entry) -> bool {
    entry.kind != EntryKind::Folder
}

fn size(entry: &Entry) -> u64 {
    if entry.kind == EntryKind::File { entry.length } else { 0 }
}

/// A listing that is being written.
#[derive(Debug)]
pub struct Listing {
    path: CleanPath,
    entries: Vec<Entry>,
    /// The folder has more than these.
    is_cut: bool,
    format: Format,
    order: Order,
    place: Place,
}

/// What is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Entry(usize),
    End,
}

impl Listing {
    /// A listing of `entries`, which it sorts; hidden ones are left out by whoever reads the folder. `path` is the folder's in the URL.
    /// `is_cut`: the folder has more than these.
    ///
    /// NOTE: sorting a hundred thousand names takes a tenth of a second.
    #[must_use]
    pub fn new(path: &CleanPath, mut entries: Vec<Entry>, is_cut: bool, format: Format, order: Order) -> Self {
        entries.sort_unstable_by(|left, right| order.compare(left, right));
        Self { path: path.folder(), entries, is_cut, format, order, place: Place::Start }
    }

    /// Whether all of it has been written.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.place == Place::End
    }

    /// Appends the next piece, of some 16 kB. Nothing once all of it has been written.
    pub fn write_piece(&mut self, types: &MimeTypes, out: &mut Vec<u8>) {
        let enough = out.len() + PIECE_BYTES;
        if self.place == Place::Start {
            match self.format {
                Format::Html => html::start(self, out),
                Format::Json => out.extend_from_slice(b"["),
                Format::Text => {}
            }
            self.place = Place::Entry(0);
        }
        while let Place::Entry(index) = self.place {
            if out.len() >= enough {
                return;
            }
            let Some(entry) = self.entries.get(index) else {
                match self.format {
                    Format::Html => html::end(self, out),
                    Format::Json => out.extend_from_slice(b"\n]\n"),
                    Format::Text => plain::text_end(self, out),
                }
                self.place = Place::End;
                return;
            };
            match self.format {
                Format::Html => html::row(entry, types, out),
                Format::Json => plain::json(entry, index == 0, out),
                Format::Text => plain::text(entry, out),
            }
            self.place = Place::Entry(index + 1);
        }
    }

    /// All that is left of it at once.
    #[must_use]
    pub fn write_rest(&mut self, types: &MimeTypes) -> Vec<u8> {
        let mut out = Vec::new();
        while !self.has_ended() {
            self.write_piece(types, &mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests;
