//! RFC 9111 by data: each row cites what it is about.

use cache::policy::{
    conditional::{self, Outcome},
    directives::{RequestDirectives, ResponseDirectives},
    freshness::{self, Exchange, Heuristic, LifetimeSource},
    invalidation,
    range::{self, Wanted},
    reuse::{self, Reuse, Stored, WhyValidate},
    storing::{self, NotStored},
    update::{self, HeadSays},
    vary,
};
use http::{Headers, Method};

/// Sun, 06 Nov 1994 08:49:37 GMT
const NOW: i64 = 784_111_777;
const EXCHANGE: Exchange = Exchange { requested: NOW, received: NOW };
const TENTH: Heuristic = Heuristic::LastModified { part: 0.1, most: 86_400 };

/// `name: value` lines.
fn headers(lines: &str) -> Headers {
    let mut headers = Headers::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        headers.add(name.as_bytes(), value.trim().as_bytes());
    }
    headers
}

fn lifetime(status: u16, lines: &str) -> (u64, LifetimeSource) {
    let headers = headers(lines);
    let (directives, targeted) = ResponseDirectives::of(&headers, &[b"cdn-cache-control"]);
    let lifetime = freshness::lifetime(status, &headers, &directives, targeted, EXCHANGE, TENTH);
    (lifetime.seconds, lifetime.source)
}

#[test]
fn lifetimes() {
    use LifetimeSource::{Expires, Heuristic, MaxAge, Nothing, SMaxage};
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\n";
    let cases: &[(&str, &str, (u64, LifetimeSource))] = &[
        ("4.2.1 shared caches take s-maxage", "Cache-Control: max-age=10, s-maxage=20", (20, SMaxage)),
        (
            "4.2.1 max-age before Expires",
            "Cache-Control: max-age=10\nExpires: Sun, 06 Nov 1994 09:49:37 GMT",
            (10, MaxAge),
        ),
        ("4.2.1 Expires less Date", "Expires: Sun, 06 Nov 1994 09:49:37 GMT", (3_600, Expires)),
        ("5.3 what is no time is in the past", "Expires: 0", (0, Expires)),
        ("5.3 nor is a time that nobody writes", "Expires: Sun, 06 Nov 1994 09:49:37 UTC", (0, Expires)),
        ("4.2.1 said twice and differently", "Expires: Sun, 06 Nov 1994 09:49:37 GMT\nExpires: 0", (0, Expires)),
        ("4.2.1 the shorter of two", "Cache-Control: max-age=10, max-age=20", (10, MaxAge)),
        ("4.2.1 malformed is stale", "Cache-Control: max-age=-1", (0, MaxAge)),
        ("4.2.1 decimals are malformed", "Cache-Control: max-age=10.5", (0, MaxAge)),
        ("4.2.1 single quotes are no quotes", "Cache-Control: max-age='10'", (0, MaxAge)),
        ("5.2 quoted means the same", "Cache-Control: max-age=\"10\"", (10, MaxAge)),
        ("5.2 names in any letters", "Cache-Control: MaX-aGe=10", (10, MaxAge)),
        ("1.2.2 too large is 2^31", "Cache-Control: max-age=99999999999999999999", (1 << 31, MaxAge)),
        ("5.2 commas in quotes part nothing", "Cache-Control: a=\"b, max-age=1\", max-age=10", (10, MaxAge)),
        ("4.2.2 a tenth of what it was unchanged", "Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT", (100, Heuristic)),
        ("4.2.2 at most a day", "Last-Modified: Sun, 06 Nov 1984 08:32:57 GMT", (86_400, Heuristic)),
        ("4.2.2 nothing to guess from", "", (0, Nothing)),
        (
            "RFC 9213 a targeted field stands in place",
            "CDN-Cache-Control: max-age=5\nCache-Control: max-age=10",
            (5, MaxAge),
        ),
        (
            "RFC 9213 and in place of Expires",
            "CDN-Cache-Control: public\nExpires: Sun, 06 Nov 1994 09:49:37 GMT",
            (0, Nothing),
        ),
        (
            "RFC 9213 an invalid one says nothing",
            "CDN-Cache-Control: Max-Age=5\nCache-Control: max-age=10",
            (10, MaxAge),
        ),
        ("RFC 9213 nor does an empty one", "CDN-Cache-Control: \nCache-Control: max-age=10", (10, MaxAge)),
        ("RFC 9213 a string is no number", "CDN-Cache-Control: max-age=\"5\", s-maxage=7", (7, SMaxage)),
    ];
    for (about, lines, expected) in cases {
        assert_eq!(lifetime(200, &format!("{date}{lines}")), *expected, "{about}");
    }
    assert_eq!(lifetime(302, "Last-Modified: Sun, 06 Nov 1984 08:32:57 GMT"), (0, Nothing), "4.2.2 by status");
    assert_eq!(
        lifetime(302, &format!("{date}Cache-Control: public\nLast-Modified: Sun, 06 Nov 1994 08:32:57 GMT")),
        (100, Heuristic),
        "4.2.2 public allows any status"
    );
}

#[test]
fn ages() {
    let exchange = Exchange { requested: NOW - 4, received: NOW };
    let cases: &[(&str, &str, u64)] = &[
        ("4.2.3 the time of asking counts", "", 4),
        ("4.2.3 Age and the time of asking", "Age: 100", 104),
        ("4.2.3 apparent age", "Date: Sun, 06 Nov 1994 08:48:37 GMT", 60),
        ("4.2.3 the greater of both", "Date: Sun, 06 Nov 1994 08:48:37 GMT\nAge: 100", 104),
        ("4.2.3 a clock that is ahead", "Date: Sun, 06 Nov 1994 08:59:37 GMT", 4),
        ("5.1 what is no number says nothing", "Age: abc", 4),
        ("5.1 nor does a negative one", "Age: -5", 4),
        ("5.1 the first of several", "Age: 7, 100", 11),
        ("5.1 too large is very old", "Age: 99999999999999999999", (1 << 31) + 4),
    ];
    for (about, lines, expected) in cases {
        assert_eq!(freshness::initial_age(&headers(lines), exchange), *expected, "{about}");
    }
    assert_eq!(freshness::current_age(104, exchange, NOW + 10), 114, "4.2.3 resident time");
    assert_eq!(freshness::current_age(104, exchange, NOW - 10), 104, "a clock that was set back");
}

#[test]
fn what_may_be_stored() {
    type Case = (&'static str, Method, &'static str, u16, &'static str, Result<(), NotStored>);
    let cases: &[Case] = &[
        ("3 by status", Method::Get, "", 200, "", Ok(())),
        ("3 by max-age", Method::Get, "", 302, "Cache-Control: max-age=1", Ok(())),
        ("3 by nothing", Method::Get, "", 302, "", Err(NotStored::Nothing)),
        ("3 by Expires", Method::Get, "", 302, "Expires: 0", Ok(())),
        ("3 what is not known by its status", Method::Get, "", 299, "Cache-Control: max-age=1", Ok(())),
        ("3 POST is not kept", Method::Post, "", 200, "Cache-Control: max-age=1", Err(NotStored::Method)),
        ("3 interim responses", Method::Get, "", 103, "", Err(NotStored::Status)),
        ("3.3 parts", Method::Get, "", 206, "Cache-Control: max-age=1", Err(NotStored::Status)),
        ("5.2.2.5 no-store", Method::Get, "", 200, "Cache-Control: no-store", Err(NotStored::NoStore)),
        ("5.2.1.5 of the request", Method::Get, "Cache-Control: no-store", 200, "", Err(NotStored::RequestNoStore)),
        ("5.2.2.7 private", Method::Get, "", 200, "Cache-Control: private, max-age=1", Err(NotStored::Private)),
        ("5.2.2.7 private fields", Method::Get, "", 200, "Cache-Control: private=\"x-user\"", Ok(())),
        (
            "3.5 Authorization",
            Method::Get,
            "Authorization: a",
            200,
            "Cache-Control: max-age=1",
            Err(NotStored::Authorization),
        ),
        ("3.5 public allows it", Method::Get, "Authorization: a", 200, "Cache-Control: public", Ok(())),
        (
            "3.5 must-revalidate allows it",
            Method::Get,
            "Authorization: a",
            200,
            "Cache-Control: must-revalidate",
            Ok(()),
        ),
        ("3.5 s-maxage allows it", Method::Get, "Authorization: a", 200, "Cache-Control: s-maxage=1", Ok(())),
        (
            "5.2.2.3 must-understand",
            Method::Get,
            "",
            299,
            "Cache-Control: must-understand, max-age=1",
            Err(NotStored::NotUnderstood),
        ),
        ("5.2.2.3 before no-store", Method::Get, "", 200, "Cache-Control: must-understand, no-store", Ok(())),
        ("4.1 Vary: *", Method::Get, "", 200, "Vary: accept, *", Err(NotStored::VaryAny)),
    ];
    for (about, method, request, status, response, expected) in cases {
        let (request, response) = (headers(request), headers(response));
        let (directives, _) = ResponseDirectives::of(&response, &[]);
        assert_eq!(storing::may_store(*method, &request, *status, &response, &directives), *expected, "{about}");
    }
}

#[test]
fn what_may_be_used_again() {
    use Reuse::{Serve, ServeAndRefresh, ServeStale, Validate};
    let cases: &[(&str, &str, u64, &str, Reuse)] = &[
        ("4.2 fresh", "max-age=10", 9, "", Serve),
        ("4.2 stale in the very second", "max-age=10", 10, "", Validate(WhyValidate::Stale)),
        ("5.2.2.4 no-cache", "max-age=10, no-cache", 0, "", Validate(WhyValidate::NoCache)),
        ("5.2.2.4 no-cache of fields", "max-age=10, no-cache=\"x\"", 0, "", Serve),
        ("5.2.1.4 of the request", "max-age=10", 0, "no-cache", Validate(WhyValidate::RequestNoCache)),
        ("5.2.1.1 max-age", "max-age=10", 5, "max-age=4", Validate(WhyValidate::RequestMaxAge)),
        ("5.2.1.1 the very second", "max-age=10", 5, "max-age=5", Serve),
        ("5.2.1.1 zero", "max-age=10", 1, "max-age=0", Validate(WhyValidate::RequestMaxAge)),
        ("5.2.1.3 min-fresh", "max-age=10", 5, "min-fresh=6", Validate(WhyValidate::RequestMinFresh)),
        ("5.2.1.3 fresh enough", "max-age=10", 5, "min-fresh=5", Serve),
        ("5.2.1.2 max-stale", "max-age=10", 12, "max-stale=5", ServeStale),
        ("5.2.1.2 too stale", "max-age=10", 20, "max-stale=5", Validate(WhyValidate::Stale)),
        ("5.2.1.2 any age", "max-age=10", 2_000, "max-stale", ServeStale),
        ("5.2.2.2 must-revalidate", "max-age=10, must-revalidate", 12, "max-stale", Validate(WhyValidate::Stale)),
        ("5.2.2.8 proxy-revalidate", "max-age=10, proxy-revalidate", 12, "max-stale", Validate(WhyValidate::Stale)),
        ("5.2.2.10 s-maxage says the same", "s-maxage=10", 12, "max-stale", Validate(WhyValidate::Stale)),
        ("RFC 5861 while it is fetched again", "max-age=10, stale-while-revalidate=5", 12, "", ServeAndRefresh),
        ("RFC 5861 no longer", "max-age=10, stale-while-revalidate=5", 16, "", Validate(WhyValidate::Stale)),
        (
            "RFC 5861 not where it must be validated",
            "max-age=10, stale-while-revalidate=5, must-revalidate",
            12,
            "",
            Validate(WhyValidate::Stale),
        ),
    ];
    for (about, response, age, request, expected) in cases {
        let response = headers(&format!("Cache-Control: {response}"));
        let request = if request.is_empty() { Headers::new() } else { headers(&format!("Cache-Control: {request}")) };
        let (directives, _) = ResponseDirectives::of(&response, &[]);
        let lifetime = freshness::lifetime(200, &response, &directives, false, EXCHANGE, TENTH);
        let stored = Stored { directives: &directives, lifetime, age: *age, has_validator: true };
        assert_eq!(reuse::reuse(&stored, RequestDirectives::of(&request), true), *expected, "{about}");
    }
    assert!(RequestDirectives::of(&headers("Pragma: no-cache")).no_cache, "5.4");
    assert!(!RequestDirectives::of(&headers("Pragma: no-cache\nCache-Control: max-age=5")).no_cache, "5.4");
}

#[test]
fn errors_are_bridged_where_that_is_allowed() {
    for (response, age, expected) in [
        ("max-age=10, stale-if-error=5", 12, true),
        ("max-age=10, stale-if-error=5", 16, false),
        ("max-age=10", 12, false),
        ("max-age=10, stale-if-error=5, must-revalidate", 12, false),
    ] {
        let headers = headers(&format!("Cache-Control: {response}"));
        let (directives, _) = ResponseDirectives::of(&headers, &[]);
        let lifetime = freshness::lifetime(200, &headers, &directives, false, EXCHANGE, TENTH);
        let stored = Stored { directives: &directives, lifetime, age, has_validator: true };
        let request = RequestDirectives::default();
        assert_eq!(reuse::may_serve_after_error(&stored, request, true), expected, "{response} {age}");
    }
}

#[test]
fn variants() {
    let response = headers("Vary: Accept-Encoding\nVary: x-a, X-B");
    let names = vary::names(&response).unwrap();
    assert_eq!(names, [b"accept-encoding".to_vec(), b"x-a".to_vec(), b"x-b".to_vec()]);
    let key = |lines: &str| vary::key(&names, &headers(lines));
    assert_eq!(key("Accept-Encoding: gzip,br"), key("accept-encoding: gzip , br"), "4.1 blanks");
    assert_eq!(key("Accept-Encoding: gzip\nAccept-Encoding: br"), key("Accept-Encoding: gzip, br"), "4.1 lines");
    assert_ne!(key("Accept-Encoding: gzip"), key("Accept-Encoding: br"));
    let names = [b"accept-language".to_vec()];
    let languages = |lines: &str| vary::key(&names, &headers(lines));
    assert_eq!(languages("Accept-Language: en, de;q=0.5"), languages("accept-language: DE; q=0.5, EN"), "4.1 wishes");
    assert_ne!(languages("Accept-Language: en, de;q=0.5"), languages("Accept-Language: en;q=0.5, de"), "4.1 weights");
    assert_ne!(languages("Accept-Language: en"), languages(""), "4.1 there or not");
    assert_ne!(key(""), key("Accept-Encoding:"), "4.1 there or not");
    assert_ne!(key("x-a: 1"), key("x-b: 1"));
    assert_eq!(key("x-a: 1\nother: 2"), key("x-a: 1"));
}

#[test]
fn conditions() {
    use Outcome::{Failed, NotModified, Send};
    let response = headers("ETag: \"a\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
    let cases: &[(&str, &str, Outcome)] = &[
        ("13.1.2 the same tag", "If-None-Match: \"a\"", NotModified),
        ("13.1.2 weak comparison", "If-None-Match: W/\"a\"", NotModified),
        ("13.1.2 one of several", "If-None-Match: \"b\", \"a\"", NotModified),
        ("13.1.2 any", "If-None-Match: *", NotModified),
        ("13.1.2 another one", "If-None-Match: \"b\"", Send),
        ("13.2.2 tags before times", "If-None-Match: \"b\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", Send),
        ("13.1.3 not changed since", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", NotModified),
        ("13.1.3 changed since", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", Send),
        ("13.1.3 what is no time says nothing", "If-Modified-Since: 0", Send),
        ("13.1.1 strong comparison", "If-Match: W/\"a\"", Failed),
        ("13.1.1 the same tag", "If-Match: \"a\"", Send),
        ("13.1.4 changed since", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", Failed),
        ("none", "", Send),
    ];
    for (about, request, expected) in cases {
        assert_eq!(conditional::evaluate(&headers(request), &response, NOW), *expected, "{about}");
    }
    let mut request = headers("If-None-Match: \"mine\"\nAccept: a");
    assert!(conditional::ask_about(&mut request, &response));
    assert_eq!(request.first(b"if-none-match"), Some(&b"\"a\""[..]), "RFC 9111 4.3.1");
    assert_eq!(request.all(b"if-none-match").count(), 1);
    assert!(!conditional::ask_about(&mut Headers::new(), &Headers::new()));
}

#[test]
fn updates_by_304() {
    let mut stored = headers("ETag: \"a\"\nX-Old: 1\nX-Both: old\nContent-Length: 5\nContent-Type: text/plain\nAge: 9");
    let answer = headers(
        "ETag: \"a\"\nX-Both: new\nX-Both: newer\nContent-Length: 0\nContent-Type: b/c\nCache-Control: max-age=5",
    );
    assert!(update::is_about(&answer, &stored, NOW));
    update::update(&mut stored, &answer);
    assert_eq!(stored.all(b"x-both").collect::<Vec<_>>(), [b"new".as_slice(), b"newer"], "3.2 replaced");
    assert_eq!(stored.first(b"x-old"), Some(&b"1"[..]), "3.2 what is not said stays");
    assert_eq!(stored.first(b"content-length"), Some(&b"5"[..]), "3.2 the body's own fields stay");
    assert_eq!(stored.first(b"content-type"), Some(&b"text/plain"[..]));
    assert_eq!(stored.first(b"cache-control"), Some(&b"max-age=5"[..]));
    assert_eq!(stored.first(b"age"), None);
    assert!(!update::is_about(&headers("ETag: \"b\""), &stored, NOW), "4.3.4");
    assert!(update::is_about(&headers(""), &stored, NOW), "4.3.4 without a validator");
    let says = |head: &str| update::head_says(&headers(head), &stored);
    assert_eq!(says("Content-Length: 6"), HeadSays::Other, "4.3.5");
    assert_eq!(says("Content-Length: 5"), HeadSays::Nothing, "4.3.5 another page may be as long");
    assert_eq!(
        (says(""), says("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT")),
        (HeadSays::Nothing, HeadSays::Nothing)
    );
    assert_eq!((says("ETag: \"a\""), says("ETag: \"b\"")), (HeadSays::Same, HeadSays::Other), "4.3.5");
    assert_eq!(says("ETag: \"a\"\nContent-Length: 6"), HeadSays::Other, "4.3.5");
}

#[test]
fn ranges() {
    let response = headers("ETag: \"a\"");
    let cases: &[(&str, &str, Wanted)] = &[
        ("none", "", Wanted::Whole),
        ("first bytes", "Range: bytes=0-4", Wanted::Part { start: 0, end: 5 }),
        ("from one on", "Range: bytes=5-", Wanted::Part { start: 5, end: 10 }),
        ("the last ones", "Range: bytes=-3", Wanted::Part { start: 7, end: 10 }),
        ("more than there are", "Range: bytes=-30", Wanted::Part { start: 0, end: 10 }),
        ("beyond the end", "Range: bytes=5-100", Wanted::Part { start: 5, end: 10 }),
        ("behind the end", "Range: bytes=10-", Wanted::Unsatisfiable),
        ("the last none", "Range: bytes=-0", Wanted::Unsatisfiable),
        ("backwards", "Range: bytes=5-4", Wanted::Whole),
        ("several", "Range: bytes=0-1,3-4", Wanted::Whole),
        ("another unit", "Range: lines=0-1", Wanted::Whole),
        ("no numbers", "Range: bytes=a-b", Wanted::Whole),
        ("of this response", "Range: bytes=0-4\nIf-Range: \"a\"", Wanted::Part { start: 0, end: 5 }),
        ("of another one", "Range: bytes=0-4\nIf-Range: \"b\"", Wanted::Whole),
        ("weak tags never", "Range: bytes=0-4\nIf-Range: W/\"a\"", Wanted::Whole),
    ];
    for (about, request, expected) in cases {
        assert_eq!(range::wanted(&headers(request), &response, 10, NOW), *expected, "{about}");
    }
}

#[test]
fn what_changes_something_makes_invalid() {
    assert!(!invalidation::is_safe(Method::Post) && invalidation::is_safe(Method::Get));
    let invalid = |reference: &str| {
        let response = headers(&format!("Location: {reference}"));
        let mut all = invalidation::also_invalid(&response, b"example.com", b"/a/b?c");
        all.pop().map(|path| String::from_utf8(path).unwrap())
    };
    for (reference, expected) in [
        ("/x?y", Some("/x?y")),
        ("http://EXAMPLE.com/x", Some("/x")),
        ("https://example.com", Some("/")),
        ("//example.com/x", Some("/x")),
        ("http://other.com/x", None),
        ("//other.com/x", None),
        ("x", Some("/a/x")),
        ("../x", Some("/x")),
        ("./x/../y", Some("/a/y")),
        ("?z", Some("/a/b?z")),
        ("/x#part", Some("/x")),
    ] {
        assert_eq!(invalid(reference).as_deref(), expected, "4.4 {reference}");
    }
}
