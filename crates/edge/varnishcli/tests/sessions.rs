//! Clients of an instance that only remembers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/instance.rs"]
mod instance;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use instance::Remembering;
use varnishcli::{Reply, ReplyReader, Session, Status, auth, words};

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_795_440_260_934)
}

fn run(instance: &mut Remembering, line: &str) -> Reply {
    let words: Vec<String> =
        words(line.as_bytes(), None).unwrap().into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
    varnishcli::execute(&words, instance, now())
}

#[track_caller]
fn check(instance: &mut Remembering, line: &str, status: Status, text: &str) {
    let reply = run(instance, line);
    assert_eq!((reply.status, String::from_utf8_lossy(&reply.text).as_ref()), (status as u16, text), "{line}");
}

#[test]
fn replies_are_varnishs() {
    use Status::{Cannot, Close, Ok, Parameter, Syntax, TooFew, TooMany, Unimplemented, Unknown};
    let mut instance = Remembering::default();
    let cases: &[(&str, Status, &str)] = &[
        ("", Syntax, "Empty CLI command.\n"),
        ("PING", Unknown, "all commands are in lower-case.\n"),
        ("foo", Unknown, "Unknown request.\nType 'help' for more info.\n"),
        ("ban", TooFew, "Too few parameters\n"),
        ("vcl.use a b", TooMany, "Too many parameters\n"),
        ("stop -j", Unimplemented, "JSON unimplemented\n"),
        ("ping", Ok, "PONG 1795440260 1.0"),
        ("ping -j", Ok, "[ 2, [\"ping\", \"-j\"], 1795440260.934,\n  \"PONG\"\n]\n"),
        ("status", Ok, "Child in state running"),
        ("status -j", Ok, "[ 2, [\"status\", \"-j\"], 1795440260.934,\n  \"running\"\n]\n"),
        ("start", Cannot, "Child in state running"),
        ("pid", Ok, "Master:         10\nWorker:         11\n"),
        ("panic.show", Cannot, "Child has not panicked or panic has been cleared"),
        ("panic.clear", Cannot, "No panic to clear"),
        ("storage.list", Ok, "Storage devices:\n\tstorage.s0 = malloc\n\tstorage.Transient = malloc\n"),
        ("ban.list", Ok, "Present bans:\n1795440259.897478     0 C  \n"),
        ("vcl.list", Ok, "active   auto    warm         0    boot\n"),
        ("vcl.use nope", Parameter, "No VCL named nope known\n"),
        ("vcl.discard boot", Cannot, "Cannot discard active VCL program boot\n"),
        ("vcl.discard nope", Parameter, "No VCL name matches nope\n"),
        ("vcl.label x yy", Parameter, "No VCL named yy known\n"),
        ("vcl.state boot cold", Cannot, "Cannot set the active VCL cold."),
        ("vcl.load boot /x", Parameter, "Already a VCL named boot"),
        ("vcl.inline other x hot", Parameter, "State must be one of auto, cold or warm."),
        ("vcl.show boot", Ok, "vcl 4.1;\n"),
        ("vcl.show -v boot", Ok, "// VCL.SHOW 0 9 /etc/a.vcl\nvcl 4.1;\n\n// VCL.SHOW 1 3 <builtin>\n#-\n\n"),
        ("debug.listen_address", Ok, "a0 127.0.0.1 6081\n"),
        ("debug.vmod", Unimplemented, "Unimplemented\n"),
        ("debug.xid 999", Ok, "XID is 999 chunk 1"),
        ("param.show ttl", Parameter, "Unknown parameter \"ttl\"."),
        ("param.set foo bar", Parameter, "Unknown parameter \"foo\"."),
        ("param.set default_ttl x", Parameter, "Invalid number (x)\n\n(attempting to set param 'default_ttl' to 'x')"),
        ("param.set default_ttl 130", Ok, ""),
        ("param.show changed", Ok, "default_ttl                   130.000 [seconds]\n"),
        ("param.set vsl_space 90M", Ok, "\nChange will take effect when child is restarted"),
        ("param.reset vsl_space", Ok, "\nChange will take effect when child is restarted"),
        ("backend.set_health nope sick", Parameter, "No Backends matches"),
        ("backend.set_health boot.default xx", Parameter, "Invalid state xx"),
        ("help nope", Unknown, "Unknown request.\nType 'help' for more info.\n"),
        ("quit", Close, "Closing CLI connection"),
    ];
    for (line, status, text) in cases {
        check(&mut instance, line, *status, text);
    }
    let shown = String::from_utf8(run(&mut instance, "param.show default_ttl").text).unwrap();
    let head = "default_ttl\n        Value is: 130.000 [seconds]\n        Default is: 120.000\n        Minimum is: 0.000\n\n        ";
    assert!(shown.starts_with(head), "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 72), "{shown}");
    let json = run(&mut instance, "param.show -j").text;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3 + varnishcli::Parameters::names().count());
    let json: serde_json::Value = serde_json::from_slice(&run(&mut instance, "help -j").text).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3 + varnishcli::command::ALL.len());
}

#[test]
fn backends_are_listed_and_set() {
    let mut instance = Remembering::default();
    let list = "Backend name   Admin    Probe    Health     Last change\n\
                boot.default   probe    8/8      healthy    Mon, 23 Nov 2026 13:24:19 GMT\n";
    check(&mut instance, "backend.list", Status::Ok, list);
    check(&mut instance, "backend.list default", Status::Ok, list);
    check(&mut instance, "backend.list boot.d*", Status::Ok, list);
    check(&mut instance, "backend.list -x", Status::Parameter, "Invalid flag x");
    check(&mut instance, "backend.set_health default sick", Status::Ok, "");
    let json = run(&mut instance, "backend.list -j -p");
    let json: serde_json::Value = serde_json::from_slice(&json.text).unwrap();
    assert_eq!(json[3]["boot.default"]["admin_health"], "sick");
    assert_eq!(json[3]["boot.default"]["probe_message"], serde_json::json!([8, 8, "healthy"]));
}

#[test]
fn vcls_that_others_need_stay() {
    let mut instance = Remembering::default();
    let ok = |instance: &mut Remembering, line: &str| check(instance, line, Status::Ok, "");
    ok(&mut instance, "vcl.inline one \"vcl 4.1;\"");
    ok(&mut instance, "vcl.label lab one");
    let expected = "boot\none\nlab    one\n";
    check(&mut instance, "vcl.deps", Status::Ok, expected);
    check(&mut instance, "vcl.discard one", Status::Cannot, "Cannot discard labeled VCL program one:\n\tlab\n");
    check(&mut instance, "vcl.state one cold", Status::Cannot, "A labeled VCL cannot be set cold");
    check(&mut instance, "vcl.label lab lab", Status::Parameter, "VCL labels cannot point to other labels");
    check(&mut instance, "vcl.label boot one", Status::Parameter, "boot is not a label");
    check(&mut instance, "vcl.state lab cold", Status::Parameter, "Labels are always warm");
    ok(&mut instance, "vcl.discard one lab");
    assert_eq!(instance.calls.last().unwrap(), "discard lab one");
    check(&mut instance, "vcl.list", Status::Ok, "active   auto    warm         0    boot\n");
    ok(&mut instance, "vcl.inline two x cold");
    check(&mut instance, "vcl.use two", Status::Cannot, "VCL 'two' is cold - set to auto or warm first");
    ok(&mut instance, "vcl.state two auto");
    check(&mut instance, "vcl.use two", Status::Ok, "VCL 'two' now active");
    ok(&mut instance, "vcl.discard b*");
    ok(&mut instance, "param.set max_vcl 1");
    ok(&mut instance, "param.set max_vcl_handling 2");
    assert_eq!(run(&mut instance, "vcl.inline three x").status, Status::Cannot as u16);
}

#[test]
fn who_does_not_know_the_secret_is_sent_away() {
    let mut instance = Remembering::default();
    let challenge = [b'c'; varnishcli::CHALLENGE_BYTES];
    let good = auth::response(&challenge, instance::SECRET);
    let cases = [
        (format!("auth {good}\nstatus\n"), vec![200, 200], false),
        (format!("auth {}\nstatus\n", "0".repeat(64)), vec![500], true),
        ("status\n".to_owned(), vec![101], true),
        (format!("ping\nhelp\nauth {good}\n"), vec![200, 200, 200], false),
        ("auth\n".to_owned(), vec![104], true),
    ];
    for (input, statuses, closes) in cases {
        let (mut session, greeting) = Session::challenged(challenge, &mut instance);
        let mut replies = ReplyReader::default();
        replies.push(&greeting);
        let greeting = replies.next().unwrap().unwrap();
        assert_eq!(greeting.status, 107);
        assert_eq!(auth::challenge_in(&greeting.text), Some(challenge));
        let output = session.receive(input.as_bytes(), &mut instance, now());
        replies.push(&output.bytes);
        let mut got = Vec::new();
        while let Some(reply) = replies.next().unwrap() {
            got.push(reply.status);
        }
        assert_eq!((got, output.closes), (statuses, closes), "{input}");
    }
}

#[test]
fn long_replies_are_cut() {
    let mut instance = Remembering::default();
    let (mut session, _) = Session::open(&mut instance);
    let output = session.receive(b"param.set cli_limit 200b\nparam.show\n", &mut instance, now());
    let mut replies = ReplyReader::default();
    replies.push(&output.bytes);
    assert_eq!(replies.next().unwrap().unwrap().status, 200);
    let cut = replies.next().unwrap().unwrap();
    assert_eq!((cut.status, cut.text.len()), (201, 199));
}

/// Debian's varnishadm over a socket.
#[test]
fn varnishadm_is_served() {
    if Command::new("varnishadm").arg("-h").output().is_err() {
        println!("varnishadm is not installed (.ci/tools installs it): not tested");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let secret = std::env::temp_dir().join(format!("varnishcli-secret-{}", std::process::id()));
    std::fs::write(&secret, instance::SECRET).unwrap();
    let server = std::thread::spawn(move || {
        let mut instance = Remembering::default();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            // A client that goes in the middle is no fault.
            let _ = varnishcli::serve(&mut stream, Some([b'q'; varnishcli::CHALLENGE_BYTES]), &mut instance);
        }
    });
    let adm = |arguments: &[&str]| {
        let mut command = Command::new("varnishadm");
        command.args(["-T", &address.to_string(), "-S"]).arg(&secret).args(arguments);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(adm(&["status"]), (true, "Child in state running\n".to_owned()));
    assert_eq!(adm(&["vcl.list"]), (true, "active   auto    warm         0    boot\n\n".to_owned()));
    let (is_ok, _) = adm(&["vcl.use", "nope"]);
    assert!(!is_ok);
    server.join().unwrap();
    std::fs::remove_file(&secret).unwrap();
}

#[test]
fn a_stream_is_served_until_it_quits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        varnishcli::serve(&mut stream, None, &mut Remembering::default()).unwrap();
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"vcl.inline a << END\nvcl 4.1;\nEND\nquit\n").unwrap();
    let mut text = Vec::new();
    client.read_to_end(&mut text).unwrap();
    server.join().unwrap();
    let mut replies = ReplyReader::default();
    replies.push(&text);
    let statuses: Vec<u16> = std::iter::from_fn(|| replies.next().unwrap()).map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 200, 500]);
}
