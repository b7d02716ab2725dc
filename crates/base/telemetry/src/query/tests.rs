#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::ring::Tag;

fn entry(level: u32, transaction: u64, tag: Tag, text: &str) -> Entry<'_> {
    Entry { level, transaction, tag: tag.number(), text: text.as_bytes() }
}

/// A session with a request.
fn group() -> Vec<Entry<'static>> {
    vec![
        entry(1, 4, Tag::Begin, "sess 0 HTTP/1"),
        entry(1, 4, Tag::SessClose, "closed 0.5"),
        entry(2, 5, Tag::ReqStart, "127.0.0.1 41224 web"),
        entry(2, 5, Tag::ReqMethod, "GET"),
        entry(2, 5, Tag::ReqURL, "/foo?a=b"),
        entry(2, 5, Tag::ReqHeader, "X-N: 12abc"),
        entry(2, 5, Tag::ReqHeader, "X-F: 2.9 rest"),
        entry(2, 5, Tag::ReqHeader, "X-Neg: -3"),
        entry(2, 5, Tag::ReqHeader, "X-Hex: 0x10"),
        entry(2, 5, Tag::ReqHeader, "X-S: 3 4"),
        entry(2, 5, Tag::ReqHeader, r#"User-Agent: x.y\z "q" 1.5 abc"#),
        entry(2, 5, Tag::RespStatus, "200"),
        entry(2, 5, Tag::RespReason, "fine"),
        entry(2, 5, Tag::Timestamp, "Resp: 1795251537.622063 0.801165 0.801165"),
    ]
}

/// What varnishlog 7.1 answers to the same queries about the same records, a session's level apart.
#[test]
fn records_are_found_as_varnish_finds_them() {
    let group = group();
    for (query, expected) in [
        ("RespStatus == 200", true),
        ("RespStatus==200", true),
        ("respstatus == 200", true),
        ("RespS == 200", true),
        ("RespStatus != 200", false),
        ("not RespStatus == 200", false),
        ("RespStatus eq 200", true),
        ("RespStatus ne 200", false),
        ("RespStatus == 200.5", false),
        ("RespStatus < 200.5", true),
        ("RespStatus >= 200 and RespStatus < 300", true),
        ("RespStatus > 200 or RespStatus <= 199", false),
        ("ReqHeader:x-n == 12", true),
        ("ReqHeader:x-f == 2", true),
        ("ReqHeader:x-f > 2", false),
        ("ReqHeader:x-f > 2.5", true),
        ("ReqHeader:x-f[1] == 2.9", true),
        ("ReqHeader:x-neg < 0", true),
        ("ReqHeader:x-neg == -3", true),
        ("ReqHeader:x-hex == 0", true),
        ("ReqHeader:x-s[2] == 4", true),
        ("ReqHeader:x-s [2] == 4", true),
        ("ReqHeader:x-s[3]", false),
        ("ReqHeader:x-s[3] != 5", false),
        ("ReqHeader:x-t", false),
        ("not ReqHeader:x-t", true),
        ("ReqHeader:x", false),
        ("ReqHeader:\"x-n\"", true),
        ("ReqHeader ~ \"^X-N: 12\"", true),
        (r#"ReqHeader:user-agent ~ "x\.y""#, true),
        (r#"ReqHeader:user-agent ~ "y\\\\z""#, true),
        (r#"ReqHeader:user-agent ~ "\"q\"""#, true),
        (r#"ReqHeader:user-agent ~ '"q"'"#, true),
        (r#"ReqHeader:user-agent ~ '\\w\\s'"#, true),
        ("ReqURL ~ FOO", false),
        ("ReqURL !~ foo", false),
        ("ReqURL ~ \"(?i)FOO\"", true),
        ("ReqURL ~ \"foo(?=\\\\?)\"", true),
        ("ReqURL ~ \"foo(?=b)\"", false),
        ("ReqURL eq '/foo?a=b'", true),
        ("ReqURL ne \"/foo\"", true),
        ("ReqMethod == 0", false),
        ("vxid == 5", true),
        ("vxid > 5", false),
        ("vxid != 5", true),
        ("{1}RespStatus", false),
        ("{2}RespStatus", true),
        ("{2+}RespStatus", true),
        ("{1-}RespStatus", false),
        ("{3-}RespStatus", true),
        ("{0}RespStatus", false),
        ("ReqStart[1] eq 127.0.0.1", true),
        ("Timestamp:Resp[2] > 0.8", true),
        ("Timestamp:resp[2] > 1.", false),
        ("Timestamp[1] eq \"Resp:\"", true),
        ("*Status == 200", true),
        ("Beresp* == 200", false),
        ("ReqURL,RespStatus == 200", true),
        ("ReqURL, Resp* ~ fine", true),
        ("*", true),
    ] {
        assert_eq!(Query::parse(query).unwrap().matches(&group), expected, "{query}");
    }
}

#[test]
fn expressions_bind_as_in_varnish() {
    let group = group();
    for (query, expected) in [
        // `and` before `or`, `not` before both.
        ("ReqURL or ReqURL and Error", true),
        ("(ReqURL or ReqURL) and Error", false),
        ("not Error and ReqURL", true),
        ("not (Error and ReqURL)", true),
        ("not(Error or ReqURL)", false),
        ("not not ReqURL", true),
        // One a line, and one of them is enough.
        ("Error\n\n# nothing\nReqURL # here\n", true),
        ("Error\nRetry", false),
        ("RespStatus \\\n >= \\\n 200", true),
    ] {
        assert_eq!(Query::parse(query).unwrap().matches(&group), expected, "{query}");
    }
    let both = Query::any(["Error", "ReqURL"].map(|text| Query::parse(text).unwrap())).unwrap();
    assert!(both.matches(&group) && !both.matches(&[]));
    assert!(Query::any([]).is_none());
}

/// The message and the part of the query that it is about.
fn error(query: &str) -> (String, &str) {
    let error = Query::parse(query).map(|_| ()).unwrap_err();
    (error.message, query.get(error.range).unwrap())
}

#[test]
fn errors_say_where_and_what_to_write() {
    for (query, place, message) in [
        ("RespStatus:503", "RespStatus:503", "write RespStatus == 503"),
        ("RespStatus:03", "RespStatus:03", "write RespStatus == 03"),
        ("ReqURL:/basket", "ReqURL:/basket", "write ReqURL ~ \"/basket\""),
        ("Error or Backend:sites dune", "Backend:sites", "write Backend ~ \"sites\""),
        ("RespStaus == 503", "RespStaus", "there is no tag 'RespStaus'; near to it: RespStatus"),
        ("Status == 503", "Status", "near to it: RespStatus, BerespStatus"),
        ("Zebra", "Zebra", "there is no tag 'Zebra' (`tidegate log --tags`"),
        ("Zebra*", "Zebra*", "there is no tag 'Zebra*'"),
        ("Resp == 200", "Resp", "several tags begin with 'Resp': RespProtocol, RespStatus"),
        ("*eq*", "*eq*", "one * only"),
        ("RespStatus == abc", "abc", "'abc' is no number; write eq abc"),
        ("RespStatus != \"a b\"", "\"a b\"", "write ne \"a b\""),
        ("RespStatus > abc", "abc", "'abc' is no number, and this compares numbers"),
        ("RespStatus == 1e999", "1e999", "no number"),
        ("RespStatus == ", "", "the query ends here; expected a number"),
        ("RespStatus 503", "503", "'503' cannot stand here; expected an operator"),
        ("RespStatus = 503", "=", "write == for numbers and eq for text"),
        ("RespStatus ! 503", "!", "write not before an expression"),
        ("Error && ReqURL", "&", "write and"),
        ("Error || ReqURL", "|", "write or"),
        ("ReqURL eq /foo", "/foo", "\"/foo\" needs its quotes"),
        ("ReqURL eq and", "and", "'and' cannot stand here"),
        ("ReqURL ~ \"(\"", "\"(\"", "'(' is no regular expression: unclosed group"),
        (r#"ReqURL ~ "\d""#, r#""\d""#, r#"write two of them: "\\d""#),
        ("ReqURL eq \"a", "\"a", "has no end; put a \" behind it"),
        ("(Error", "", "expected ')' for the '(' before it"),
        ("Error)", ")", "')' cannot stand here; expected the end, 'and' or 'or'"),
        ("Error and", "", "expected a tag"),
        ("not\nError", "", "expected a tag"),
        ("vxid ~ 5", "~", "the number of a transaction"),
        ("vxid == 1.5", "1.5", "the number of a transaction"),
        ("{x}Error", "x", "a level"),
        ("{1 +}Error", "+", "'}' behind the level"),
        ("{+1}Error", "+1", "a level"),
        ("Timestamp:Resp[0]", "0", "from 1 on"),
        ("ReqHeader:", "", "the name before the colon"),
        ("", "", "the query is empty"),
        ("# only\n", "# only\n", "the query is empty"),
    ] {
        let (said, at) = error(query);
        assert!(said.contains(message), "{query}: {said}");
        assert_eq!(at, place, "{query}");
    }
    let deep = "(".repeat(DEPTH_MAX + 1);
    assert!(error(&deep).0.contains("within one another"));
    assert!(error(&"(".repeat(QUERY_BYTES_MAX + 1)).0.contains("a query may have 65536 bytes"));
}

#[test]
fn the_place_is_marked() {
    let show = |query: &str| Query::parse(query).map(|_| ()).unwrap_err().show(query);
    assert!(show("Error or RespStatus:503").ends_with("\n  Error or RespStatus:503\n           ^^^^^^^^^^^^^^"));
    assert!(show("Error\nReqURL eq é\nError").ends_with("\n  ReqURL eq é\n            ^"));
    assert!(show("Error and").ends_with("\n  Error and\n           ^"));
    // A long line is cut, which is seen.
    let long = format!("{} Zebra {}", "Error or ".repeat(30), "or Error".repeat(30));
    let shown = show(&long);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("  ...") && lines[1].ends_with("..."), "{shown}");
    let column = lines[2].find('^').unwrap();
    assert_eq!(lines[1].get(column..column + lines[2].trim_start().len()), Some("Zebra"));
}

#[test]
fn a_pattern_that_goes_back_for_ever_matches_nothing() {
    let text = "a".repeat(40);
    let group = [entry(1, 1, Tag::ReqURL, &text)];
    assert!(!Query::parse("ReqURL ~ '^(?=(a+)+b)'").unwrap().matches(&group));
    assert!(Query::parse("ReqURL ~ '^(?=a)'").unwrap().matches(&group));
}

#[test]
fn it_says_which_tags_it_asks_about() {
    let query =
        Query::parse("RespStatus == 1 and not (ReqHeader:host or Bereq*) or vxid == 1 or Health,Error").unwrap();
    let tags = query.tags();
    for (tag, expected) in
        [(Tag::RespStatus, true), (Tag::ReqHeader, true), (Tag::BereqURL, true), (Tag::ReqURL, false)]
    {
        assert_eq!(tags.contains(&tag), expected, "{tag:?}");
    }
    let never = query.never_found();
    assert!(never.contains(&Tag::ReqHeader) && never.contains(&Tag::BereqURL), "{never:?}");
    assert!(
        !never.contains(&Tag::RespStatus) && !never.contains(&Tag::Error),
        "{never:?}: checks of servers are written"
    );
}
