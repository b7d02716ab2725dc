//! The examples of "Speed Up Your Web Site with Varnish", in the spelling of VCL 3 that the article has.

mod support;

use support::{Kept, Table, answer, program};
use vcl::{
    subroutine::Subroutine,
    variables::{Message, Variable},
};

const BACKEND: &str = "backend default { .host = \"127.0.0.1\"; .port = \"80\"; }\n";

fn article(text: &str) -> vcl::program::Program {
    program(&format!("{BACKEND}{text}"))
}

fn get(url: &str) -> Table {
    let text = |text: &str| Kept::Text(text.as_bytes().to_vec());
    Table::with(
        &[(Message::Req, "host", "example.com"), (Message::Bereq, "host", "example.com")],
        &[
            (Variable::ReqMethod, text("GET")),
            (Variable::BereqMethod, text("GET")),
            (Variable::ReqUrl, text(url)),
            (Variable::BereqUrl, text(url)),
            (Variable::BerespTtl, Kept::Number(120.0)),
        ],
    )
}

#[test]
fn hosts_become_one() {
    let program =
        article("sub vcl_recv { if (req.http.host ~ \"^www.example.com\") { set req.http.host = \"example.com\"; } }");
    let mut table = get("/");
    table.headers.insert((Message::Req, "host".to_owned()), b"www.example.com".to_vec());
    assert_eq!(answer(&program, Subroutine::Recv, &mut table), "hash");
    assert_eq!(table.header_text(Message::Req, "host").unwrap(), "example.com");
}

#[test]
fn what_is_not_get_or_head_passes() {
    let program = article(
        "sub vcl_recv {
            if (req.request != \"GET\" && req.request != \"HEAD\") { return (pass); }
            return (lookup);
        }",
    );
    for (method, expected) in [("GET", "hash"), ("HEAD", "hash"), ("POST", "pass"), ("FOO", "pass")] {
        let mut table = get("/");
        table.variables.insert(Variable::ReqMethod, Kept::Text(method.into()));
        assert_eq!(answer(&program, Subroutine::Recv, &mut table), expected, "{method}");
    }
}

#[test]
fn images_lose_cookies() {
    let program = article("sub vcl_recv { if (req.url ~ \"^/images\") { unset req.http.cookie; } }");
    for (url, expected) in [("/images/a.png", "hash"), ("/page", "pass")] {
        let mut table = get(url);
        table.headers.insert((Message::Req, "cookie".to_owned()), b"a=b".to_vec());
        assert_eq!(answer(&program, Subroutine::Recv, &mut table), expected, "{url}");
    }
}

#[test]
fn images_lose_set_cookie_and_stay_an_hour() {
    let program = article(
        "sub vcl_fetch {
            if (req.url ~ \"\\.(png|gif|jpg)$\") { unset beresp.http.set-cookie; set beresp.ttl = 1h; }
        }",
    );
    for (url, ttl, uncacheable) in [("/a.png", 3_600.0, None), ("/a.html", 120.0, Some(Kept::Bool(true)))] {
        let mut table = get(url);
        table.headers.insert((Message::Beresp, "set-cookie".to_owned()), b"a=b".to_vec());
        assert_eq!(answer(&program, Subroutine::BackendResponse, &mut table), "deliver");
        assert_eq!(table.variables.get(&Variable::BerespTtl), Some(&Kept::Number(ttl)), "{url}");
        assert_eq!(table.variables.get(&Variable::BerespUncacheable), uncacheable.as_ref(), "{url}");
    }
}

#[test]
fn hits_are_told() {
    let program = article(
        "sub vcl_hit { set req.http.tempheader = \"1\"; }
        sub vcl_miss { set req.http.tempheader = \"0\"; }
        sub vcl_deliver {
            set resp.http.X-Hit = \"0\";
            if (req.http.tempheader) {
                set resp.http.X-Hit = req.http.tempheader;
                unset req.http.tempheader;
            }
        }",
    );
    for (subroutine, expected) in [(Subroutine::Hit, "1"), (Subroutine::Miss, "0")] {
        let mut table = get("/");
        answer(&program, subroutine, &mut table);
        assert_eq!(answer(&program, Subroutine::Deliver, &mut table), "deliver");
        assert_eq!(table.header_text(Message::Resp, "x-hit").unwrap(), expected);
        assert_eq!(table.header_text(Message::Req, "tempheader"), None);
    }
}

/// The wrong way of the article: what `vcl_fetch` sets is stored, and says for good that it was a miss.
#[test]
fn hits_are_told_the_wrong_way() {
    let text = format!(
        "{BACKEND}sub vcl_hit {{ set req.http.tempheader = \"1\"; }}
        sub vcl_miss {{ set req.http.tempheader = \"0\"; }}
        sub vcl_fetch {{
            set beresp.http.X-Hit = \"0\";
            if (req.http.tempheader) {{
                set beresp.http.X-Hit = req.http.tempheader;
                unset req.http.tempheader;
            }}
        }}"
    );
    let compiled = vcl::compile("article.vcl", &text, &vcl::Options::default()).unwrap();
    let notes: Vec<&str> = compiled.notes.iter().map(vcl::diagnostic::Diagnostic::summary).collect();
    assert!(notes.iter().any(|note| note.starts_with("req in vcl_fetch stands for bereq")), "{notes:?}");
    let mut table = get("/");
    // The backend's request is made of the client's behind vcl_miss.
    table.headers.insert((Message::Bereq, "tempheader".to_owned()), b"0".to_vec());
    answer(&compiled.program, Subroutine::BackendResponse, &mut table);
    assert_eq!(table.header_text(Message::Beresp, "x-hit").unwrap(), "0");
}

#[test]
fn everything_stays_an_hour() {
    let program = article(
        "sub vcl_recv { return (lookup); }
        sub vcl_fetch { set beresp.ttl = 1h; return (deliver); }",
    );
    let mut table = get("/");
    table.headers.insert((Message::Req, "cookie".to_owned()), b"a=b".to_vec());
    table.headers.insert((Message::Beresp, "set-cookie".to_owned()), b"a=b".to_vec());
    assert_eq!(answer(&program, Subroutine::Recv, &mut table), "hash");
    assert_eq!(answer(&program, Subroutine::BackendResponse, &mut table), "deliver");
    assert_eq!(table.variables.get(&Variable::BerespTtl), Some(&Kept::Number(3_600.0)));
    assert_eq!(table.variables.get(&Variable::BerespUncacheable), None);
}

/// The article's tables of objects and answers: what stands there compiles, in the spelling of VCL 3.
#[test]
fn tables_of_objects_and_answers() {
    let answers = [
        ("vcl_recv", "pass lookup error pipe"),
        ("vcl_pass", "pass error restart"),
        ("vcl_miss", "pass error fetch"),
        ("vcl_hit", "pass error restart deliver"),
        ("vcl_fetch", "error restart deliver hit_for_pass"),
        ("vcl_deliver", "restart deliver"),
    ];
    for (subroutine, actions) in answers {
        for action in actions.split(' ') {
            let statement =
                if action == "error" { "error 404 \"no\";".to_owned() } else { format!("return ({action});") };
            article(&format!("sub {subroutine} {{ {statement} }}"));
        }
    }
    let objects = [
        ("vcl_recv", "client.ip server.ip req.url"),
        ("vcl_pass", "client.ip server.ip req.url bereq.url"),
        ("vcl_miss", "client.ip server.ip req.url bereq.url"),
        ("vcl_hit", "client.ip server.ip req.url obj.ttl obj.http.x"),
        ("vcl_fetch", "client.ip server.ip req.url bereq.url beresp.ttl beresp.http.x"),
        ("vcl_deliver", "client.ip server.ip req.url resp.status resp.http.x"),
    ];
    for (subroutine, names) in objects {
        for name in names.split(' ') {
            let message = if subroutine == "vcl_fetch" { "beresp" } else { "req" };
            article(&format!("sub {subroutine} {{ set {message}.http.seen = \"\" {name}; }}"));
        }
    }
    let wrong =
        vcl::compile("t", &format!("{BACKEND}sub vcl_hit {{ set resp.http.x = \"1\"; }}"), &vcl::Options::default());
    assert!(wrong.unwrap_err().message().contains("Cannot be set in subroutine 'vcl_hit'."));
}

#[test]
fn errors_are_made_here_and_for_backends() {
    let program = article(
        "sub vcl_recv { if (req.url == \"/gone\") { error 410 \"Gone\"; } }
        sub vcl_error { set obj.http.X-Status = obj.status; synthetic {\"<p>\"} obj.response {\"</p>\"}; return (deliver); }",
    );
    let mut table = get("/gone");
    assert_eq!(answer(&program, Subroutine::Recv, &mut table), "synth 410 \"Gone\"");
    for (subroutine, status, reason, body, message) in [
        (Subroutine::Synth, Variable::RespStatus, Variable::RespReason, Variable::RespBody, Message::Resp),
        (
            Subroutine::BackendError,
            Variable::BerespStatus,
            Variable::BerespReason,
            Variable::BerespBody,
            Message::Beresp,
        ),
    ] {
        table.variables.insert(status, Kept::Int(410));
        table.variables.insert(reason, Kept::Text(b"Gone".to_vec()));
        assert_eq!(answer(&program, subroutine, &mut table), "deliver");
        assert_eq!(table.header_text(message, "x-status").unwrap(), "410");
        assert_eq!(table.variables.get(&body), Some(&Kept::Text(b"<p>Gone</p>".to_vec())));
    }
}
