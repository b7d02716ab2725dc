//! ESI: what of a body is delivered, by table, and with the body in pieces of any size.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use bytes::Bytes;
use cache::esi::{Assembly, Include, Parser, Piece, Plan, Settings, Step, Target};
use proptest::prelude::*;

const PLAIN: Settings = Settings {
    disable_xml_check: false,
    ignore_other_elements: false,
    remove_bom: false,
    ignore_https: false,
    heeds_onerror: false,
};

struct Parsed {
    plan: Option<Plan>,
    notes: Vec<String>,
    errors: u64,
    warnings: u64,
}

fn parse(settings: Settings, body: &[u8], step: usize) -> Parsed {
    let mut parser = Parser::new(settings, b"/folder/page?query/x");
    body.chunks(step.max(1)).for_each(|piece| parser.parse(piece));
    let plan = parser.finish();
    let notes = parser.take_notes().iter().map(ToString::to_string).collect();
    Parsed { plan, notes, errors: parser.errors(), warnings: parser.warnings() }
}

fn name(target: &Target) -> String {
    let host = target.host.as_ref().map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    format!("{host}{}", String::from_utf8_lossy(&target.url))
}

fn show(include: &Include) -> String {
    let alt = include.alt.as_ref().map_or(String::new(), |alt| format!("|{}", name(alt)));
    let error = if include.continues_on_error { "?" } else { "" };
    format!("[{}{alt}{error}]", name(&include.target))
}

/// The page with includes as `[URL]`, its body in chunks of `step` bytes.
fn assemble(plan: &Plan, body: &[u8], step: usize) -> String {
    let mut assembly = Assembly::new(plan, 0, 5);
    let mut chunks = body.chunks(step.max(1));
    let mut page = Vec::new();
    loop {
        match assembly.step() {
            Step::Deliver(bytes) => page.extend_from_slice(&bytes),
            Step::Include(include) => page.extend_from_slice(show(include).as_bytes()),
            Step::NeedsChunk => assembly.push(Bytes::copy_from_slice(chunks.next().unwrap())),
            Step::TooDeep(_) => panic!("level 0"),
            Step::End => return String::from_utf8_lossy(&page).into_owned(),
        }
    }
}

/// `expected` with any pieces; a body without ESI is delivered as it is.
fn check(settings: Settings, body: &[u8], expected: &str, notes: &[&str]) {
    for step in [1, 2, 3, 5, 7, 8, 64, body.len()] {
        let parsed = parse(settings, body, step);
        let found = parsed.plan.as_ref().map(|plan| assemble(plan, body, step));
        let found = found.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        assert_eq!(found, expected, "{:?} in pieces of {step}", String::from_utf8_lossy(body));
        assert_eq!(parsed.notes, notes, "{:?} in pieces of {step}", String::from_utf8_lossy(body));
    }
}

#[test]
fn what_is_delivered() {
    const LACKS: &str = "ESI 1.0 <esi:include> lacks src attr";
    let error = |after: u32, text: &str| format!("ERR after {after} {text}");
    let cases: &[(&str, &str, &[String])] = &[
        ("", "", &[]),
        ("plain", "plain", &["No ESI processing, first char not '<'. (See feature esi_disable_xml_check)".into()]),
        ("<html>no ESI</html>", "<html>no ESI</html>", &[]),
        ("<esi:include src='/a'/>", "[/a]", &[]),
        ("\n <p>1<esi:include src=\"/a\"/>2</p>\n", "\n <p>1[/a]2</p>\n", &[]),
        ("<p><esi:include src=a.html />", "<p>[/folder/a.html]", &[]),
        ("<p><esi:include src='?x=1'/>", "<p>[/folder/?x=1]", &[]),
        ("<p><esi:include src='http://h:8/a'/>", "<p>[//h:8/a]", &[]),
        ("<p><esi:include src='/&lt;&gt;&amp;&apos;&quot;&x;'/>", "<p>[/<>&'\"&x;]", &[]),
        ("<p><esi:include onerror=\"continue\" src=\"/a\"/>", "<p>[/a?]", &[]),
        ("<p><esi:include onerror=\"stop\" src=\"/a\"/>", "<p>[/a]", &[]),
        ("<p><esi:include src='/a' alt='http://other/b'/>", "<p>[/a|//other/b]", &[]),
        ("<p><esi:include foo=bar x src='/a' y='z'/>", "<p>[/a]", &[]),
        ("<p><esi:include\n\tsrc='/a'\n/>", "<p>[/a]", &[]),
        ("<p>1<esi:remove>2<b>3</b></esi:remove>4", "<p>14", &[]),
        ("<p>1<esi:remove>2", "<p>1", &[]),
        ("<p>1<esi:comment text=\"2\"/>3", "<p>13", &[]),
        ("<p>1<!--esi 2<b>3</b> -->4", "<p>1 2<b>3</b> 4", &[]),
        ("<p>1<!--esi <esi:include src='/a'/>-->4", "<p>1 [/a]4", &[]),
        ("<p><!--esi a--b-c -->-->", "<p> a--b-c -->", &[]),
        (
            "<p><!-- <esi:include src='/a'/> --><!----><esi:remove></esi:remove>",
            "<p><!-- <esi:include src='/a'/> --><!---->",
            &[],
        ),
        ("<p><![CDATA[ <esi:include src='/a'/> ]]><esi:comment/>2", "<p><![CDATA[ <esi:include src='/a'/> ]]>2", &[]),
        ("<p><a title='<esi:remove>'>", "<p><a title='<esi:remove>'>", &[]),
        ("<p><esi:include src='/a'>2", "<p>[/a]2", &["WARN after 3 ESI 1.0 <esi:include> lacks final '/'".into()]),
        ("<p><esi:include/>2", "<p>2", &[error(3, LACKS)]),
        (
            "<p><esi:include src='/a' src='/b'/>2",
            "<p>2",
            &[error(3, "ESI 1.0 <esi:include> has multiple src= attributes")],
        ),
        ("<p><esi:include src='http://h'/>2", "<p>2", &[error(3, "ESI 1.0 <esi:include> invalid src= URL")]),
        (
            "<p><esi:include src='https://h/'/>2",
            "<p>2",
            &["WARN after 3 ESI 1.0 <esi:include> with https:// ignored".into()],
        ),
        ("<p><esi:include src='/a'/ >2", "<p>2", &[error(3, "XML 1.0 '>' does not follow '/' in tag")]),
        ("<p><esi:include% src='/a'/>2", "<p>2", &[error(3, "XML 1.0 Illegal attribute start char")]),
        // An attribute of a tag with an error does not count for the next one.
        (
            "<p><esi:include src='/a' %/><esi:include src='/b'/>2",
            "<p>[/b]2",
            &[error(3, "XML 1.0 Illegal attribute start char")],
        ),
        ("<p>1<esi:incl", "<p>1", &[error(4, "VEP ended inside a tag")]),
        ("<p>1<esi", "<p>1<esi", &[error(0, "VEP ended inside a tag")]),
    ];
    for (body, expected, notes) in cases {
        let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
        check(PLAIN, body.as_bytes(), expected, &notes);
    }
}

#[test]
fn features() {
    let include = b"text <esi:include src='/a'/>";
    check(Settings { disable_xml_check: true, ..PLAIN }, include, "text [/a]", &[]);
    check(
        Settings { ignore_https: true, ..PLAIN },
        b"<esi:include src='https://h/a'/>",
        "[//h/a]",
        &["WARN after 0 ESI 1.0 <esi:include> https:// treated as http://"],
    );
    let script = b"<script>if (a<b) <esi:include src='/a'/></script>";
    check(PLAIN, script, "<script>if (a<b) <esi:include src='/a'/></script>", &[]);
    check(Settings { ignore_other_elements: true, ..PLAIN }, script, "<script>if (a<b) [/a]</script>", &[]);
    for mark in [b"\xeb\xbb\xbf", b"\xef\xbb\xbf"] {
        let mut body = mark.to_vec();
        body.extend_from_slice(b"<p><esi:include src='/a'/>");
        check(Settings { remove_bom: true, ..PLAIN }, &body, "<p>[/a]", &[]);
        let parsed = parse(PLAIN, &body, 4);
        assert!(parsed.plan.is_none());
        assert_eq!(parsed.notes, ["No ESI processing, first char not '<' but BOM. (See feature esi_remove_bom)"]);
        assert_eq!((parsed.errors, parsed.warnings), (0, 0));
    }
}

/// What Varnish says where: a page with one mistake a line.
#[test]
fn mistakes_are_placed_as_by_varnish() {
    let body = b"<a>\n<esi:bogus/>\n<esi:comment>\n</esi:comment>\n<esi:remove>\n<esi:comment x/>\n<esi:remove>\n\
        </esi:remove>\n</esi:remove>\n<esi:remove/>\n<esi:include k?=1/>\n<esi:include src= />\n<esi:include src=/>\n\
        <esi:include src=\"/b 2\"/>\n";
    let line = |number: usize| body.split_inclusive(|byte| *byte == b'\n').take(number).map(<[u8]>::len).sum::<usize>();
    let expected = [
        (1, "ESI 1.0 <esi:bogus> element"),
        (2, "ESI 1.0 <esi:comment> needs final '/'"),
        (3, "ESI 1.0 </esi:comment> illegal end-tag"),
        (4, "ESI 1.0 <esi:comment> element nested in <esi:remove>"),
        (4, "ESI 1.0 <esi:remove> already open"),
        (8, "ESI 1.0 <esi:remove> not open"),
        (9, "ESI 1.0 <esi:remove/> not legal"),
        (10, "XML 1.0 Illegal attr char"),
        (11, "XML 1.0 Illegal attribute delimiter"),
        (12, "XML 1.0 Missing end attribute delimiter"),
        (13, "ESI 1.0 <esi:include> has whitespace in src= attribute"),
    ];
    let expected: Vec<String> =
        expected.iter().map(|(after, text)| format!("ERR after {} {text}", line(*after))).collect();
    for step in [1, 4, body.len()] {
        let parsed = parse(PLAIN, body, step);
        assert_eq!(parsed.notes, expected);
        assert_eq!(parsed.errors, expected.len() as u64);
    }
}

#[test]
fn bounds() {
    let body = b"<p><esi:include src='/a'/>";
    let plan = parse(PLAIN, body, 99).plan.unwrap();
    let mut assembly = Assembly::new(&plan, 5, 5);
    assert_eq!(assembly.step(), Step::NeedsChunk);
    assembly.push(Bytes::from_static(body));
    assert_eq!(assembly.step(), Step::Deliver(Bytes::from_static(b"<p>")));
    assert!(matches!(assembly.step(), Step::TooDeep(include) if *include.target.url == *b"/a"));
    assert_eq!(assembly.step(), Step::End);

    let long = format!("<p><esi:include src='/{}'/><esi:include src='/b'/>", "a".repeat(40_000));
    let parsed = parse(PLAIN, long.as_bytes(), 4096);
    assert_eq!(parsed.notes, ["ERR after 3 ESI 1.0 <esi:include> has an attribute of more than 32 kB"]);
    assert_eq!(assemble(&parsed.plan.unwrap(), long.as_bytes(), 4096), "<p>[/b]");

    let many = "<p><esi:bogus/>".repeat(1000);
    let parsed = parse(PLAIN, many.as_bytes(), 4096);
    assert_eq!((parsed.errors, parsed.notes.len()), (1000, 256));
}

/// Whatever comes: in pieces as in one, and the plan is as long as the body.
fn holds_for(settings: Settings, body: &[u8], step: usize) {
    let (whole, pieces) = (parse(settings, body, body.len()), parse(settings, body, step));
    assert_eq!(whole.plan, pieces.plan);
    assert_eq!(whole.errors, pieces.errors);
    if let Some(plan) = whole.plan {
        let length: u64 = plan
            .pieces
            .iter()
            .map(|piece| if let Piece::Deliver(bytes) | Piece::Skip(bytes) = piece { *bytes } else { 0 })
            .sum();
        assert_eq!(length, body.len() as u64);
        assert!(plan.memory_bytes() < 200 + 64 * body.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_body_in_any_pieces(
        words in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "/", "esi:", "<esi:include", "<esi:remove>", "</esi:remove>", "<esi:comment", "<!--", "<!--esi", "-->", "-", "!",
            " src=", " alt=", " onerror=", "'", "\"", "continue", "/a", "http://h/", "https://", "<![CDATA[", "]]>", "text", " ", "\n",
            "\u{feff}", "&amp;", "s", "<a>", "<!-",
        ]), 0..40),
        step in 1usize..9,
        flags in 0u8..16,
    ) {
        let settings = Settings {
            disable_xml_check: flags & 1 != 0,
            ignore_other_elements: flags & 2 != 0,
            remove_bom: flags & 4 != 0,
            ignore_https: flags & 8 != 0,
            heeds_onerror: flags & 16 != 0,
        };
        holds_for(settings, words.concat().as_bytes(), step);
    }

    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..200), step in 1usize..9) {
        holds_for(Settings { disable_xml_check: true, remove_bom: true, ..PLAIN }, &body, step);
    }
}
