//! Requests for the page and what they are answered with.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::stats::{
    history::{BytesSent, Counts, History, Reading},
    samples::FakeControl,
};

fn settings() -> PageSettings<'static> {
    PageSettings { uri: "/stats", proxy: "web", may_admin: true, ..PageSettings::default() }
}

fn ask_for(settings: &PageSettings<'_>, request: &PageRequest<'_>) -> (PageReply, String) {
    let control = FakeControl::default();
    let reply = respond(&control, &Mutex::new(History::default()), settings, request);
    (reply, control.changes())
}

fn get(settings: &PageSettings<'_>, target: &str) -> (PageReply, String) {
    let request = PageRequest { method: b"GET", target: target.as_bytes(), ..PageRequest::default() };
    let (reply, _) = ask_for(settings, &request);
    let body = String::from_utf8(reply.body.clone()).unwrap();
    (reply, body)
}

fn header<'a>(reply: &'a PageReply, name: &str) -> Option<&'a str> {
    reply.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

#[test]
fn which_requests_are_for_the_page() {
    for (uri, target, expected) in [
        ("/stats", "/stats", true),
        ("/stats", "/stats;csv", true),
        ("/stats", "/stats2", true),
        ("/stats", "/stat", false),
        ("/stats", "http://example.org/stats;csv", true),
        ("/stats", "http://example.org", false),
        ("/", "http://example.org", true),
        ("/haproxy?stats", "/haproxy?stats;up", true),
        ("/stats", "*", false),
        ("/stats", "", false),
    ] {
        assert_eq!(matches(uri, target.as_bytes()), expected, "{uri} {target}");
    }
}

#[test]
fn forms_and_their_types() {
    for (rest, content_type, start) in [
        ("", "text/html; charset=utf-8", "<!doctype html>"),
        (";csv", "text/plain", "# pxname,svname,"),
        (";typed", "text/plain", "F.2.0.0.pxname.1:KNS:str:web\n"),
        (";json", "application/json", "[[{\"objType\":\"Frontend\""),
        (";json-schema", "application/json", "{\"$schema\""),
        (";json;live", "application/json", "{\"now\":0,"),
        (";rows", "text/html; charset=utf-8", "<section class=\"classic\""),
        (";asset=page.css;v=1", "text/css; charset=utf-8", "/*"),
    ] {
        let (reply, body) = get(&settings(), &format!("/stats{rest}"));
        assert_eq!((reply.status, header(&reply, "content-type")), (200, Some(content_type)), "{rest}");
        assert!(body.starts_with(start), "{rest}: {}", &body[..60]);
    }
    assert_eq!(get(&settings(), "/stats;asset=../../etc/passwd").0.status, 404);
    let (absolute, body) = get(&settings(), "http://example.org/stats;csv");
    assert_eq!(absolute.status, 200);
    assert!(body.starts_with("# pxname"));
}

#[test]
fn refresh() {
    let with = PageSettings { refresh: Some(Duration::from_secs(7)), ..settings() };
    assert_eq!(header(&get(&with, "/stats;csv").0, "refresh"), Some("7"));
    assert_eq!(header(&get(&with, "/stats;csv;norefresh").0, "refresh"), None);
    assert_eq!(header(&get(&settings(), "/stats;csv").0, "refresh"), None);
    let (page, body) = get(&with, "/stats");
    assert_eq!(header(&page, "refresh"), None, "scripts refresh in place");
    assert!(body.contains("<meta http-equiv=\"refresh\" content=\"7\"></noscript>"));
    assert!(!get(&with, "/stats;norefresh").1.contains("http-equiv=\"refresh\""));
}

#[test]
fn only_users_see_it() {
    let with =
        PageSettings { users: vec![("admin", "secret"), ("ann", "a:b")], realm: Some("The \"Edge\""), ..settings() };
    for (given, status) in [
        (None, 401),
        (Some("Basic YWRtaW46c2VjcmV0"), 200),   // admin:secret
        (Some("basic  YWRtaW46c2VjcmV0 "), 200), // blanks are allowed
        (Some("Basic YW5uOmE6Yg=="), 200),       // ann:a:b
        (Some("Basic YWRtaW46d3Jvbmc="), 401),   // admin:wrong
        (Some("Basic YW5uOnNlY3JldA=="), 401),   // ann:secret
        (Some("Bearer YWRtaW46c2VjcmV0"), 401),
        (Some("Basic"), 401),
        (Some("Basic !!!"), 401),
    ] {
        for target in ["/stats", "/stats;csv", "/stats;asset=page.js"] {
            let authorization = given.map(str::as_bytes);
            let request =
                PageRequest { method: b"GET", target: target.as_bytes(), authorization, ..PageRequest::default() };
            let (reply, _) = ask_for(&with, &request);
            assert_eq!(reply.status, status, "{given:?} {target}");
            let challenge = (status == 401).then_some("Basic realm=\"The 'Edge'\"");
            assert_eq!(header(&reply, "www-authenticate"), challenge);
        }
    }
    let request = PageRequest {
        method: b"POST",
        target: b"/stats",
        body: Some(b"s=s1&b=app&action=maint"),
        ..PageRequest::default()
    };
    assert_eq!(ask_for(&with, &request), (ask_for(&with, &request).0, String::new()), "nothing is done for strangers");
}

#[test]
fn actions_redirect() {
    let body: &[u8] = b"s=s1&action=maint&b=%233";
    let post =
        PageRequest { method: b"POST", target: b"/stats;up;norefresh", body: Some(body), ..PageRequest::default() };
    let elsewhere = PageRequest { fetch_site: Some(b"cross-site"), ..post };
    let own = PageRequest { fetch_site: Some(b"same-origin"), ..post };
    let too_long = PageRequest { body: None, ..post };
    let put = PageRequest { method: b"PUT", ..post };
    let guest = PageSettings { may_admin: false, ..settings() };
    for (settings, request, code, changes) in [
        (settings(), post, "DONE", "app/s1 Maintain"),
        (settings(), own, "DONE", "app/s1 Maintain"),
        (settings(), elsewhere, "DENY", ""),
        (settings(), too_long, "EXCD", ""),
        (settings(), put, "IVAL", ""),
        (guest, post, "DENY", ""),
    ] {
        let (reply, told) = ask_for(&settings, &request);
        assert_eq!(reply.status, 303);
        assert_eq!(header(&reply, "location"), Some(format!("/stats;st={code};up;norefresh").as_str()));
        assert_eq!(told, changes);
        assert!(reply.body.is_empty());
    }
}

#[test]
fn scopes() {
    let names = |settings: &PageSettings<'_>, target: &str| {
        let mut names: Vec<_> =
            get(settings, target).1.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect();
        names.dedup();
        names.join(" ")
    };
    assert_eq!(names(&settings(), "/stats;csv"), "web app tcp");
    assert_eq!(names(&PageSettings { scope: vec![".", "tcp"], ..settings() }, "/stats;csv"), "web tcp");
    assert_eq!(names(&settings(), "/stats;csv?scope=AP"), "app");
    assert_eq!(names(&PageSettings { scope: vec!["web"], ..settings() }, "/stats;csv?scope=app"), "");
    assert!(get(&settings(), "/stats?scope=nothing").1.contains("There is nothing to show"));
}

#[test]
fn the_page_says_what_it_may() {
    let (reply, body) = get(&settings(), "/stats;st=PART");
    assert!(header(&reply, "content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(body.contains("Done for some of the servers only"));
    assert!(body.contains("What &lt;everyone&gt; sees") && !body.contains("<everyone>"));
    assert!(
        body.contains("<td class=\"state bad first\"><span>DOWN</span>")
            && body.contains("<input type=checkbox name=s value=\"s1\"")
    );
    assert!(body.contains("name=\"b\" value=\"#3\""));
    assert!(!body.contains("edge-1") && !body.contains("127.0.0.1"), "neither the node's name nor addresses unasked");
    assert!(body.contains("id=\"fact-version\""));

    let shown = PageSettings { hide_version: true, node: Some(""), legends: true, may_admin: false, ..settings() };
    let (_, body) = get(&shown, "/stats");
    assert!(body.contains("on edge-1") && body.contains("127.0.0.1:8080"));
    assert!(
        !body.contains("fact-version") && !body.contains("type=checkbox") && !body.contains("<form method=\"post\"")
    );
    assert!(!body.contains("h1_total_streams"), "columns of HTTP/1 unasked");
    let (_, body) = get(&PageSettings { modules: true, ..settings() }, "/stats");
    assert!(body.contains("<th colspan=\"7\" scope=\"colgroup\">HTTP/1</th>") && body.contains("h1_total_streams: "));
    let named = PageSettings { node: Some("west"), description: Some("the <west> side"), ..settings() };
    let (_, body) = get(&named, "/stats");
    assert!(body.contains("on west") && body.contains("the &lt;west&gt; side"));
}

#[test]
fn live_numbers_and_points() {
    let mut history = History::default();
    let app: Arc<str> = "app".into();
    for second in 0..10_u64 {
        history.begin_second(Duration::from_secs(1_000 + second), BytesSent { bytes: second * 1_000, page_bytes: 0 });
        let counts =
            || Counts { requests: second * 7, errors: second, answers: [0, second * 6, 0, 0, second, 0], tcp: 0 };
        let servers = [("s1".into(), counts)];
        let backend = Reading { all: counts(), ..Reading::default() };
        history.push(&app, None, Some(backend.clone()), servers.iter().map(|(name, read)| (name, read)));
        history.push(&"web".into(), Some(backend), None, std::iter::empty::<(&Arc<str>, fn() -> Counts)>());
        history.push_flow(&"web".into(), &app, second * 5);
        history.end_second();
    }
    let history = Mutex::new(history);
    let live = |rest: &str| -> serde_json::Value {
        let target = format!("/stats;json;live{rest}");
        let request = PageRequest { method: b"GET", target: target.as_bytes(), ..PageRequest::default() };
        serde_json::from_slice(&respond(&FakeControl::default(), &history, &settings(), &request).body).unwrap()
    };
    let folded = live("");
    assert_eq!((&folded["now"], &folded["at"], &folded["step"]), (&10.into(), &1_009.into(), &1.into()));
    assert_eq!((&folded["process"]["points"]["bytes"][9], &folded["process"]["rate"]), (&1_000.into(), &7.into()));
    assert_eq!(folded["flows"], serde_json::json!([[2, 3, 45]]), "from web to app");
    let app = &folded["states"][1];
    assert_eq!((&app["id"], &app["back"]["rate"], app["back"].get("down")), (&3.into(), &7.into(), None));
    assert_eq!(app["back"]["mix"], serde_json::json!([0, 54, 0, 0, 9, 0]));
    assert_eq!(app["back"]["kinds"], serde_json::json!({ "down": 1, "unsteady": 1, "maint": 1, "unchecked": 1 }));
    assert!(app["back"].get("points").is_none(), "charts of what is folded are not drawn");
    let names = |state: &serde_json::Value| -> Vec<String> {
        let servers = state["servers"].as_array().unwrap();
        servers.iter().map(|server| format!("{} {}", server["id"], server["kind"].as_str().unwrap())).collect()
    };
    assert_eq!(names(app), ["3 down", "2 unsteady", "4 maint"], "what is not well, the worst first");
    assert_eq!(app["servers"][0]["check"]["code"], "L7STS 503 in 3 ms");

    let open = live(";open=3");
    let app = &open["states"][1];
    assert_eq!(app["servers"].as_array().unwrap().len(), 5);
    assert_eq!(app["back"]["points"]["r"], serde_json::json!([0, 7, 7, 7, 7, 7, 7, 7, 7, 7]));
    assert_eq!(app["back"]["points"]["c5"], serde_json::json!([0, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
    assert!(app["back"]["points"].get("c4").is_none(), "there was no 4xx");
    assert_eq!(live(";open=3;since=8")["states"][1]["servers"][0]["points"]["e"], serde_json::json!([1, 1]));
    let nothing = live(";open=3;since=10");
    assert_eq!(nothing["states"][1]["back"]["points"], serde_json::json!({ "n": 0 }));
    assert_eq!(live(";open=3;since=9999")["states"][1]["back"]["points"]["n"], 10, "another process' count");
    let long = live(";open=3;window=600");
    assert_eq!(long["states"][1]["back"]["points"]["r"], serde_json::json!([28, 35]), "five seconds each");
    assert_eq!(live(";open=3;up")["states"][1]["servers"].as_array().unwrap().len(), 3);
}

#[test]
fn names_and_addresses_come_once() {
    let live = |rest: &str| -> serde_json::Value {
        serde_json::from_str(&get(&settings(), &format!("/stats;json;live{rest}")).1).unwrap()
    };
    let first = live("");
    let app = &first["proxies"][1];
    assert_eq!((&app["name"], &app["back"]["algorithm"]), (&"app".into(), &"roundrobin".into()));
    assert_eq!(
        app["servers"][1],
        serde_json::json!({"id": 2, "name": "s2", "address": "127.0.0.1:8081", "backup": true})
    );
    assert_eq!(first["proxies"][0]["front"]["listeners"], serde_json::json!(["0.0.0.0:80", "unix"]));
    let shape = first["shape"].as_str().unwrap();
    let again = live(&format!(";shape={shape}"));
    assert!(again.get("shape").is_none() && again.get("proxies").is_none());
    assert!(live(&format!(";shape={shape};up"))["proxies"].is_array(), "fewer servers are another shape");
}

#[test]
fn tables_of_some() {
    let (_, all) = get(&settings(), "/stats;rows");
    let (_, some) = get(&settings(), "/stats;rows;open=3");
    assert_eq!((all.matches("<section").count(), some.matches("<section").count()), (3, 1));
    assert!(some.contains("data-proxy=\"app\" data-number=\"3\""));
}

#[test]
fn assets_fit() {
    let weight: usize = super::assets::ASSETS.iter().map(|asset| asset.body.len()).sum();
    assert!(weight < 105_000, "{weight} bytes before the page itself");
    for asset in super::assets::ASSETS {
        for outside in ["http://", "https://", "//cdn"] {
            let body = asset.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!body.contains(outside), "{} loads {outside}", asset.name);
        }
    }
}
