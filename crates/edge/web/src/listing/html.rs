//! A listing as a page: readable without scripts and without a style, and not loading anything from anywhere.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use basics::{Date, many};
use sha2::{Digest, Sha256};

use super::{Column, Entry, EntryKind, Listing, Order};
use crate::{mime::MimeTypes, path::push_url};

const STYLE: &str = include_str!("../../assets/listing.css");
const SCRIPT: &str = include_str!("../../assets/listing.js");

/// What the page may load and do, as a `Content-Security-Policy`: its own style and script, by their digests, and nothing else.
#[must_use]
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'self'",
            digest(STYLE),
            digest(SCRIPT)
        )
    });
    &POLICY
}

/// What is said of a folder with more entries than are shown.
pub fn cut_sentence(shown: usize) -> String {
    format!(
        "This folder has more entries. These are {} of them, those that the disk names first.",
        grouped(shown as u64)
    )
}

/// All that stands before the first entry.
pub fn start(listing: &Listing, out: &mut Vec<u8>) {
    let mut title = Vec::new();
    push_text(listing.path.as_bytes(), &mut title);
    push(out, &["<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"]);
    out.extend_from_slice(&title);
    push(
        out,
        &[
            "</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"",
            webpage::ICON,
            "\">\n<style>",
            STYLE,
            "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#entries\">Skip to the entries</a>\n<header>\n",
        ],
    );
    breadcrumbs(listing, out);
    summary(listing, out);
    push(out, &["</header>\n<main id=\"entries\">\n"]);
    if listing.is_cut {
        push(out, &["<p class=\"note\" role=\"note\">", &cut_sentence(listing.entries.len()), "</p>\n"]);
    }
    push(out, &["<table>\n<thead><tr>"]);
    for (column, word, class) in
        [(Column::Name, "Name", "name"), (Column::Size, "Size", "size"), (Column::Date, "Modified", "date")]
    {
        heading(listing.order, column, word, class, out);
    }
    push(out, &["</tr></thead>\n<tbody>\n"]);
    if !listing.path.is_root() {
        push(
            out,
            &[
                "<tr class=\"up\"><td class=\"name\"><a href=\"../\" rel=\"up\">Parent folder</a><td class=\"size\"><td class=\"date\">\n",
            ],
        );
    }
}

/// Links to the folders above, from the root on.
fn breadcrumbs(listing: &Listing, out: &mut Vec<u8>) {
    push(out, &["<nav aria-label=\"Path\"><ol>"]);
    let mut url = b"/".to_vec();
    let depth = listing.path.names().count();
    let mut crumb = |url: &[u8], name: &[u8], is_here: bool| {
        push(out, &["<li><a href=\""]);
        out.extend_from_slice(url);
        push(out, &[if is_here { "\" aria-current=\"page\">" } else { "\">" }]);
        push(out, &["<bdi>"]);
        push_text(name, out);
        push(out, &["</bdi></a>"]);
    };
    crumb(&url, b"Home", depth == 0);
    for (place, name) in listing.path.names().enumerate() {
        push_url(name, &mut url);
        url.push(b'/');
        crumb(&url, name, place + 1 == depth);
    }
    push(out, &["</ol></nav>\n"]);
}

/// How much is there, and where to look for a name.
fn summary(listing: &Listing, out: &mut Vec<u8>) {
    let folders = listing.entries.iter().filter(|entry| entry.kind == EntryKind::Folder).count();
    let files = listing.entries.len() - folders;
    let bytes = listing.entries.iter().map(super::size).fold(0, u64::saturating_add);
    let mut parts = Vec::new();
    if folders > 0 {
        parts.push(counted(folders, "folder"));
    }
    if files > 0 || folders == 0 {
        parts.push(counted(files, "file"));
    }
    if files > 0 {
        parts.push(readable_size(bytes));
    }
    push(out, &["<p class=\"sum\" id=\"sum\">", &parts.join(" · "), "</p>\n"]);
    push(
        out,
        &[
            "<label class=\"find\" hidden><span>Filter</span><input type=\"search\" id=\"find\" placeholder=\"Filter by name\" \
            autocomplete=\"off\" spellcheck=\"false\" aria-keyshortcuts=\"/\"><kbd>/</kbd></label>\n",
        ],
    );
}

fn counted(count: usize, noun: &str) -> String {
    if count < 1_000 {
        many(count as u64, noun, &format!("{noun}s"))
    } else {
        format!("{} {noun}s", grouped(count as u64))
    }
}

fn heading(order: Order, column: Column, word: &str, class: &str, out: &mut Vec<u8>) {
    let is_sorted = order.by == column;
    let (aria, turned) = match (is_sorted, order.descending) {
        (true, true) => (" aria-sort=\"descending\"", "asc"),
        (true, false) => (" aria-sort=\"ascending\"", "desc"),
        // The largest and the newest are what people look for first.
        (false, _) => ("", if column == Column::Name { "asc" } else { "desc" }),
    };
    let sort = match column {
        Column::Name => "name",
        Column::Size => "size",
        Column::Date => "date",
    };
    push(
        out,
        &[
            "<th scope=\"col\" class=\"",
            class,
            "\"",
            aria,
            "><a href=\"?sort=",
            sort,
            "&amp;order=",
            turned,
            "\">",
            word,
            "</a>",
        ],
    );
}

/// A line of the table.
pub fn row(entry: &Entry, types: &MimeTypes, out: &mut Vec<u8>) {
    let is_folder = entry.kind == EntryKind::Folder;
    let slash = if is_folder { "/" } else { "" };
    push(out, &["<tr class=\"", icon(entry, types), "\"><td class=\"name\">"]);
    // `./` before it: a name such as `mailto:x` is no other scheme.
    push(out, &["<a href=\"./"]);
    push_url(&entry.name, out);
    push(out, &[slash, "\"><bdi>"]);
    push_text(&entry.name, out);
    push(out, &[slash, "</bdi></a><td class=\"size\""]);
    if entry.kind == EntryKind::File {
        push(out, &[" title=\"", &grouped(entry.length), " bytes\">", &readable_size(entry.length)]);
    } else {
        push(out, &[">"]);
    }
    let Date { year, month, day, hour, minute, second, .. } = Date::at(entry.modified);
    let (date, time) = (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}"));
    push(
        out,
        &[
            "<td class=\"date\"><time datetime=\"",
            &date,
            "T",
            &time,
            &format!(":{second:02}Z\">"),
            &date,
            " ",
            &time,
            "</time>\n",
        ],
    );
}

/// All that stands behind the last entry.
pub fn end(listing: &Listing, out: &mut Vec<u8>) {
    push(out, &["</tbody>\n</table>\n<p class=\"none\" id=\"none\""]);
    push(
        out,
        &[
            if listing.entries.is_empty() { ">This folder is empty." } else { " role=\"status\" hidden>" },
            "</p>\n</main>\n",
        ],
    );
    push(
        out,
        &[
            "<footer><a href=\"?format=json\">JSON</a> <a href=\"?format=text\">Text</a> <span id=\"zone\">Times are UTC</span> \
             <span>Tidegate</span></footer>\n<script>",
            SCRIPT,
            "</script>\n</body>\n</html>\n",
        ],
    );
}

/// The class that gives an entry its picture.
fn icon(entry: &Entry, types: &MimeTypes) -> &'static str {
    match entry.kind {
        EntryKind::Folder => return "folder",
        EntryKind::Other => return "other",
        EntryKind::File => {}
    }
    let essence = types.of(&entry.name, None).essence;
    let (kind, subtype) = essence.split_once('/').unwrap_or_default();
    let has = |parts: &[&str]| parts.iter().any(|part| subtype.contains(part));
    match kind {
        "image" => "image",
        "audio" => "audio",
        "video" => "video",
        "font" => "text",
        "text" if has(&["html", "css", "javascript", "xml"]) => "code",
        "text" => "text",
        "application" if has(&["json", "xml", "wasm", "javascript"]) && !has(&["openxml"]) => "code",
        "application"
            if has(&[
                "pdf",
                "word",
                "document",
                "spreadsheet",
                "presentation",
                "excel",
                "powerpoint",
                "epub",
                "rtf",
            ]) =>
        {
            "document"
        }
        "application"
            if has(&[
                "zip", "tar", "compress", "zstd", "rar", "brotli", "bzip", "xz", "archive", "package", "rpm", "iso",
                "disk",
            ]) =>
        {
            "archive"
        }
        _ => "file",
    }
}

/// `1.5 MB`, where 1024 of one are one of the next, as on the other pages.
fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = bytes as f64 / 1_024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        value /= 1_024.0;
        unit = next;
    }
    if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn push(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends a name as text of HTML: what is no UTF-8, no letter, or turns the direction of writing is U+FFFD.
fn push_text(name: &[u8], out: &mut Vec<u8>) {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '&' => push(out, &["&amp;"]),
                '<' => push(out, &["&lt;"]),
                '>' => push(out, &["&gt;"]),
                '"' => push(out, &["&quot;"]),
                '\'' => push(out, &["&#39;"]),
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => push(out, &["\u{fffd}"]),
                letter if letter.is_control() => push(out, &["\u{fffd}"]),
                letter => push(out, &[letter.encode_utf8(&mut [0; 4])]),
            }
        }
        if !chunk.invalid().is_empty() {
            push(out, &["\u{fffd}"]);
        }
    }
}
