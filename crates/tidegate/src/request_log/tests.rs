#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::{printer::Printer, *};
use telemetry::ring::{RingEvent, RingWriter, Summary};

fn arguments(words: &[&str]) -> RequestLogArguments {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: RequestLogArguments,
    }
    <Line as clap::Parser>::parse_from(["log"].iter().chain(words)).arguments
}

fn printed(words: &[&str], write: impl Fn(&RingWriter)) -> String {
    let writer = RingWriter::anonymous(1, 64 * 1024, 0).unwrap();
    let mut reader = writer.reader().unwrap();
    write(&writer);
    let mut output = Vec::new();
    let mut printer = Printer::new(&arguments(words), &mut output).unwrap();
    while let RingEvent::Block(block) = reader.poll() {
        if printer.is_done() {
            break;
        }
        printer.take(&block).unwrap();
    }
    printer.finish().unwrap();
    String::from_utf8(output).unwrap()
}

fn begin(writer: &RingWriter, id: u64, fill: impl Fn(&mut telemetry::ring::Transaction)) {
    let mut transaction = writer.transaction();
    transaction.begin(id, 3_661_000_007);
    fill(&mut transaction);
    writer.commit(&mut transaction);
}

/// Two transactions that answer differently.
fn shown(words: &[&str]) -> String {
    printed(words, |writer| {
        for (id, status) in [(1, "200"), (2, "503")] {
            begin(writer, id, |transaction| {
                transaction.record(Tag::ReqURL, b"/a\x1b[31m");
                transaction.record(Tag::RespStatus, status.as_bytes());
                transaction.record(Tag::End, b"");
            });
        }
    })
}

/// A session with a request, and a check.
fn traffic(words: &[&str]) -> String {
    printed(words, |writer| {
        begin(writer, 4, |records| {
            records.record(Tag::Begin, b"sess 0 HTTP/1");
            records.record(Tag::SessOpen, b"192.0.2.7 41224 - 192.0.2.1 80");
        });
        begin(writer, 5, |records| {
            records.summarize(&Summary {
                session: 4,
                source: Some("192.0.2.7:41224".parse().unwrap()),
                frontend: b"web",
                request_line: b"GET /basket HTTP/1.1",
                method_len: 3,
                backend: Some((b"shop", b"one")),
                status: 200,
                termination: *b"--NN",
                bytes_in: 82,
                bytes_out: 140,
                took_us: Some(1_165),
            });
        });
        begin(writer, 6, |records| {
            records.summarize(&Summary {
                session: 4,
                source: Some("[2001:db8::7]:9".parse().unwrap()),
                frontend: b"tcp",
                termination: *b"SC--",
                ..Summary::default()
            });
        });
        begin(writer, 7, |records| {
            records.record(Tag::Begin, b"check 0 shop/one");
            records.record(Tag::Health, b"shop/one DOWN L4CON 0 1 refused");
            records.record(Tag::End, b"");
        });
        begin(writer, 4, |records| {
            records.record(Tag::SessClose, b"closed 0.5");
            records.record(Tag::End, b"");
        });
    })
}

#[test]
fn shows_what_is_asked_for() {
    assert_eq!(
        shown(&["-n", "1", "--long"]),
        "*   transaction 1, 01:01:01.000007 UTC\n-   ReqURL         /a\\u{1b}[31m\n-   RespStatus     200\n-   End            \n\n"
    );
    let second = "         2 RespStatus     503\n";
    for (words, expected) in [
        (&["-g", "raw", "-i", "RespStatus"][..], "         1 RespStatus     200\n         2 RespStatus     503\n"),
        (&["-g", "raw", "-i", "RespStatus", "-q", "RespStatus == 503"], second),
        (&["-g", "raw", "-i", "RespStatus", "-q", "RespStatus != 200"], second),
        (&["-g", "raw", "-i", "RespStatus", "-q", "RespStatus ~ \"^5\""], second),
        // In raw mode a record is a group of its own, on level 0.
        (&["-g", "raw", "-q", "RespStatus == 503 and {0}RespStatus"], second),
        (&["-g", "raw", "-q", "RespStatus == 503 and ReqURL"], ""),
        (&["-g", "raw", "-q", "RespStatus == 503 or {1}ReqURL"], second),
        (&["-g", "raw", "-q", "Retry"], ""),
        (&["-g", "raw", "-n", "1", "-x", "ReqURL,End"], "         1 RespStatus     200\n"),
        (&["-g", "raw", "-i", "Resp*", "-q", "vxid == 2"], second),
        (
            &["-g", "session", "-i", "RespStatus", "-q", "RespStatus == 503"],
            "*   transaction 2, 01:01:01.000007 UTC\n-   RespStatus     503\n\n",
        ),
        (
            &["-i", "RespStatus", "-q", "RespStatus == 404", "-q", "RespStatus == 503"],
            "*   transaction 2, 01:01:01.000007 UTC\n-   RespStatus     503\n\n",
        ),
    ] {
        assert_eq!(shown(words), expected, "{words:?}");
    }
}

#[test]
fn a_request_is_one_line_unless_more_is_asked_for() {
    let text = traffic(&[]);
    let lines: Vec<&str> = text.lines().collect();
    let [request, tcp] = lines.as_slice() else { panic!("{text}") };
    // The hour is that of the machine.
    let (before, after) = request.split_once(" [01/Jan/1970:").unwrap();
    assert_eq!(before, "192.0.2.7:41224");
    assert!(after.ends_with(":01.000] web shop/one  1.1ms 200    140 --NN \"GET /basket\""), "{request}");
    assert!(tcp.starts_with("[2001:db8::7]:9 [") && tcp.ends_with("] tcp tcp/<NOSRV>      -   -      0 SC--"), "{tcp}");

    let line = shown(&["-n", "1"]);
    assert!(line.ends_with("transaction 1: ReqURL /a\\u{1b}[31m; RespStatus 200; End \n"), "{line}");
}

#[test]
fn sessions_and_checks_come_when_they_are_asked_for() {
    assert!(traffic(&["-q", "Health ~ DOWN"]).ends_with("] check shop/one DOWN L4CON 0 1 refused\n"));
    let sessions = traffic(&["-q", "SessOpen or SessClose"]);
    assert!(sessions.contains("session 4 opened: 192.0.2.7 41224") && sessions.ends_with("session 4 closed 0.5s\n"));
    // They have no status, but nobody has asked about them.
    assert!(traffic(&["-q", "not RespStatus == 200"]).contains("tcp/<NOSRV>"));
    assert_eq!(traffic(&["-q", "not RespStatus == 200"]).lines().count(), 1);
    assert_eq!(traffic(&["-g", "vxid"]).matches("*   transaction").count(), 5);
    let session = traffic(&["-g", "session", "-q", "{2}RespStatus == 200"]);
    assert_eq!(session.matches("*   transaction").count(), 4, "{session}");
    assert_eq!(traffic(&["-g", "session", "-q", "{1}RespStatus == 200"]), "");
}

#[test]
fn json_has_a_line_for_each() {
    let parse = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let lines = parse(&traffic(&["--json"]));
    assert_eq!(
        lines.first().unwrap(),
        &serde_json::json!({
            "transaction": 5, "time_us": 3_661_000_007_u64, "client": "192.0.2.7", "client_port": 41_224, "frontend": "web",
            "backend": "shop", "server": "one", "method": "GET", "url": "/basket", "status": 200, "took_us": 1_165,
            "bytes_in": 82, "bytes_out": 140, "termination": "--NN"
        })
    );
    assert_eq!(lines.len(), 2);
    let long = parse(&traffic(&["--json", "--long", "-q", "RespStatus"]));
    let records = long.first().and_then(|value| value.get("records")).unwrap();
    assert!(records.as_array().unwrap().contains(&serde_json::json!({ "tag": "RespStatus", "text": "200" })));
    let raw = parse(&traffic(&["--json", "-g", "raw", "-i", "ReqURL"]));
    assert_eq!(raw, [serde_json::json!({ "transaction": 5, "tag": "ReqURL", "text": "/basket" })]);
}

#[test]
fn queries_come_from_files_and_errors_name_them() {
    let path = std::env::temp_dir().join(format!("tidegate-queries-{}", std::process::id()));
    let name = path.display().to_string();
    std::fs::write(&path, "# those that failed\nRespStatus >= 500\n").unwrap();
    assert_eq!(shown(&["-g", "raw", "-Q", &name]), "         2 RespStatus     503\n");
    std::fs::write(&path, "RespStatus:503\n").unwrap();
    let error = arguments(&["-Q", &name]).wanted().unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.starts_with(&name) && error.contains("write RespStatus == 503"), "{error}");
    assert!(arguments(&["-Q", &name]).wanted().unwrap_err().to_string().starts_with(&name));
}
