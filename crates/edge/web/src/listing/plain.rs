//! Listings for programs: JSON as nginx writes it, and lines of text.

use basics::Date;
use http::http_date;

use super::{Entry, EntryKind, Listing};
use crate::path::push_url;

/// An entry of `autoindex_format json`. A name that is no UTF-8 cannot stand in JSON: it has U+FFFD there, and `url` has the name.
pub fn json(entry: &Entry, is_first: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_first { b"\n{ \"name\":\"" } else { b",\n{ \"name\":\"" });
    let name = String::from_utf8_lossy(&entry.name);
    for letter in name.chars() {
        match letter {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\u{0}'..='\u{1f}' | '\u{7f}' => out.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes()),
            letter => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let kind = match entry.kind {
        EntryKind::Folder => "directory",
        EntryKind::File => "file",
        EntryKind::Other => "other",
    };
    out.extend_from_slice(b"\", \"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\", \"mtime\":\"");
    out.extend_from_slice(&http_date(u64::try_from(entry.modified).unwrap_or(0)));
    out.push(b'"');
    if entry.kind == EntryKind::File {
        out.extend_from_slice(format!(", \"size\":{}", entry.length).as_bytes());
    }
    if matches!(name, std::borrow::Cow::Owned(_)) {
        out.extend_from_slice(b", \"url\":\"");
        push_url(&entry.name, out);
        out.push(b'"');
    }
    out.extend_from_slice(b" }");
}

/// `2026-11-29 04:22        612  name`, as `ls` has it; folders end with a slash. What a terminal would obey is written out.
pub fn text(entry: &Entry, out: &mut Vec<u8>) {
    let Date { year, month, day, hour, minute, .. } = Date::at(entry.modified);
    let size = if entry.kind == EntryKind::File { entry.length.to_string() } else { "-".to_owned() };
    out.extend_from_slice(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} {size:>14}  ").as_bytes());
    for chunk in entry.name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                letter if letter.is_control() => out.extend_from_slice(letter.escape_unicode().to_string().as_bytes()),
                letter => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
    if entry.kind == EntryKind::Folder {
        out.push(b'/');
    }
    out.push(b'\n');
}

/// Says that there is more, if so.
pub fn text_end(listing: &Listing, out: &mut Vec<u8>) {
    if listing.is_cut {
        out.extend_from_slice(format!("# {}\n", super::html::cut_sentence(listing.entries.len())).as_bytes());
    }
}
