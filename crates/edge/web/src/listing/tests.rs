use http::Version;
use proptest::prelude::*;

use super::*;

fn entry(name: &[u8], kind: EntryKind, length: u64, modified: i64) -> Entry {
    Entry { name: name.into(), kind, length, modified }
}

fn entries() -> Vec<Entry> {
    vec![
        entry(b"b10.txt", EntryKind::File, 5, 1_700_000_000),
        entry(b"B2.txt", EntryKind::File, 1_500_000, 1_600_000_000),
        entry(b"zoo", EntryKind::Folder, 4_096, 1_650_000_000),
        entry(b"a.png", EntryKind::File, 0, 1_750_000_000),
        entry(b"pipe", EntryKind::Other, 7, 0),
    ]
}

fn write(path: &str, entries: Vec<Entry>, is_cut: bool, format: Format, query: &str) -> String {
    let path = CleanPath::of_names(path.as_bytes()).unwrap();
    let mut listing = Listing::new(&path, entries, is_cut, format, Order::wanted(Some(query.as_bytes())));
    String::from_utf8(listing.write_rest(&MimeTypes::built_in())).unwrap()
}

#[track_caller]
fn check_order(query: &str, expected: &[&str]) {
    let json = write("/", entries(), false, Format::Json, query);
    let names: Vec<&str> = json
        .lines()
        .filter_map(|line| line.split_once("\"name\":\"")?.1.split_once('"'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, expected, "{query}");
}

#[test]
fn orders() {
    check_order("", &["zoo", "a.png", "B2.txt", "b10.txt", "pipe"]);
    check_order("sort=name&order=desc", &["zoo", "pipe", "b10.txt", "B2.txt", "a.png"]);
    check_order("sort=size&order=desc", &["zoo", "B2.txt", "b10.txt", "a.png", "pipe"]);
    check_order("sort=date", &["zoo", "pipe", "B2.txt", "b10.txt", "a.png"]);
    check_order("C=M;O=D", &["zoo", "a.png", "b10.txt", "B2.txt", "pipe"]);
    check_order("sort=what&order=ever&x", &["zoo", "a.png", "B2.txt", "b10.txt", "pipe"]);
}

#[test]
fn formats() {
    let check = |target: &str, accept: Option<&str>, expected: Format| {
        let mut request = RequestHead::new();
        request.start(b"GET", target.as_bytes(), Version::Http11);
        if let Some(accept) = accept {
            request.headers.add(b"Accept", accept.as_bytes());
        }
        assert_eq!(Format::wanted(&request), expected, "{target} {accept:?}");
    };
    check("/", None, Format::Html);
    check("/", Some("*/*"), Format::Html);
    check("/", Some("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"), Format::Html);
    check("/", Some("application/json"), Format::Json);
    check("/", Some("application/json, */*;q=0.5"), Format::Json);
    check("/", Some("text/plain"), Format::Text);
    check("/", Some("image/png"), Format::Html);
    check("/?format=json", Some("text/html"), Format::Json);
    check("/?sort=name&format=text", None, Format::Text);
    check("/?format=html", Some("application/json"), Format::Html);
    check("/?format=what", None, Format::Html);
}

#[test]
fn json_is_that_of_nginx() {
    assert_eq!(
        write("/", entries(), false, Format::Json, ""),
        "[\n\
         { \"name\":\"zoo\", \"type\":\"directory\", \"mtime\":\"Fri, 15 Apr 2022 05:20:00 GMT\" },\n\
         { \"name\":\"a.png\", \"type\":\"file\", \"mtime\":\"Sun, 15 Jun 2025 15:06:40 GMT\", \"size\":0 },\n\
         { \"name\":\"B2.txt\", \"type\":\"file\", \"mtime\":\"Sun, 13 Sep 2020 12:26:40 GMT\", \"size\":1500000 },\n\
         { \"name\":\"b10.txt\", \"type\":\"file\", \"mtime\":\"Tue, 14 Nov 2023 22:13:20 GMT\", \"size\":5 },\n\
         { \"name\":\"pipe\", \"type\":\"other\", \"mtime\":\"Thu, 01 Jan 1970 00:00:00 GMT\" }\n\
         ]\n"
    );
    assert_eq!(write("/", Vec::new(), false, Format::Json, ""), "[\n]\n");
    let odd = vec![entry(b"a\"b\\c\n\xff", EntryKind::Folder, 0, 0)];
    assert_eq!(
        write("/", odd, false, Format::Json, ""),
        "[\n{ \"name\":\"a\\\"b\\\\c\\u000a\u{fffd}\", \"type\":\"directory\", \"mtime\":\"Thu, 01 Jan 1970 00:00:00 GMT\", \
         \"url\":\"a%22b%5Cc%0A%FF\" }\n]\n"
    );
}

#[test]
fn text_for_terminals() {
    let mut all = entries();
    all.push(entry(b"x\x1b[31m\xff", EntryKind::File, 1, 0));
    assert_eq!(
        write("/", all, true, Format::Text, ""),
        "2022-04-15 05:20              -  zoo/\n\
         2025-06-15 15:06              0  a.png\n\
         2020-09-13 12:26        1500000  B2.txt\n\
         2023-11-14 22:13              5  b10.txt\n\
         1970-01-01 00:00              -  pipe\n\
         1970-01-01 00:00              1  x\\u{1b}[31m\\xff\n\
         # This folder has more entries. These are 6 of them, those that the disk names first.\n"
    );
}

#[test]
fn a_page() {
    let page = write("/docs/a & b/", entries(), false, Format::Html, "sort=size&order=desc");
    for part in [
        "<title>/docs/a &amp; b/</title>",
        "<li><a href=\"/\"><bdi>Home</bdi></a><li><a href=\"/docs/\"><bdi>docs</bdi></a>\
         <li><a href=\"/docs/a%20%26%20b/\" aria-current=\"page\"><bdi>a &amp; b</bdi></a>",
        "1 folder · 4 files · 1.4 MB",
        "<th scope=\"col\" class=\"size\" aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a>",
        "<th scope=\"col\" class=\"date\"><a href=\"?sort=date&amp;order=desc\">Modified</a>",
        "<a href=\"../\" rel=\"up\">Parent folder</a>",
        "<tr class=\"folder\"><td class=\"name\"><a href=\"./zoo/\"><bdi>zoo/</bdi></a><td class=\"size\"><td class=\"date\">",
        "<tr class=\"text\"><td class=\"name\"><a href=\"./B2.txt\"><bdi>B2.txt</bdi></a>\
         <td class=\"size\" title=\"1,500,000 bytes\">1.4 MB",
        "<time datetime=\"2023-11-14T22:13:20Z\">2023-11-14 22:13</time>",
        "<tr class=\"image\">",
        "<tr class=\"other\">",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("onclick") && !page.contains("style=\"") && !page.contains("http://127"));
    let root = write("/", Vec::new(), false, Format::Html, "");
    assert!(root.contains("This folder is empty.") && root.contains("0 files") && !root.contains("Parent folder"));
}

#[test]
fn names_stay_text() {
    let names: [&[u8]; 8] = [
        b"<script>alert(1)</script>",
        b"\"onmouseover=\"x",
        b"'&amp;",
        b"javascript:alert(1)",
        b"\xff\xfe.txt",
        "\u{202e}gpj.exe".as_bytes(),
        b"a\nb",
        "\u{4f60}\u{597d} \u{1f600}".as_bytes(),
    ];
    let page = write("/", names.map(|name| entry(name, EntryKind::File, 0, 0)).to_vec(), false, Format::Html, "");
    for part in [
        "<a href=\"./%3Cscript%3Ealert(1)%3C/script%3E\"><bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>",
        "<a href=\"./%22onmouseover=%22x\"><bdi>&quot;onmouseover=&quot;x</bdi>",
        "<a href=\"./%27%26amp%3B\"><bdi>&#39;&amp;amp;</bdi>",
        "<a href=\"./javascript:alert(1)\">",
        "<a href=\"./%FF%FE.txt\"><bdi>\u{fffd}\u{fffd}.txt</bdi>",
        "<bdi>\u{fffd}gpj.exe</bdi>",
        "<a href=\"./a%0Ab\"><bdi>a\u{fffd}b</bdi>",
        "<bdi>\u{4f60}\u{597d} \u{1f600}</bdi>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn sizes_and_numbers_are_readable() {
    for (bytes, expected) in [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_024, "1.0 kB"),
        (102_399, "100 kB"),
        (1_023_487, "999 kB"),
        (1_023_489, "1.0 MB"),
        (5 << 30, "5.0 GB"),
        (u64::MAX, "16.0 EB"),
    ] {
        let page = write("/", vec![entry(b"a", EntryKind::File, bytes, 0)], false, Format::Html, "");
        assert!(page.contains(&format!(" bytes\">{expected}<td")), "{bytes} {expected}");
    }
}

#[test]
fn a_large_folder_comes_in_pieces() {
    let many =
        (0..ENTRIES_MAX).map(|number| entry(format!("file {number}").as_bytes(), EntryKind::File, 1, 0)).collect();
    let mut listing = Listing::new(&CleanPath::root(), many, true, Format::Html, Order::default());
    let types = MimeTypes::built_in();
    let (mut rows, mut pieces, mut piece) = (0, 0, Vec::new());
    while !listing.has_ended() {
        piece.clear();
        listing.write_piece(&types, &mut piece);
        assert!(piece.len() < PIECE_BYTES * 3, "{}", piece.len());
        rows += String::from_utf8_lossy(&piece).matches("<tr class=").count();
        if pieces == 0 {
            let start = String::from_utf8_lossy(&piece);
            assert!(start.contains("These are 100,000 of them") && start.contains("100,000 files"), "{start}");
        }
        pieces += 1;
    }
    assert_eq!(rows, ENTRIES_MAX);
    assert!(pieces > 100);
    listing.write_piece(&types, &mut piece);
    assert!(String::from_utf8_lossy(&piece).ends_with("</html>\n"));
}

#[test]
fn the_policy_allows_the_page_and_nothing_else() {
    let policy = policy();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"));
}

proptest! {
    #[test]
    fn any_names(names in prop::collection::vec(prop::collection::vec(1_u8..=255, 1..30), 0..20)) {
        let entries: Vec<Entry> = names.iter().map(|name| entry(name, EntryKind::File, 1, i64::MIN)).collect();
        let count = entries.len();
        let page = write("/", entries.clone(), false, Format::Html, "");
        prop_assert_eq!(page.matches("<tr class=").count(), count);
        prop_assert_eq!(page.matches("<script>").count(), 1);
        let json = write("/", entries, false, Format::Json, "");
        prop_assert_eq!(json.lines().filter(|line| line.starts_with('{')).count(), count);
    }
}
