//! Sequences over TCP: those of a configuration, and those of protocols that HAProxy knows.

use super::*;

/// Says `greeting`, and after each thing that it hears the next of `answers`; then it closes, or waits for the other side.
fn converse(greeting: &[u8], answers: &[&[u8]], hold: bool) -> String {
    let (greeting, answers) = (greeting.to_vec(), answers.iter().map(|answer| answer.to_vec()).collect::<Vec<_>>());
    let port = serve(move |mut stream| {
        let _ = stream.write_all(&greeting);
        for answer in &answers {
            if !stream.read(&mut [0; 10_000]).is_ok_and(|count| count > 0) {
                return;
            }
            let _ = stream.write_all(answer);
        }
        while hold && stream.read(&mut [0; 1_000]).is_ok_and(|count| count > 0) {}
    });
    on(port)
}

const TCP: &str = "option tcp-check";

#[test]
fn sequences_over_tcp() {
    let pong = converse(b"", &[b"+PONG\r\n"], true);
    let closing = converse(b"", &[b"+PONG\r\n"], false);
    let mute = converse(b"", &[b""], false);
    let silent = converse(b"", &[], true);
    let greeting = converse(b"220 mail\r\n", &[b"250 hello\r\n"], true);
    let short = converse(b"+PO", &[], true);
    let binary = converse(b"\x00\x01\xfe\xff", &[], true);
    let refused = free_port();
    let other = converse(b"other\n", &[], true);
    let other_port = other.split_once(':').unwrap().1;
    let ping = "tcp-check send PING\\r\\n";
    let mut cases = vec![
        case("tcp", &pong, &[TCP]),
        case("tcp-refused", on(refused), &[TCP]),
        case("tcp-full", on(full()), &[TCP]),
        case("connect", &pong, &[TCP, "tcp-check connect"]),
        case("connect-refused", on(refused), &[TCP, "tcp-check connect"]),
        case("connect-port-refused", &pong, &[TCP, &format!("tcp-check connect port {refused} comment \"two words\"")]),
        case("connect-no-network", &pong, &[TCP, "tcp-check connect addr 255.255.255.255"]),
        case(
            "connect-port",
            &pong,
            &[TCP, &format!("tcp-check connect port {other_port}"), "tcp-check expect string other"],
        ),
        case(
            "connect-expression",
            &pong,
            &[
                TCP,
                &format!("tcp-check set-var(check.port) int({other_port})"),
                "tcp-check connect port var(check.port)",
                "tcp-check expect string other",
            ],
        ),
        case(
            "connect-address",
            on(refused),
            &[TCP, &format!("tcp-check connect addr {other}"), "tcp-check expect string o"],
        ),
        case("send", &pong, &[TCP, ping]),
        case("send-binary-lf-empty", &pong, &[TCP, "tcp-check send-binary-lf %[var(check.none)]"]),
        case("send-binary-lf-odd", &pong, &[TCP, "tcp-check send-binary-lf 123"]),
        case("send-lf-empty", &other, &[TCP, "tcp-check send-lf %[var(check.none)]", "tcp-check expect string other"]),
        case("send-long", &pong, &[TCP, &format!("tcp-check send {}", "x".repeat(1_900))]),
        case("empty", &mute, &[TCP, ping, "tcp-check expect string +PONG"]),
        case("empty-comment", &mute, &[TCP, ping, "tcp-check expect error-status L7STS comment why string +PONG"]),
        case("silent", &silent, &[TCP, ping, "tcp-check expect string +PONG comment \"ping it\""]),
        case("silent-binary", &silent, &[TCP, "tcp-check expect binary 414200"]),
        case("silent-tout", &silent, &[TCP, "tcp-check expect tout-status L4TOUT rstring x"]),
        case("silent-timeout", &silent, &[TCP, "timeout check 200ms", "tcp-check expect ! string x"]),
        case(
            "two-connections",
            &pong,
            &[
                TCP,
                "tcp-check connect",
                ping,
                "tcp-check expect string PONG",
                &format!("tcp-check connect port {other_port}"),
                "tcp-check expect string other",
            ],
        ),
        case(
            "comment",
            &pong,
            &[TCP, "tcp-check comment \"is it up\"", ping, "tcp-check comment b", "tcp-check expect string x"],
        ),
        case(
            "row",
            &greeting,
            &[
                TCP,
                "tcp-check expect string 220",
                "tcp-check expect ! string 5",
                "tcp-check expect rstring mail",
                "tcp-check send HELO\\r\\n",
                "tcp-check expect string 250",
                "tcp-check expect ! string mail",
            ],
        ),
    ];
    for (name, server) in [("pong", &pong), ("closing", &closing)] {
        for (kind, expect) in [
            ("string", "string +PONG"),
            ("string-not", "string -ERR"),
            ("forbidden", "! string +PONG"),
            ("forbidden-not", "! string -ERR"),
            ("long", "string +PONG+PONG+PONG"),
            ("regex", "rstring ^.P[A-Z]+"),
            ("regex-not", "rstring ^P"),
            ("regex-forbidden", "! rstring ^.P"),
            ("format", "string-lf %[str(PON)]G"),
            ("format-not", "string-lf %[str(PIN)]G"),
            ("format-empty", "string-lf %[var(check.none)]"),
            ("binary", "binary 504f4e47"),
            ("binary-not", "binary 5050"),
            ("binary-regex", "rbinary ^2B504F4E470D0A$"),
            ("binary-regex-not", "rbinary ^2b"),
            ("binary-format", "binary-lf 50%[str(O),hex]"),
            ("binary-format-not", "binary-lf 50%[str(Q),hex]"),
            ("binary-format-odd", "binary-lf 5"),
            ("min-recv", "min-recv 3 string -ERR"),
            ("min-recv-none", "min-recv 0 string -ERR"),
            ("min-recv-much", "min-recv 300 string PONG"),
            ("on-success", "on-success \"%[res.payload(1,4)] in %[be_name]\" string PONG"),
            ("on-error", "on-error \"no %[res.payload(0,0),cut_crlf]\" min-recv 1 string -ERR"),
            ("on-error-comment", "comment why on-error bad min-recv 1 string -ERR"),
            ("error-status", "error-status L7STS min-recv 1 string -ERR"),
            ("ok-status", "ok-status L4OK string PONG"),
            ("status-code", "status-code int(12) ok-status L7OK string PONG"),
            ("status-code-error", "status-code res.payload(1,2) error-status L7STS min-recv 1 string -ERR"),
        ] {
            cases.push(case(&format!("{kind}-{name}"), server, &[TCP, ping, &format!("tcp-check expect {expect}")]));
        }
    }
    for (name, expect) in [("short", "string +PONG"), ("short-regex", "rstring PO"), ("short-not", "! string +PONG")] {
        cases.push(case(name, &short, &[TCP, &format!("tcp-check expect {expect}")]));
    }
    cases.push(case("bytes", &binary, &[TCP, "tcp-check expect binary 0001feff"]));
    cases.push(case("bytes-regex", &binary, &[TCP, "tcp-check expect rbinary ^0001FE"]));
    compare(&cases);
}

#[test]
fn built_in_sequences() {
    let mysql = b"\x4a\0\0\0\n8.0.19\0\n\0\0\0o<\x02^bIA\r\0\xff\xff\xff\x02\0\xff\xc7\x15\0\0\0\0\0\0\0\0\0\0|\x18!Y\x10n'a\x14C\"2\0caching_sha2_password\0";
    let refused = b"\x09\0\0\x02\xff\x15\x04#28000";
    let bind = |code: u8| vec![0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0];
    let (bound, not_bound) = (bind(0), bind(49));
    let mut hello = vec![0, 0, 0, 58, 101, 0, 0, 0, 1, 0, 0];
    for (key, value) in
        [("version", &b"\x08\x032.0"[..]), ("max-frame-size", b"\x03\xfc\xf0\x06"), ("capabilities", b"\x08\x00")]
    {
        hello.push(u8::try_from(key.len()).unwrap());
        hello.extend_from_slice(key.as_bytes());
        hello.extend_from_slice(value);
    }
    let size = u32::try_from(hello.len() - 4).unwrap().to_be_bytes();
    hello[..4].copy_from_slice(&size);
    let mut cases = Vec::new();
    for (option, conversations) in [
        (
            "redis-check",
            vec![
                (&b""[..], vec![&b"+PONG\r\n"[..]]),
                (b"", vec![b"-ERR wrong number of arguments\r\n"]),
                (b"", vec![b"-LOADING Redis is loading the dataset in memory\r\nmore"]),
                (b"", vec![b"+P"]),
            ],
        ),
        (
            "smtpchk",
            vec![
                (b"220 mail.example.org ESMTP\r\n", vec![&b"250 mail.example.org\r\n"[..], b"221 bye\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250 mail.example.org\r\n", b"421 no\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n250 SIZE 5\r\n", b"221-bye\r\n221 bye\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n250-SIZE 5\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n550 SIZE 5\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"501 no such\r\n"]),
                (b"554 go away\r\n", vec![]),
                (b"SSH-2.0\r\n", vec![]),
                (b"220\r\n", vec![b"250 \r\n", b"221\r\n"]),
                (b"220", vec![]),
            ],
        ),
        ("smtpchk EHLO there", vec![(b"220 m\r\n", vec![&b"250 there you are\r\n"[..], b"221 2.0.0 bye\r\n"])]),
        (
            "pgsql-check user me",
            vec![
                (b"", vec![&b"R\0\0\0\x08\0\0\0\0"[..]]),
                (b"", vec![b"R\0\0\0\x0c\0\0\0\x05abcd"]),
                (b"", vec![b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"]),
                (b"", vec![b"EFATAL 28000 no\0"]),
                (b"", vec![b"HTTP/1.1 400 Bad Request\r\n\r\n"]),
                (b"", vec![b"R\0"]),
            ],
        ),
        ("mysql-check", vec![(&mysql[..], vec![]), (refused, vec![]), (b"\x4a\0", vec![]), (b"HTTP/1.1 400", vec![])]),
        (
            "mysql-check user me",
            vec![
                (&mysql[..], vec![&b"\x07\0\0\x02\0\0\0\x02\0\0\0"[..]]),
                (mysql, vec![refused]),
                (mysql, vec![b"\x07\0\0\x02\0\0"]),
            ],
        ),
        ("mysql-check user me pre-41", vec![(mysql, vec![b"\x03\0\0\x02\0\0\0"])]),
        (
            "ldap-check",
            vec![
                (b"", vec![&bound[..]]),
                (b"", vec![&not_bound[..]]),
                (b"", vec![b"\x30\x0c\x02\x01\x01\x60\x07\x0a\x01\0\x04\0\x04\0"]),
                (b"", vec![b"HTTP/1.1 400 Bad Request\r\n"]),
                (b"", vec![b"\x30\x82\xff\xff2345678901234567890"]),
            ],
        ),
        ("spop-check", vec![(b"", vec![&hello[..]]), (b"", vec![b"HTTP/1.1 400 Bad"])]),
        (
            "ssl-hello-chk",
            vec![
                (b"", vec![&b"\x16\x03\0\0\x02ab"[..]]),
                (b"", vec![b"\x15\x03\0\0\x02\x02\x28"]),
                (b"", vec![b"HTTP/1.1 400"]),
            ],
        ),
    ] {
        for (number, (greeting, answers)) in conversations.into_iter().enumerate() {
            for hold in [true, false] {
                // NOTE: of a frame that never gets whole, haproxy reads what lies behind it in memory.
                if option == "spop-check" && number == 1 && !hold {
                    continue;
                }
                let server = converse(greeting, &answers, hold);
                let name = format!("{}-{number}-{hold}", option.replace(' ', "-"));
                cases.push(case(&name, server, &[&format!("option {option}")]));
            }
        }
        for (name, server) in [("refused", on(free_port())), ("mute", converse(b"", &[b""], false))] {
            cases.push(case(&format!("{}-{name}", option.replace(' ', "-")), server, &[&format!("option {option}")]));
        }
    }
    compare(&cases);
}
