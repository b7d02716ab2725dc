//! What the crate that understands requests for files promises about any bytes.

use http::{Coding, HeaderId, RequestHead, ResponseHead, Version};
use web::{
    BodyPlan, CleanPath, ContentType, Entry, EntryKind, Listing, MimeTypes, PathRules, RangeLimits, Representation,
    Span, TryFiles, Users,
    htpasswd::StoredPassword,
    listing::{Format, Order},
    range::{self, Piece, Wanted},
};

/// The first byte says how; the rest is a target. No name leads upwards, and what a URL says of a path is that path.
pub fn path(data: &[u8]) {
    let Some((flags, target)) = data.split_first() else { return };
    let rules = PathRules { hidden: flags & 1 == 1 };
    let target = [b"/", target].concat();
    let Ok(path) = CleanPath::of_target(&target, rules) else { return };
    let relative = path.relative();
    assert!(!relative.is_empty() && !relative.starts_with(b"/") && !relative.contains(&0));
    let names: Vec<&[u8]> = relative.split(|byte| *byte == b'/').collect();
    assert!(names.iter().all(|name| !name.is_empty() && *name != b".."));
    assert!(names == [b"."] || names.iter().all(|name| *name != b"."));
    assert!(rules.hidden || names.iter().skip(1).all(|name| name[0] != b'.'));
    let mut url = Vec::new();
    path.push_url(&mut url);
    assert!(url.iter().all(|byte| byte.is_ascii_graphic()) && !url.starts_with(b"//"));
    assert_eq!(CleanPath::of_target(&url, rules).as_ref(), Ok(&path));
    let location = path.location_of_folder(None);
    assert!(CleanPath::of_target(&location, rules).is_ok_and(|folder| folder.is_folder()));
    if let Some(beneath) = path.beneath(&CleanPath::of_names(b"/a/").unwrap()) {
        assert_eq!(path.names().count(), beneath.names().count() + 1);
    }
    let files = TryFiles::parse(&["$uri", "$uri/", "$uri.html", "/x$uri/../y", "/index.php?$args"]).unwrap();
    for candidate in files.candidates(&path, rules) {
        assert!(candidate.path.names().all(|name| name != b".."));
    }
}

/// The first bytes are a length; the rest is a `Range`. The spans lie within the file, and are no longer than it together.
pub fn ranges(data: &[u8]) {
    let Some((length, value)) = data.split_first_chunk::<2>() else { return };
    let length = u64::from(u16::from_le_bytes(*length));
    let limits = RangeLimits::default();
    let is_within = |span: &Span| span.start < span.end && span.end <= length;
    let found = range::wanted(value, length, limits);
    match &found {
        Wanted::Part(span) => assert!(is_within(span)),
        Wanted::Parts(spans) => {
            assert!(spans.len() > 1 && spans.len() <= limits.ranges_max && spans.iter().all(is_within));
            assert!(spans.iter().map(|span| span.len()).sum::<u64>() <= length);
        }
        Wanted::Whole | Wanted::Unsatisfiable => {}
    }
    let mut request = RequestHead::new();
    request.start(b"GET", b"/", Version::Http11);
    request.headers.add_known(HeaderId::Range, value);
    let file = Representation {
        length,
        modified: 0,
        tag: b"\"a\"",
        content_type: ContentType { essence: "text/plain", charset: Some("utf-8") },
        coding: Some(Coding::Gzip),
        varies: true,
        expiry: None,
        ranges: limits,
        prepared: None,
    };
    let mut response = ResponseHead::new();
    let plan = web::respond::respond(&request, &file, 1_000_000, || 1, &mut response);
    let said = response.headers.first_known(HeaderId::ContentLength).and_then(|said| std::str::from_utf8(said).ok());
    let sent = match &plan {
        BodyPlan::Nothing => 0,
        BodyPlan::Whole => length,
        BodyPlan::Part(span) => span.len(),
        BodyPlan::Parts(parts) => parts
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.len() as u64,
                Piece::File(span) => span.len(),
            })
            .sum(),
    };
    assert_eq!(said, Some(sent.to_string().as_str()));
    assert_eq!(response.status() == 206, matches!(plan, BodyPlan::Part(_) | BodyPlan::Parts(_)));
}

/// Names, parted by slashes. The page has no markup of theirs, JSON and text a line for each.
pub fn listing(data: &[u8]) {
    let names: Vec<&[u8]> = data.split(|byte| matches!(byte, b'/' | 0)).filter(|name| !name.is_empty()).collect();
    let path = names.first().map_or(CleanPath::root(), |name| CleanPath::root().child(name).unwrap_or_default());
    let write = |format| {
        let entries: Vec<Entry> = names
            .iter()
            .map(|name| Entry { name: (*name).into(), kind: EntryKind::File, length: u64::MAX, modified: i64::MAX })
            .collect();
        let text = Listing::new(&path, entries, true, format, Order::default()).write_rest(&MimeTypes::built_in());
        String::from_utf8(text).expect("UTF-8")
    };
    let page = write(Format::Html);
    let empty = Listing::new(&CleanPath::root(), Vec::new(), true, Format::Html, Order::default());
    let rows = page.matches("<tr class=\"").count() - usize::from(!path.is_root());
    assert_eq!(rows, names.len());
    let count = |text: &str| ["<script", "<img", "<style", "<iframe", "<a "].map(|tag| text.matches(tag).count());
    let (with, without) = (
        count(&page),
        count(
            &String::from_utf8({
                let mut empty = empty;
                empty.write_rest(&MimeTypes::empty())
            })
            .unwrap(),
        ),
    );
    assert_eq!(with[..4], without[..4]);
    assert_eq!(write(Format::Json).lines().filter(|line| line.starts_with("{ \"name\"")).count(), names.len());
    assert_eq!(write(Format::Text).lines().count(), names.len() + 1);
}

/// A file of types, in either format. What can be read is asked.
pub fn mime_types(data: &[u8]) {
    let mut types = MimeTypes::empty();
    let read = types.read(data);
    for name in [&b"a.html"[..], b"a", data] {
        let found = types.of(name, Some("utf-8"));
        assert!(found.essence.contains('/') && !found.essence.contains(['\r', '\n']));
    }
    if let Err(error) = read {
        assert!(error.to_string().starts_with("line "));
    }
}

/// A file of users. What is read can be asked, but for what takes long on purpose.
pub fn htpasswd(data: &[u8]) {
    match Users::read(data) {
        Ok(users) => {
            for (name, stored) in users.iter().take(2) {
                assert!(!name.is_empty() && !name.contains(&b':') && !name.contains(&b'\n'));
                let debug = format!("{stored:?}");
                if !["Bcrypt", "Sha1Crypt", "Sha256", "Sha512"].iter().any(|form| debug.contains(form)) {
                    let _ = stored.is(b"secret");
                }
            }
        }
        Err(error) => assert!(error.to_string().starts_with("line ")),
    }
    let _ = StoredPassword::parse(data);
}
