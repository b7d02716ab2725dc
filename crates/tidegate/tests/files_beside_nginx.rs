//! Files beside Debian's nginx: the same requests to both, over the same folder. What differs stands here with its reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, FileTimes},
    net::SocketAddr,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use support::{Answer, Edge, Folder, Wire, free_address, nginx_with};

/// `Sun, 09 Sep 2001 01:46:40 GMT`, when all files were changed: `3b9aca00` in tags.
const MODIFIED: u64 = 1_000_000_000;
/// Fields that are compared.
const FIELDS: [&str; 11] = [
    "content-type",
    "content-length",
    "last-modified",
    "etag",
    "accept-ranges",
    "content-range",
    "content-encoding",
    "location",
    "cache-control",
    "expires",
    "vary",
];

/// Both servers, over the same folder.
struct Pair {
    ours: SocketAddr,
    theirs: SocketAddr,
    folder: Folder,
    _edge: Edge,
    _nginx: support::Peer,
}

impl Pair {
    /// `None` if nginx is not installed.
    fn start(our_lines: &str, their_lines: &str) -> Option<Self> {
        let (ours, theirs, folder) = (free_address(), free_address(), Folder::new());
        make_site(&folder.0.join("site"));
        let root = folder.0.join("site").display().to_string();
        let their_lines = format!(
            "include /etc/nginx/mime.types; default_type application/octet-stream; {}",
            their_lines.replace("ROOT", &root)
        );
        let nginx = nginx_with(theirs, "nginx", &their_lines)?;
        let edge = Edge::start(&format!(
            "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\nlisten files\n bind {ours}\n \
             mime-types /etc/nginx/mime.types\n charset off\n{}\n",
            our_lines.replace("ROOT", &root)
        ));
        Some(Self { ours, theirs, folder, _edge: edge, _nginx: nginx })
    }

    fn plain() -> Option<Self> {
        Self::start(" root ROOT", "location / { root ROOT; }")
    }

    /// What differs between the two answers to a request, nginx' first; empty if nothing does.
    fn difference(&self, request: &[u8]) -> String {
        let theirs = ask(self.theirs, request);
        let ours = ask(self.ours, request);
        let mut differences = Vec::new();
        let mut compare = |what: &str, theirs: &str, ours: &str| {
            if theirs != ours {
                differences.push(format!("{what} {theirs} | {ours}"));
            }
        };
        compare("status", &theirs.status().to_string(), &ours.status().to_string());
        if theirs.status() == ours.status() {
            for name in FIELDS {
                // Pages of errors are the proxy's own, as HAProxy has them.
                let is_of_page = match theirs.status() {
                    ..300 => false,
                    300..400 => matches!(name, "content-type" | "content-length"),
                    _ => matches!(name, "content-type" | "content-length" | "cache-control"),
                };
                if !is_of_page {
                    compare(name, &field(&theirs, name), &field(&ours, name));
                }
            }
            if theirs.status() < 300 {
                compare("body", &body(&theirs), &body(&ours));
            }
        }
        differences.join("; ")
    }

    #[track_caller]
    fn check(&self, cases: &[(&str, &str)]) {
        let mut wrong = Vec::new();
        for (request, expected) in cases {
            let found = self.difference(&raw(request));
            if found != *expected {
                wrong.push(format!("{request:?}\n   expected: {expected}\n   found:    {found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// `METHOD TARGET` and fields behind bars; `\xNN` is a byte. HTTP/1.1 unless the line says otherwise.
fn raw(case: &str) -> Vec<u8> {
    let mut lines = case.split(" | ");
    let first = lines.next().unwrap();
    let version = if first.contains(" HTTP/") { "" } else { " HTTP/1.1" };
    let mut text = format!("{first}{version}\r\nHost: site\r\nConnection: close\r\n");
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn ask(address: SocketAddr, request: &[u8]) -> Answer {
    Wire::connect(address).ask(request)
}

/// A field; addresses and boundaries are left out of it.
fn field(answer: &Answer, name: &str) -> String {
    let value = answer.field(name).unwrap_or("-");
    let value = match name {
        // nginx names itself, with its port.
        "location" => {
            value.split_once("//").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or(value)
        }
        "content-type" => value.split("; boundary=").next().unwrap(),
        _ => value,
    };
    value.to_owned()
}

/// The body, without the boundary of its parts.
fn body(answer: &Answer) -> String {
    let boundary = answer.field("content-type").and_then(|value| Some(value.split_once("boundary=")?.1.to_owned()));
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    match boundary {
        // Both have 20 digits, so lengths can be compared.
        Some(boundary) => {
            assert_eq!(boundary.len(), 20);
            text.replace(&boundary, "BOUNDARY")
        }
        None => text,
    }
}

fn make_site(site: &Path) {
    let write = |name: &[u8], content: &[u8]| {
        let path = site.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(MODIFIED);
        fs::File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(at)).unwrap();
    };
    write(b"index.html", b"<h1>top</h1>\n");
    write(b"style.css", b"p { margin: 0 }\n");
    write(b"style.css.gz", b"not really gzip\n");
    write(b"letters.txt", b"abcdefghijklmnopqrstuvwxyz");
    write(b"docs/index.html", b"<h1>docs</h1>\n");
    write(b"docs/a.txt", b"a\n");
    write(b"bare/b.txt", b"b\n");
    write(b"empty", b"");
    write(b"a b.txt", b"blank\n");
    write("\u{fc}.txt".as_bytes(), b"utf-8\n");
    write(b"\xff.txt", b"no utf-8\n");
    write(b"back\\slash", b"backslash\n");
    write(b"100%.txt", b"percent\n");
    write(b"a+b.txt", b"plus\n");
    write(b"what?.txt", b"question\n");
    write(b"sharp#.txt", b"sharp\n");
    write(b"semi;colon", b"semicolon\n");
    write(b"...", b"dots\n");
    write(b".hidden", b"hidden\n");
    write(b".git/config", b"secret\n");
    write(b".well-known/x", b"well known\n");
    write(b"../outside", b"outside\n");
    symlink("style.css", site.join("inside")).unwrap();
    symlink("../outside", site.join("outside")).unwrap();
    symlink("loop", site.join("loop")).unwrap();
    symlink("nowhere", site.join("dangling")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(site.join("pipe")).status().unwrap().success());
}

#[test]
fn paths() {
    let Some(pair) = Pair::plain() else { return };
    pair.check(&[
        ("GET /", ""),
        ("GET /index.html", ""),
        ("GET /docs", ""),
        ("GET /docs?x=1&y", ""),
        ("GET /docs/", ""),
        ("GET /docs/?x", ""),
        ("GET /bare/", ""),
        ("GET /bare", ""),
        ("GET /none", ""),
        ("GET /none/", ""),
        ("GET /docs/none", ""),
        ("GET /style.css", ""),
        ("GET /style.css?v=1", ""),
        ("GET /style.css/", ""),
        ("GET /style.css/x", ""),
        ("GET /empty", ""),
        ("GET /a%20b.txt", ""),
        ("GET /a+b.txt", ""),
        ("GET /a%2bb.txt", ""),
        ("GET /%c3%bc.txt", ""),
        ("GET /%ff.txt", ""),
        ("GET /100%25.txt", ""),
        ("GET /what%3f.txt", ""),
        ("GET /sharp%23.txt", ""),
        ("GET /semi;colon", ""),
        ("GET /back%5cslash", ""),
        ("GET /back%5Cslash", ""),
        ("GET http://site/style.css", ""),
        ("GET http://site", ""),
    ]);
}

#[test]
fn slashes_dots_and_ways_out() {
    let Some(pair) = Pair::plain() else { return };
    pair.check(&[
        ("GET /..", ""),
        ("GET /../", ""),
        ("GET /../outside", ""),
        ("GET /../../../../etc/passwd", ""),
        ("GET /docs/../../outside", ""),
        ("GET /%2e%2e/outside", ""),
        ("GET /..%2foutside", ""),
        ("GET /%2e%2e%2foutside", ""),
        ("GET /..%5coutside", ""),
        ("GET /docs/..%5c..%5coutside", ""),
        ("GET /..\\outside", ""),
        ("GET /%252e%252e/outside", ""),
        ("GET /..%252foutside", ""),
        ("GET /%c0%ae%c0%ae/outside", ""),
        ("GET /%c0%af..%c0%afoutside", ""),
        ("GET /%e0%80%ae%e0%80%ae/outside", ""),
        ("GET /....//outside", ""),
        ("GET /..;/outside", ""),
        ("GET /.../outside", ""),
        ("GET /docs/..;/outside", ""),
        ("GET //../outside", ""),
        ("GET /./../outside", ""),
        ("GET /%", ""),
        ("GET /%2", ""),
        ("GET /%zz", ""),
        ("GET /style.css%", ""),
        ("GET /style.css%00", ""),
        ("GET /style.css%00.html", ""),
        ("GET /%00", ""),
        ("GET /style.css%20", ""),
        ("GET /style.css.", ""),
        ("GET /STYLE.CSS", ""),
        ("GET /style.css%0a", ""),
        ("GET /inside", ""),
        ("GET /dangling", ""),
    ]);
    let long = format!("GET /{}", "a".repeat(300));
    let deep = format!("GET {}", "/a".repeat(1_000));
    pair.check(&[(&long, ""), (&deep, "")]);
}

/// A file has one path here; the others lead to it. So no condition on a path can be gone around.
#[test]
fn other_spellings_of_a_path() {
    let Some(pair) = Pair::plain() else { return };
    for (target, location) in [
        ("//docs//a.txt", "/docs/a.txt"),
        ("///", "/"),
        ("/docs/./a.txt", "/docs/a.txt"),
        ("/./docs/.", "/docs/"),
        ("/docs/../style.css", "/style.css"),
        ("/docs/..", "/"),
        ("/docs/%2e%2e/style.css", "/style.css"),
        ("/docs%2fa.txt", "/docs/a.txt"),
        ("/docs%2Fa.txt", "/docs/a.txt"),
        ("/docs/..%2fstyle.css", "/style.css"),
        ("/docs/.%2e/style.css", "/style.css"),
        ("/docs/x/../a.txt", "/docs/a.txt"),
        ("/docs/a.txt/../a.txt", "/docs/a.txt"),
        ("/%61%20b.txt", "/a%20b.txt"),
    ] {
        let request = raw(&format!("GET {target}"));
        assert_eq!(pair.difference(&request), "status 200 | 301", "{target}");
        assert_eq!(field(&ask(pair.ours, &request), "location"), location, "{target}");
        assert_eq!(pair.difference(&raw(&format!("GET {location}"))), "", "{target}");
    }
}

#[test]
fn what_only_nginx_serves() {
    let Some(pair) = Pair::plain() else { return };
    pair.check(&[
        // Names that begin with a dot are no names here.
        ("GET /.hidden", "status 200 | 404"),
        ("GET /.git/config", "status 200 | 404"),
        ("GET /%2egit/config", "status 200 | 404"),
        ("GET /...", "status 200 | 404"),
        ("GET /.well-known/x", ""),
        // A link that leads out of the folder leads nowhere.
        ("GET /outside", "status 200 | 404"),
        // A link that leads to itself is not there, which is no fault of ours.
        ("GET /loop", "status 403 | 404"),
        ("GET /pipe", ""),
    ]);
}

#[test]
fn methods_and_versions() {
    let Some(pair) = Pair::plain() else { return };
    pair.check(&[
        ("HEAD /", ""),
        ("HEAD /style.css", ""),
        ("HEAD /docs", ""),
        ("HEAD /none", ""),
        ("HEAD /empty", ""),
        ("GET /style.css HTTP/1.0", ""),
        ("POST /style.css | Content-Length: 0", ""),
        ("PUT /style.css | Content-Length: 0", ""),
        ("DELETE /style.css", ""),
        ("PATCH /style.css | Content-Length: 0", ""),
        // What may be asked is said.
        ("OPTIONS /style.css", "status 405 | 204"),
    ]);
}

#[test]
fn conditions() {
    let Some(pair) = Pair::plain() else { return };
    const AT: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
    const AFTER: &str = "Sun, 09 Sep 2001 01:46:41 GMT";
    let get = |fields: &str| format!("GET /style.css | {fields}");
    let same = [
        get("If-None-Match: \"3b9aca00-10\""),
        get("If-None-Match: W/\"3b9aca00-10\""),
        get("If-None-Match: \"x\", \"3b9aca00-10\""),
        get("If-None-Match: *"),
        get("If-None-Match: \"x\""),
        get("If-None-Match: 3b9aca00-10"),
        get(&format!("If-Modified-Since: {AT}")),
        get(&format!("If-Modified-Since: {BEFORE}")),
        get("If-Modified-Since: yesterday"),
        get("If-Modified-Since: Sunday, 09-Sep-01 01:46:40 GMT"),
        get("If-Modified-Since: Sun Sep  9 01:46:40 2001"),
        get("If-Match: \"3b9aca00-10\""),
        get("If-Match: *"),
        get("If-Match: \"x\""),
        get("If-Match: W/\"3b9aca00-10\""),
        get("If-Match: \"x\", \"3b9aca00-10\""),
        get(&format!("If-Unmodified-Since: {AT}")),
        get(&format!("If-Unmodified-Since: {BEFORE}")),
        get(&format!("If-Unmodified-Since: {AFTER}")),
        get(&format!("If-None-Match: \"3b9aca00-10\" | If-Modified-Since: {AT}")),
        get(&format!("If-None-Match: \"x\" | If-Modified-Since: {AT}")),
        get("If-Match: \"x\" | If-None-Match: \"3b9aca00-10\""),
        get("If-Match: \"3b9aca00-10\" | If-None-Match: \"3b9aca00-10\""),
        "HEAD /style.css | If-None-Match: \"3b9aca00-10\"".to_owned(),
        "HEAD /style.css | If-Match: \"x\"".to_owned(),
        "GET / | If-None-Match: \"3b9aca00-d\"".to_owned(),
    ];
    pair.check(&same.iter().map(|case| (case.as_str(), "")).collect::<Vec<_>>());
    pair.check(&[
        // RFC 9110 section 13.1.3: not modified since is not later. nginx wants the very time (`if_modified_since exact`).
        (&get(&format!("If-Modified-Since: {AFTER}")), "status 200 | 304"),
        // RFC 9110 section 13.1.4: what is no time is ignored.
        (&get("If-Unmodified-Since: yesterday"), "status 412 | 200"),
        // RFC 9110 section 13.1.3: a recipient ignores If-Modified-Since if there is If-None-Match. nginx wants both.
        (&get(&format!("If-None-Match: \"3b9aca00-10\" | If-Modified-Since: {BEFORE}")), "status 200 | 304"),
        // RFC 9110 section 13.2.2: If-Unmodified-Since is looked at only without If-Match. nginx wants both.
        (&get(&format!("If-Match: \"3b9aca00-10\" | If-Unmodified-Since: {BEFORE}")), "status 412 | 200"),
    ]);
}

#[test]
fn ranges() {
    let Some(pair) = Pair::plain() else { return };
    let get = |range: &str| format!("GET /letters.txt | Range: {range}");
    let same = [
        get("bytes=0-0"),
        get("bytes=0-4"),
        get("bytes=5-"),
        get("bytes=-3"),
        get("bytes=-300"),
        get("bytes=0-300"),
        get("bytes=25-25"),
        get("bytes=26-"),
        get("bytes=300-400"),
        get("bytes=-0"),
        get("bytes=0-1,3-4"),
        get("bytes=3-4,0-1"),
        get("bytes=0-1, 3-4 ,-2"),
        get("bytes=0-1,300-"),
        get("bytes=300-,400-"),
        get("bytes=0-,0-"),
        get("bytes=0-20,10-25"),
        get("bytes=0-99999999999999999"),
        get("bytes="),
        get("lines=0-1"),
        get("0-1"),
        get("bytes=0-4 | If-Range: \"3b9aca00-1a\""),
        get("bytes=0-4 | If-Range: \"x\""),
        get("bytes=0-4 | If-Range: Sun, 09 Sep 2001 01:46:40 GMT"),
        get("bytes=0-4 | If-Range: Sun, 09 Sep 2001 01:46:41 GMT"),
        get("bytes=300- | If-Range: \"x\""),
        get("bytes=0-4 | If-None-Match: \"3b9aca00-1a\""),
        get("bytes=0-4 | If-Match: \"x\""),
    ];
    pair.check(&same.iter().map(|case| (case.as_str(), "")).collect::<Vec<_>>());
    let malformed = "status 416 | 200";
    pair.check(&[
        // RFC 9110 section 14.2: what is malformed may be ignored, as our caches do.
        (&get("bytes=4-2"), malformed),
        (&get("bytes=a-b"), malformed),
        (&get("bytes=-"), malformed),
        (&get("bytes=0-1,x"), malformed),
        // RFC 9110 section 14.2: ranges are those of GET.
        ("HEAD /letters.txt | Range: bytes=0-4", "status 206 | 200"),
    ]);
}

#[test]
fn precompressed_files() {
    let Some(pair) =
        Pair::start(" root ROOT\n precompressed gzip", "location / { root ROOT; gzip_static on; gzip_vary on; }")
    else {
        return;
    };
    let gzip = "etag \"3b9aca00-10\" | \"3b9aca00-10-gzip\"; accept-ranges - | bytes";
    pair.check(&[
        // Another coding has another tag (RFC 9110 section 8.8.3): a cache must not mix them. So it may be asked for in ranges.
        ("GET /style.css | Accept-Encoding: gzip", gzip),
        ("GET /style.css | Accept-Encoding: gzip, deflate, br", gzip),
        ("GET /style.css | Accept-Encoding: br, GZIP;q=0.5", gzip),
        ("HEAD /style.css | Accept-Encoding: gzip", gzip),
        ("GET /style.css | Accept-Encoding: gzip;q=0", ""),
        ("GET /style.css | Accept-Encoding: identity", ""),
        ("GET /style.css", ""),
        ("GET /letters.txt | Accept-Encoding: gzip", ""),
        ("GET /letters.txt", ""),
    ]);
}

#[test]
fn how_long_files_are_kept() {
    for words in ["epoch", "max", "-1", "0", "1h", "30d", "modified 1h", "modified 100y", "off"] {
        let Some(pair) = Pair::start(
            &format!(" root ROOT\n expires {words}"),
            &format!("location / {{ root ROOT; expires {words}; }}"),
        ) else {
            return;
        };
        // The clock may have gone on between the two.
        let is_same = (0..10).any(|_| pair.difference(&raw("GET /style.css")).is_empty());
        assert!(is_same, "{words}: {}", pair.difference(&raw("GET /style.css")));
        assert_eq!(pair.difference(&raw("GET /none")), "", "{words}");
    }
}

/// Each extension of nginx' own table.
#[test]
fn types() {
    let Some(pair) = Pair::plain() else { return };
    let table = fs::read_to_string("/etc/nginx/mime.types").unwrap();
    let extensions: BTreeSet<&str> = table
        .lines()
        .filter(|line| line.contains('/'))
        .flat_map(|line| line.trim_end_matches(';').split_whitespace().skip(1))
        .map(|word| word.trim_end_matches(';'))
        .filter(|word| !word.is_empty() && !word.contains('/'))
        .collect();
    assert!(extensions.len() > 60, "{}", extensions.len());
    for extension in &extensions {
        fs::write(pair.folder.0.join("site").join(format!("file.{extension}")), "x").unwrap();
    }
    for extension in extensions {
        let request = raw(&format!("HEAD /file.{extension}"));
        let (theirs, ours) = (ask(pair.theirs, &request), ask(pair.ours, &request));
        assert_eq!(field(&ours, "content-type"), field(&theirs, "content-type"), "{extension}");
    }
}

/// JSON of a folder: the same entries, whose order differs: `chapter2` stands before `chapter10` here.
#[test]
fn listings_for_programs() {
    let Some(pair) =
        Pair::start(" root ROOT\n autoindex on", "location / { root ROOT; autoindex on; autoindex_format json; }")
    else {
        return;
    };
    let folder = pair.folder.0.join("site/list");
    for name in ["b", "a\"b", "c\\d", "z/x", "chapter10", "chapter2", "\u{4f60}.txt"] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    fs::write(folder.join("large"), vec![b'x'; 100_000]).unwrap();
    let lines = |answer: &Answer| -> BTreeSet<String> {
        assert_eq!((answer.status(), field(answer, "content-type").as_str()), (200, "application/json"));
        let text = answer.text();
        text.lines().map(|line| line.trim().trim_end_matches(',').to_owned()).filter(|line| line.len() > 1).collect()
    };
    let theirs = lines(&ask(pair.theirs, &raw("GET /list/")));
    let ours = lines(&ask(pair.ours, &raw("GET /list/?format=json")));
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 8);
    assert_eq!(pair.difference(&raw("GET /list")), "");
}
