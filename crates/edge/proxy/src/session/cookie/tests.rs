use std::time::Duration;

use haproxycfg::model::{Cookie, CookieMode, ServerIndex};
use http::Headers;

use super::{
    date::{self, Dates},
    request::{Lookup, Presented, Visit, follow},
    response::{Given, ResponseSide, give},
};

const NOW: u64 = 1_700_000_001;

fn cookie(mode: CookieMode) -> Cookie {
    Cookie { name: "SRV".into(), mode, ..Cookie::default() }
}

fn indirect() -> Cookie {
    Cookie { indirect: true, ..cookie(CookieMode::Insert) }
}

/// Servers called `s1` to `s3`; the third is down, and `s4` is down but may be used.
fn lookup(value: &[u8]) -> Lookup {
    match value {
        b"s1" => Lookup::Server(ServerIndex(0), true),
        b"s2" => Lookup::Server(ServerIndex(1), true),
        b"s3" => Lookup::Down,
        b"s4" => Lookup::Server(ServerIndex(3), false),
        _ => Lookup::Unknown,
    }
}

/// What becomes of Cookie fields: the visit, and the fields that the server sees.
fn visit(cookie: &Cookie, fields: &[&str], may_choose: bool) -> (Visit, Vec<String>) {
    let mut headers = Headers::new();
    for field in fields {
        headers.add(b"Cookie", field.as_bytes());
    }
    let visit = follow(&mut headers, cookie, NOW, may_choose, lookup);
    let left = headers.all(b"cookie").map(|field| String::from_utf8_lossy(field).into_owned()).collect();
    (visit, left)
}

#[test]
fn cookies_choose_a_server() {
    let insert = cookie(CookieMode::Insert);
    let check = |cookie: &Cookie, fields: &[&str], presented, server: Option<u32>| {
        let (visit, _) = visit(cookie, fields, true);
        assert_eq!((visit.presented, visit.server), (presented, server.map(ServerIndex)), "{fields:?}");
    };
    check(&insert, &[], Presented::Absent, None);
    check(&insert, &["XSRV=s2; SRVX=s2; SRV"], Presented::Absent, None);
    check(&insert, &["a=1; SRV=s2; b=2"], Presented::Valid, Some(1));
    check(&insert, &["a=1", "b=\"SRV=s1;\", SRV = s2 "], Presented::Valid, Some(1));
    check(&insert, &["SRV=nobody"], Presented::Invalid, None);
    check(&insert, &["SRV="], Presented::Invalid, None);
    check(&insert, &["SRV=s3"], Presented::Down, None);
    check(&insert, &["SRV=s3; SRV=nobody"], Presented::Down, None);
    check(&insert, &["SRV=s3; SRV=s1"], Presented::Valid, Some(0));
    check(&insert, &["SRV=s4"], Presented::Down, Some(3));
    check(&insert, &["SRV=s1; SRV=s2; SRV=s3"], Presented::Valid, Some(0));
    check(&cookie(CookieMode::Prefix), &["SRV=s1~own"], Presented::Valid, Some(0));
    check(&cookie(CookieMode::Prefix), &["SRV=s1"], Presented::Valid, Some(0));
    let (unused, _) = visit(&insert, &["SRV=s1"], false);
    assert_eq!((unused.presented, unused.server), (Presented::Unused, None));
}

#[test]
fn the_server_does_not_see_what_is_the_proxys() {
    let check = |cookie: &Cookie, fields: &[&str], left: &[&str]| {
        assert_eq!(visit(cookie, fields, true).1, left, "{fields:?}");
    };
    let indirect = indirect();
    check(&indirect, &["a=1; SRV=s2; b=2"], &["a=1; b=2"]);
    check(&indirect, &["a=1;b=2; SRV=s2;c=3;d=4"], &["a=1;b=2; c=3;d=4"]);
    check(&indirect, &["SRV=s2; a=1"], &["a=1"]);
    check(&indirect, &["a=1; SRV=s2"], &["a=1"]);
    check(&indirect, &["SRV=s1; SRV=s2, SRV=s3; a=1; SRV=s1"], &["a=1"]);
    check(&indirect, &["SRV=s2; $Path=/; a=1; $Path=/"], &["a=1; $Path=/"]);
    check(&indirect, &["$Version=1; SRV=s2"], &[]);
    check(&indirect, &["bare; SRV=s2"], &["bare"]);
    check(&indirect, &["SRV=s2", "a=1"], &["a=1"]);
    check(&indirect, &["SRV=s2;"], &[]);
    check(&indirect, &["SRV=unknown; a=1"], &["a=1"]);
    check(&cookie(CookieMode::Insert), &["a=1; SRV=s2"], &["a=1; SRV=s2"]);
    let prefix = cookie(CookieMode::Prefix);
    check(&prefix, &["SRV=s2~own; x=y"], &["SRV=own; x=y"]);
    check(&prefix, &["x=y;  SRV=s2~own~more"], &["x=y;  SRV=own~more"]);
    check(&prefix, &["SRV=own"], &["SRV=own"]);
}

fn side(server: Option<Option<&[u8]>>) -> ResponseSide<'_> {
    ResponseSide { server, direct: false, dates: Dates::default(), is_post: false, is_cacheable: true, now: NOW }
}

/// What is given beside what a server has set: the answer, and the fields of the response.
fn given(cookie: &Cookie, set: &[&str], side: ResponseSide<'_>) -> (Given, Vec<String>) {
    let mut headers = Headers::new();
    for field in set {
        headers.add(b"Set-Cookie", field.as_bytes());
    }
    let given = give(&mut headers, cookie, side);
    let fields = headers
        .iter()
        .map(|(name, value)| format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
        .collect();
    (given, fields)
}

#[test]
fn a_cookie_is_inserted_unless_the_client_has_it() {
    let check = |cookie: &Cookie, side: ResponseSide<'_>, expected: Given, fields: &[&str]| {
        assert_eq!(given(cookie, &[], side), (expected, fields.iter().map(|&field| field.into()).collect()));
    };
    let plain = cookie(CookieMode::Insert);
    let s1 = side(Some(Some(b"s1")));
    check(&plain, s1, Given::Inserted, &["set-cookie: SRV=s1; path=/"]);
    check(&plain, ResponseSide { direct: true, ..s1 }, Given::Nothing, &[]);
    check(&plain, side(None), Given::Nothing, &[]);
    let forget = "set-cookie: SRV=; Expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/";
    check(&plain, side(Some(None)), Given::Inserted, &[forget]);
    let rich = Cookie {
        nocache: true,
        httponly: true,
        secure: true,
        domains: vec![".a".into(), ".b".into()],
        attributes: vec![b"SameSite=Lax".to_vec()],
        ..plain.clone()
    };
    let line = "set-cookie: SRV=s1; path=/; domain=.a; domain=.b; HttpOnly; Secure; SameSite=Lax";
    check(&rich, s1, Given::Inserted, &[line, "cache-control: private"]);
    check(&rich, ResponseSide { is_cacheable: false, ..s1 }, Given::Inserted, &[line]);
    let post = Cookie { postonly: true, ..plain };
    check(&post, s1, Given::Nothing, &[]);
    check(&post, ResponseSide { is_post: true, ..s1 }, Given::Inserted, &["set-cookie: SRV=s1; path=/"]);
    for mode in [CookieMode::Passive, CookieMode::Rewrite, CookieMode::Prefix] {
        check(&cookie(mode), s1, Given::Nothing, &[]);
    }
}

#[test]
fn the_servers_own_cookie_is_left_changed_or_deleted() {
    let own = ["a=b", "SRV=abc; path=/x", "SRV=old,x"];
    let check = |cookie: &Cookie, direct, expected: Given, fields: &[&str]| {
        let side = ResponseSide { direct, ..side(Some(Some(b"s1"))) };
        let (found, left) = given(cookie, &own, side);
        let left: Vec<_> = left.iter().map(|field| field.strip_prefix("Set-Cookie: ").unwrap_or(field)).collect();
        assert_eq!((found, left.as_slice()), (expected, fields), "{cookie:?}");
    };
    check(&cookie(CookieMode::Passive), false, Given::Passive, &own);
    check(&cookie(CookieMode::Rewrite), false, Given::Rewritten, &["a=b", "SRV=s1; path=/x", "SRV=s1,x"]);
    check(&cookie(CookieMode::Prefix), false, Given::Rewritten, &["a=b", "SRV=s1~abc; path=/x", "SRV=s1~old,x"]);
    check(&indirect(), false, Given::Inserted, &["a=b", "set-cookie: SRV=s1; path=/"]);
    check(&indirect(), true, Given::Deleted, &["a=b"]);
    check(&Cookie { preserve: true, ..indirect() }, false, Given::Passive, &own);
}

#[test]
fn dates_have_haproxys_form() {
    assert_eq!(&date::encode(NOW), b"ZVPxB");
    assert_eq!(date::decode(b"ZVPxBmore"), Some(NOW + 3));
    assert_eq!(date::decode(b"ZVPx"), None);
    assert_eq!(date::decode(b"ZVP-B"), None);
    assert_eq!(date::decode(b"AAAAA"), None);
}

#[test]
fn cookies_age() {
    let mut aging = cookie(CookieMode::Insert);
    aging.maxidle = Some(Duration::from_secs(600));
    aging.maxlife = Some(Duration::from_secs(3_600));
    let text = |last: u64, first: u64| {
        let letters = |seconds| String::from_utf8(date::encode(seconds).to_vec()).unwrap();
        format!("SRV=s1|{}|{}", letters(last), letters(first))
    };
    let presented = |field: &str| visit(&aging, &[field], true).0.presented;
    assert_eq!(presented(&text(NOW - 590, NOW - 3_500)), Presented::Valid);
    assert_eq!(presented(&text(NOW - 610, NOW - 3_500)), Presented::Expired);
    assert_eq!(presented(&text(NOW - 590, NOW - 3_700)), Presented::Old);
    assert_eq!(presented(&text(NOW + 86_000, NOW)), Presented::Valid);
    assert_eq!(presented(&text(NOW + 87_000, NOW)), Presented::Expired);
    // A cookie of before there were dates counts, and is given some.
    assert_eq!(presented("SRV=s1"), Presented::Valid);
    let direct = |dates| given(&aging, &[], ResponseSide { direct: true, dates, ..side(Some(Some(b"s1"))) });
    let (state, fields) = direct(Dates::default());
    assert_eq!((state, fields[0].as_str()), (Given::Updated, "set-cookie: SRV=s1|ZVPxB|ZVPxB; path=/"));
    // The second date stays, the first moves with time.
    let first_seen = Some(NOW - 1_001);
    let (state, fields) = direct(Dates { last_seen: Some(NOW - 500), first_seen });
    assert_eq!((state, fields[0].as_str()), (Given::Updated, "set-cookie: SRV=s1|ZVPxB|ZVPtG; path=/"));
    let (state, fields) = direct(Dates { last_seen: Some(NOW + 3), first_seen });
    assert_eq!((state, fields.len()), (Given::Nothing, 0));
    // Whoever comes to another server starts anew, and keeps the day of the first visit.
    let moved = ResponseSide { dates: Dates { last_seen: Some(NOW), first_seen }, ..side(Some(Some(b"s2"))) };
    assert_eq!(given(&aging, &[], moved).1, ["set-cookie: SRV=s2|ZVPxB|ZVPtG; path=/"]);
}

/// Applications may find their cookies only as most browsers write them.
#[test]
fn blanks_around_equals_signs_are_taken_out() {
    for (field, expected) in [
        ("SRV = s1", "SRV=s1"),
        ("a=b; SRV =s1 ; d = e", "a=b; SRV=s1 ; d=e"),
        ("SRV\t=\ts1;x", "SRV=s1;x"),
        ("SRV= ; a=b", "SRV=; a=b"),
        ("a=\"x = y\"; SRV=s1", "a=\"x = y\"; SRV=s1"),
        ("x; y", "x; y"),
    ] {
        assert_eq!(visit(&cookie(CookieMode::Rewrite), &[field], true).1, [expected], "{field:?}");
    }
}
