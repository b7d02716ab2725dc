//! Expressions evaluated by the real HAProxy and by us, on the same request.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use sample::*;
use support::*;

/// Expressions whose value must be the same, one a line; `#` starts a comment.
const EXPRESSIONS: &str = include_str!("data/expressions.txt");

/// The same for binary messages.
const MESSAGES: &str = include_str!("data/messages.txt");

/// What is asked for, after a number that says which expression is wanted.
const PATH: &str = "/dir/sub.d/File%20name.html;x=1?user=john&empty=&list=a,b;c=3&user=jane&q=a+b%3F";

const HEADERS: &[(&str, &str)] = &[
    ("Host", "www.Example.com:8080"),
    ("User-Agent", "Mozilla/5.0 (X11; \"quoted, text\") Gecko"),
    ("Accept-Language", "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5"),
    ("X-Forwarded-For", "192.0.2.1, 10.1.2.3:80 , 2001:db8::1"),
    ("X-Forwarded-For", "nonsense, 203.0.113.9"),
    ("X-List", "one,  two ,\"a,b\",,last"),
    ("X-List", "next"),
    ("X-Empty", ""),
    ("X-Number", "42abc"),
    ("X-Negative", "-7"),
    ("X-Utf8", "caf\u{e9} \u{20ac}"),
    ("Cookie", "session=abc123; lang=fr; $Path=/; session=second; flag; quoted=\"a;b\""),
    ("Cookie", "other=1; session=third"),
    ("Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
    ("X-Bearer", "Bearer   tok.en"),
    ("Content-Type", "application/x-www-form-urlencoded"),
];

const BODY: &str = "name=Jos%C3%A9&empty=&name=second&json={\"a\":{\"b\":[1,2.5,{\"c\":\"x\\ny\"}]},\"t\":true,\"n\":null,\"s\":\"str\"}";

/// Variables set before every expression.
const VARIABLES: &[(&str, &str)] = &[
    ("txn.text", "str(value)"),
    ("txn.number", "int(7)"),
    ("txn.zero", "int(0)"),
    ("txn.address", "ipv4(192.0.2.200)"),
    ("txn.empty", "str()"),
    ("txn.key", "str(a2V5)"),
    ("sess.kept", "str(kept)"),
    ("txn.json", "req.body,regsub(^.*json=,)"),
];

const MAP: &str = "# a comment\n  www.example.com   first value  \nexample.com second\n/dir sub\ndir component\n10.0.0.0/8 private\n10.1.0.0/16 site\n2001:db8::/32 doc\n5:9 range\n42 answer\n";
const NUMBERS: &str = "www 1\nexample 22\n.com 333\n";
const ADDRESSES: &str = "www 192.0.2.1\nexample 2001:db8::5\n";
const EXPRESSIONS_MAP: &str = "^w+\\.(.*)$ host-\\1-\\0\nexam(ple) part-\\1\n";

/// Conditions and the ACLs that they use.
const CONDITIONS: &str = include_str!("data/conditions.txt");

/// Expressions of which most are refused.
const ERRORS: &str = include_str!("data/errors.txt");

const PREAMBLE: &str = "global\n  tune.bufsize 32768\n  setenv SITE example\ndefaults\n  mode http\n  timeout client 10s\n  timeout server 10s\n  timeout connect 10s\n\
         userlist admins\n  group ops users Aladdin\n  user Aladdin insecure-password \"open sesame\"\n\
         backend app\n  server a 127.0.0.1:9 weight 101\n  server b 127.0.0.1:9\n\
         frontend fe\n  bind 127.0.0.1:PORT name front\n  default_backend app\n  option http-buffer-request\n  declare capture request len 10\n  declare capture request len 10\n";

fn lines(text: &'static str) -> Vec<&'static str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn map_files() -> (std::path::PathBuf, Files) {
    let directory = std::env::temp_dir().join(format!("sample-maps-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut files = Files::default();
    for (name, content) in [
        ("strings", MAP),
        ("numbers", NUMBERS),
        ("addresses", ADDRESSES),
        ("expressions", EXPRESSIONS_MAP),
        ("words", "# comment\n\n  two\r\nwith blanks  \n/0/d\n"),
        ("others", "ONE\n"),
        ("networks", "10.0.0.0/8\n192.168.0.0/16\n"),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        files.0.insert(path.to_string_lossy().into_owned(), content.as_bytes().to_vec());
    }
    (directory, files)
}

/// Our side of the comparison: the value in hexadecimal, or that there is none.
fn ours(text: &str, number: usize, port: u16, files: &Files) -> String {
    let expression = match expression_with(text, files) {
        Ok(expression) => expression,
        Err(error) => return format!("error: {error}"),
    };
    let stream = stream(number, port, files);
    match expression.evaluate(&stream, Options::REQUEST).value() {
        Some(value) => {
            let block = value.into_block().unwrap();
            block.iter().map(|byte| format!("{byte:02X}")).collect::<String>() + "."
        }
        None => "nothing".to_owned(),
    }
}

/// The request as we see it.
fn stream(number: usize, port: u16, files: &Files) -> Stream {
    let mut stream = Stream::request(&format!("/{number}{PATH}"), HEADERS);
    stream.headers.add(b"Content-Length", BODY.len().to_string().as_bytes());
    stream.method = "POST".to_owned();
    stream.body = BODY.as_bytes().to_vec();
    stream.request_line = Some(format!("POST /{number}{PATH} HTTP/1.1"));
    let address = |port| Some(Address::Inet(std::net::SocketAddr::from(([127, 0, 0, 1], port))));
    stream.client = Some(Connection {
        source: address(40_000),
        destination: address(port),
        original_source: address(40_000),
        original_destination: address(port),
        http_major: 1,
        error_text: "Success",
        ..Connection::default()
    });
    for (name, value) in VARIABLES {
        let value = expression_with(value, files).unwrap();
        if let Some(value) = value.evaluate(&stream, Options::REQUEST).value() {
            stream.set(name, value.into_static());
        }
    }
    stream
}

/// The same request on the wire.
fn request(number: usize) -> Vec<u8> {
    let mut request = format!("POST /{number}{PATH} HTTP/1.1\r\n").into_bytes();
    for (name, value) in HEADERS {
        request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    // HAProxy takes Connection away before anything can see it, so our request has none.
    request.extend_from_slice(format!("Content-Length: {}\r\nConnection: close\r\n\r\n{BODY}", BODY.len()).as_bytes());
    request
}

/// The configuration up to the rules.
fn preamble() -> String {
    let mut configuration = String::from(PREAMBLE);
    for (name, value) in VARIABLES {
        configuration.push_str(&format!("  http-request set-var({name}) '{value}'\n"));
    }
    configuration
}

fn readable(hexadecimal: &str) -> String {
    let Some(digits) = hexadecimal.strip_suffix('.') else { return hexadecimal.to_owned() };
    let bytes: Vec<u8> =
        (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
    format!("{hexadecimal} {:?}", String::from_utf8_lossy(&bytes))
}

/// Where we differ on purpose: the expression, our value in hexadecimal, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("meth(OTHER)", "4F54484552.", "HAProxy keeps methods that it does not know as OPTIONS in variables"),
    ("bool(true),add(1)", "0000000000000002.", "HAProxy's result is still called a boolean, and becomes 1 as bytes"),
    ("str(a===),b64dec", "nothing", "three padding characters encode nothing; HAProxy means to refuse them too"),
    ("str(\"en;q=0, fr;q=0.1\"),language(en;fr)", "6672.", "HAProxy loses what follows a quality without a fraction"),
    ("str(YQ==),ub64dec", "61.", "HAProxy takes padding for data in this alphabet"),
    (
        "str(eyJhIjoxfQ.eyJhIjoyfQ.c2ln),jwt_payload_query",
        "7B2261223A327D.",
        "HAProxy 2.6 forgets to say that it worked",
    ),
];

#[test]
fn values_are_those_of_haproxy() {
    let (directory, files) = map_files();
    compare(EXPRESSIONS, &directory, &files);
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn fields_of_messages_are_those_of_haproxy() {
    compare(MESSAGES, std::path::Path::new(""), &Files::default());
}

fn compare(text: &'static str, directory: &std::path::Path, files: &Files) {
    if !HaProxy::is_installed() {
        return;
    }
    let expressions: Vec<String> =
        lines(text).into_iter().map(|text| text.replace("MAPS", &directory.to_string_lossy())).collect();
    let mut configuration = preamble();
    for (number, text) in expressions.iter().enumerate() {
        configuration.push_str(&format!(
            "  http-request set-var(txn.r) '{text}' if {{ path_beg /{number}/ }}\n\
             \x20 http-request return status 200 content-type text/plain lf-string '%[var(txn.r),hex].' if {{ path_beg /{number}/ }} {{ var(txn.r) -m found }}\n\
             \x20 http-request return status 200 content-type text/plain string nothing if {{ path_beg /{number}/ }}\n"
        ));
    }
    let haproxy = HaProxy::start(&configuration);
    let mut wrong = Vec::new();
    for (number, text) in expressions.iter().enumerate() {
        let theirs = haproxy.body(&request(number));
        let ours = ours(text, number, haproxy.port, files);
        if ours != theirs {
            wrong.push(format!("{text}\n  ours   {}\n  theirs {}", readable(&ours), readable(&theirs)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}

#[test]
fn differences_are_those_we_chose() {
    let files = Files::default();
    for (text, expected, why) in DIFFERENCES {
        assert_eq!(readable(&ours(text, 0, 80, &files)), readable(expected), "{text}: {why}");
    }
}

#[test]
fn conditions_are_those_of_haproxy() {
    if !HaProxy::is_installed() {
        return;
    }
    let (directory, files) = map_files();
    let text = CONDITIONS.replace("MAPS", &directory.to_string_lossy());
    let (declarations, conditions): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .partition(|line| line.starts_with("acl "));
    let mut configuration = preamble();
    for line in &declarations {
        configuration.push_str(&format!("  {line}\n"));
    }
    for (number, line) in conditions.iter().enumerate() {
        configuration.push_str(&format!("  http-request set-var(txn.c{number}) int(1) {line}\n"));
    }
    configuration.push_str("  http-request return status 200 content-type text/plain lf-string '");
    for number in 0..conditions.len() {
        configuration.push_str(&format!("%[var(txn.c{number},0)]"));
    }
    configuration.push_str("'\n");
    let haproxy = HaProxy::start(&configuration);
    let theirs = haproxy.body(&request(0));
    assert_eq!(theirs.len(), conditions.len(), "{theirs}");
    let stream = stream(0, haproxy.port, &files);
    let mut acls = AclSet::new();
    for line in &declarations {
        with_parser(&files, |parser| acls.declare(&words(line)[1..], parser)).unwrap();
    }
    let mut wrong = Vec::new();
    for (line, theirs) in conditions.iter().zip(theirs.chars()) {
        let condition = with_parser(&files, |parser| Condition::parse(&words(line), &mut acls, parser));
        let ours = match condition {
            Ok(condition) if condition.holds(&stream, Options::REQUEST) => '1',
            Ok(_) => '0',
            Err(error) => panic!("{line}: {error}"),
        };
        if ours != theirs {
            wrong.push(format!("{line}: ours {ours}, theirs {theirs}"));
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of a line, as the configuration's reader cuts them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = line.chars();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        let last = words.last_mut().unwrap();
        match letter {
            '"' => quoted = !quoted,
            '\\' => last.push(letters.next().unwrap()),
            ' ' if !quoted => words.push(String::new()),
            letter => last.push(letter),
        }
    }
    words
}

#[test]
fn errors_are_those_of_haproxy() {
    if !HaProxy::is_installed() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("sample-errors-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("haproxy.cfg");
    let mut wrong = Vec::new();
    for text in lines(ERRORS) {
        let configuration = format!(
            "defaults\n  mode http\n  timeout client 1s\nfrontend fe\n  bind 127.0.0.1:1\n  http-request set-header X '%[{text}]'\n"
        );
        std::fs::write(&path, configuration).unwrap();
        let output = std::process::Command::new(HAPROXY).args(["-c", "-f"]).arg(&path).output().unwrap();
        let theirs = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours = with_parser(&Files::default(), |parser| {
            LogFormat::parse(
                format!("%[{text}]"),
                Places::only(Place::FrontendRequestHeaders),
                LogFormatOptions::RULE,
                parser,
            )
        });
        match ours {
            Ok(_) if output.status.success() => {}
            Ok(_) => wrong.push(format!("{text}: taken by us; theirs {theirs}")),
            Err(error) if output.status.success() => wrong.push(format!("{text}: refused only by us: {error}")),
            Err(error) => {
                if !theirs.contains(error.message()) {
                    wrong.push(format!("{text}\n  ours   {error}\n  theirs {theirs}"));
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
