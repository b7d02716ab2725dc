//! Persistence by cookies beside Debian's HAProxy: what clients are given, what servers see, what is logged.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Origin, Scene, Wire, beside_haproxy};

/// A server that says its name and the cookies that it saw, and sets what the request's `x-set` says.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |request| {
        let fields: String = request
            .field("x-set")
            .into_iter()
            .flat_map(|text| text.split('&'))
            .map(|field| format!("{field}\r\n"))
            .collect();
        let body = format!("{name} saw {:?}", request.fields("cookie"));
        format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

/// Dates are those of the moment.
fn without_dates(text: &str) -> String {
    let mut parts = text.split('|');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "|DATE" + part.get(5..).unwrap_or_default())
}

/// Sends requests, each a path, fields and what is expected; tells what came of each.
fn play(scene: &Scene, requests: &[(&str, &str, &str)]) -> Vec<String> {
    let mut told = Vec::new();
    for (path, fields, _) in requests {
        let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
        let fields: String = fields.split_terminator('\n').map(|field| format!("{field}\r\n")).collect();
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        let answer =
            Wire::connect(scene.front).ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{length}{fields}\r\n"));
        let set: Vec<_> = answer.fields("set-cookie").into_iter().map(without_dates).collect();
        let caching = answer.fields("cache-control").join(",");
        let logged = scene.log.line_with(&format!("{method} {path} "));
        let state = logged.split(' ').next_back().unwrap();
        if state.starts_with("PH") {
            // HAProxy sends a page that belongs to the status of the server, under which it hides the reason.
            told.push(format!("blocked log {state}"));
            continue;
        }
        let body = if answer.status() == 200 { answer.text() } else { answer.status().to_string() };
        told.push(format!("{body} set {set:?} {caching:?} log {state}"));
    }
    told
}

/// Backends that differ in their `cookie` line; a path's first part chooses one.
fn section(front: SocketAddr, one: &Origin, two: &Origin, backends: &[(&str, &str)]) -> String {
    let mut text = format!(
        "frontend front\n mode http\n bind {front}\n log-format \"%[method] %HU %s %tsc\"\n use_backend %[path,field(2,/)]\n"
    );
    for (name, lines) in backends {
        text.push_str(&format!(
            "backend {name}\n mode http\n {lines}\n server one {} cookie s1\n server two {} cookie s2\n server none {} backup\n server gone 127.0.0.1:1 cookie s3 disabled\n",
            one.address, two.address, two.address
        ));
    }
    text
}

#[track_caller]
fn check(backends: &[(&str, &str)], requests: &[(&str, &str, &str)]) {
    let (one, two) = (origin("one"), origin("two"));
    let told = beside_haproxy(|front| section(front, &one, &two, backends), |scene| play(scene, requests));
    for (told, (path, fields, expected)) in told.iter().zip(requests) {
        assert_eq!(told, expected, "{path} with {fields:?}");
    }
}

#[test]
fn inserted_cookies() {
    check(
        &[
            ("plain", "cookie SRV insert"),
            ("indirect", "cookie SRV insert indirect nocache httponly secure domain .a attr SameSite=Lax"),
            ("kept", "cookie SRV insert indirect preserve"),
            ("post", "cookie SRV insert postonly"),
            ("none", "cookie SRV insert\n use-server none if TRUE"),
        ],
        &[
            ("/plain/1", "", r#"one saw [] set ["SRV=s1; path=/"] "" log --NI"#),
            ("/plain/2", "Cookie: a=1;SRV=s1;b=2", r#"one saw ["a=1;SRV=s1;b=2"] set [] "" log --VN"#),
            (
                "/plain/3",
                "Cookie: SRV=s2\nX-Set: set-cookie: SRV=own; path=/x&set-cookie: a=b",
                r#"two saw ["SRV=s2"] set ["a=b"] "" log --VD"#,
            ),
            ("/plain/4", "Cookie: SRV=s3", r#"two saw ["SRV=s3"] set ["SRV=s2; path=/"] "" log --DI"#),
            ("/plain/5", "Cookie: SRV=nobody; SRV=s2", r#"two saw ["SRV=nobody; SRV=s2"] set [] "" log --VN"#),
            ("/plain/6", "Cookie: SRV=s1; SRV=s3", r#"one saw ["SRV=s1; SRV=s3"] set [] "" log --VN"#),
            (
                "/plain/7",
                "Cookie: SRV=s3; SRV=nobody",
                r#"one saw ["SRV=s3; SRV=nobody"] set ["SRV=s1; path=/"] "" log --DI"#,
            ),
            ("/plain/8", "Cookie: SRV=; SRV", r#"two saw ["SRV=; SRV"] set ["SRV=s2; path=/"] "" log --II"#),
            (
                "/indirect/0",
                "X-Set: etag: 1",
                r#"one saw [] set ["SRV=s1; path=/; domain=.a; HttpOnly; Secure; SameSite=Lax"] "private" log --NI"#,
            ),
            (
                "/indirect/1",
                "Cookie: a=1;b=2 ; SRV=nobody, c=3;d=4",
                r#"two saw ["a=1;b=2, c=3;d=4"] set ["SRV=s2; path=/; domain=.a; HttpOnly; Secure; SameSite=Lax"] "" log --II"#,
            ),
            ("/indirect/2", "Cookie: SRV=s2\nCookie: SRV = s1; $Path=/; c=3", r#"two saw ["c=3"] set [] "" log --VN"#),
            ("/indirect/3", "Cookie: SRV=s1\nX-Set: set-cookie: SRV=own", r#"one saw [] set [] "" log --VD"#),
            (
                "POST /indirect/4",
                "",
                r#"one saw [] set ["SRV=s1; path=/; domain=.a; HttpOnly; Secure; SameSite=Lax"] "" log --NI"#,
            ),
            (
                "/indirect/5",
                "X-Set: cache-control: no-store",
                r#"two saw [] set ["SRV=s2; path=/; domain=.a; HttpOnly; Secure; SameSite=Lax"] "no-store" log --NI"#,
            ),
            ("/kept/1", "X-Set: set-cookie: SRV=own", r#"one saw [] set ["SRV=own"] "" log --NP"#),
            ("/post/1", "", r#"one saw [] set [] "" log --NN"#),
            ("POST /post/2", "", r#"two saw [] set ["SRV=s2; path=/"] "" log --NI"#),
            ("/none/1", "Cookie: SRV=s1", r#"two saw ["SRV=s1"] set [] "" log --UN"#),
        ],
    );
}

#[test]
fn cookies_of_the_application() {
    check(
        &[
            ("passive", "cookie SRV"),
            ("rewrite", "cookie SRV rewrite"),
            ("prefix", "cookie SRV prefix"),
            ("ignored", "cookie SRV insert indirect\n ignore-persist if { path_end .css }"),
            ("forced", "cookie SRV insert indirect\n force-persist if { path_end .css }\n retries 0"),
            ("chosen", "cookie SRV insert indirect\n use-server gone if TRUE\n use-server two if TRUE"),
        ],
        &[
            (
                "/passive/1",
                "Cookie: SRV=s2\nX-Set: set-cookie: SRV=own",
                r#"two saw ["SRV=s2"] set ["SRV=own"] "" log ----"#,
            ),
            ("/passive/2", "", r#"one saw [] set [] "" log ----"#),
            (
                "/rewrite/1",
                "X-Set: set-cookie: SRV=own; path=/x&set-cookie: a=b",
                r#"one saw [] set ["SRV=s1; path=/x", "a=b"] "" log --NR"#,
            ),
            (
                "/rewrite/2",
                "Cookie: SRV=s2\nX-Set: set-cookie: SRV = own,x; path=/x",
                r#"two saw ["SRV=s2"] set ["SRV=s2,x; path=/x"] "" log --VR"#,
            ),
            (
                "/prefix/1",
                "Cookie: x=y;  SRV=s2~own~more; z=\nX-Set: set-cookie: SRV=own; path=/x",
                r#"two saw ["x=y;  SRV=own~more; z="] set ["SRV=s2~own; path=/x"] "" log --VR"#,
            ),
            ("/prefix/2", "Cookie: SRV=s1", r#"one saw ["SRV=s1"] set [] "" log --VN"#),
            ("/prefix/3", "Cookie: SRV=other~own", r#"one saw ["SRV=own"] set [] "" log --IN"#),
            ("/ignored/1", "Cookie: SRV=s2", r#"two saw [] set [] "" log --VN"#),
            (
                "/ignored/1.css",
                "Cookie: SRV=s2\nX-Set: set-cookie: SRV=own",
                r#"one saw [] set ["SRV=own"] "" log --UN"#,
            ),
            ("/ignored/2.css", "", r#"two saw [] set [] "" log --NN"#),
            ("/forced/1.css", "Cookie: SRV=s3", r#"503 set [] "no-cache" log SCDN"#),
            ("/forced/2", "Cookie: SRV=s3", r#"one saw [] set ["SRV=s1; path=/"] "" log --DI"#),
            ("/chosen/1", "Cookie: SRV=s1", r#"two saw [] set [] "" log --UN"#),
        ],
    );
}

#[test]
fn cookies_with_dates() {
    // AAAAB is of 1970, //+// of 2106.
    check(
        &[
            ("idle", "cookie SRV insert maxidle 10m"),
            ("life", "cookie SRV insert indirect maxlife 1h"),
            ("both", "cookie SRV insert maxidle 10m maxlife 1h"),
            ("undated", "cookie SRV insert"),
        ],
        &[
            ("/idle/1", "", r#"one saw [] set ["SRV=s1|DATE; path=/"] "" log --NI"#),
            ("/idle/2", "Cookie: SRV=s2", r#"two saw ["SRV=s2"] set ["SRV=s2|DATE; path=/"] "" log --VU"#),
            ("/idle/3", "Cookie: SRV=s2|AAAAB", r#"two saw ["SRV=s2|AAAAB"] set ["SRV=s2|DATE; path=/"] "" log --EI"#),
            ("/idle/4", "Cookie: SRV=s2|//+//", r#"one saw ["SRV=s2|//+//"] set ["SRV=s1|DATE; path=/"] "" log --EI"#),
            ("/idle/5", "Cookie: SRV=s2|junk", r#"two saw ["SRV=s2|junk"] set ["SRV=s2|DATE; path=/"] "" log --VU"#),
            ("/life/1", "Cookie: SRV=s2|AAAAB|AAAAB", r#"one saw [] set ["SRV=s1|DATE|DATE; path=/"] "" log --OI"#),
            ("/life/2", "Cookie: SRV=s2|AAAAB", r#"two saw [] set ["SRV=s2|DATE|DATE; path=/"] "" log --VU"#),
            (
                "/both/1",
                "Cookie: SRV=s1|AAAAB|AAAAB; SRV=s2",
                r#"two saw ["SRV=s1|AAAAB|AAAAB; SRV=s2"] set ["SRV=s2|DATE|DATE; path=/"] "" log --VU"#,
            ),
            (
                "/undated/1",
                "Cookie: SRV=s2|AAAAB|AAAAB",
                r#"two saw ["SRV=s2|AAAAB|AAAAB"] set ["SRV=s2; path=/"] "" log --VU"#,
            ),
            ("/undated/2", "Cookie: SRV=s2|AAAAB", r#"two saw ["SRV=s2|AAAAB"] set ["SRV=s2; path=/"] "" log --VU"#),
        ],
    );
}

#[test]
fn cacheable_cookies_are_blocked() {
    check(
        &[("checked", "option checkcache"), ("private", "option checkcache\n cookie SRV insert nocache")],
        &[
            ("/checked/1", "X-Set: etag: 1&set-cookie: a=b", "blocked log PH--"),
            ("/checked/2", "X-Set: etag: 1", r#"two saw [] set [] "" log ----"#),
            (
                "/checked/2",
                "X-Set: set-cookie: a=b&cache-control: public",
                r#"one saw [] set ["a=b"] "public" log ----"#,
            ),
            ("POST /checked/3", "X-Set: etag: 1&set-cookie: a=b", r#"two saw [] set ["a=b"] "" log ----"#),
            (
                "/checked/4",
                "X-Set: etag: 1&set-cookie: a=b&cache-control: private",
                r#"one saw [] set ["a=b"] "private" log ----"#,
            ),
            (
                "/checked/5",
                "X-Set: etag: 1&set-cookie: a=b&cache-control: no-cache=\"set-cookie\"",
                r#"two saw [] set ["a=b"] "no-cache=\"set-cookie\"" log ----"#,
            ),
            ("POST /checked/6", "X-Set: etag: 1&set-cookie: a=b&cache-control: public", "blocked log PH--"),
            ("/checked/7", "X-Set: etag: 1&set-cookie: a=b&pragma: no-cache", r#"two saw [] set ["a=b"] "" log ----"#),
            (
                "/private/1",
                "X-Set: etag: 1&set-cookie: a=b",
                r#"one saw [] set ["a=b", "SRV=s1; path=/"] "private" log --NI"#,
            ),
            ("/private/2", "Cookie: SRV=s1\nX-Set: etag: 1&set-cookie: a=b", "blocked log PHVN"),
        ],
    );
}

#[test]
fn cookies_made_of_addresses() {
    let (one, two) = (origin("one"), origin("two"));
    let section = |front| {
        format!(
            "listen site\n mode http\n bind {front}\n log-format \"%[method] %HU %s %tsc\"\n cookie SRV insert dynamic\n dynamic-cookie-key secret\n server one {}\n server two {}\n server named 127.0.0.1:1 cookie s3 disabled\n",
            one.address, two.address
        )
    };
    let values = |told: &[String]| -> Vec<String> {
        told.iter().map(|line| line.split("SRV=").nth(1).unwrap().split(';').next().unwrap().to_owned()).collect()
    };
    let first = beside_haproxy(section, |scene| play(scene, &[("/1", "", ""), ("/2", "", "")]));
    let [value, other] = &values(&first)[..] else { panic!("{first:?}") };
    assert!(value.len() == 16 && value != other, "{first:?}");
    let cookie = format!("Cookie: SRV={other}");
    let again = beside_haproxy(section, |scene| play(scene, &[("/3", &cookie, ""), ("/4", &cookie, "")]));
    assert!(again.iter().all(|line| line.starts_with("two saw") && line.ends_with("--VN")), "{again:?}");
}
