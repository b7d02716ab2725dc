//! Maps and ACLs that change while they are used, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::thread;

use support::{Edge, Folder, Wire, beside_haproxy, free_address, wait_until};

const HOSTS: &str = "# comment\na.example.com  one\nb.example.com two  \n  c.example.com three four \n/api 1\n/api/v1 2\n\
    10.0.0.0/8 77\n10.1.0.0/16 88\n";
const NETS: &str = "10.0.0.0/8 7\n10.1.0.0/16 8\n2001:db8::/32 9\n192.0.2.0/255.0.255.0 10\n";
const NUMBERS: &str = "1:10 ten\n5 five\n100: big\n";
const PATHS: &str = "^/a/(.*)$ /x/\\1\n^/b/(\\d+) /n\\1-\\\\\n";
const BAD: &str = "bad1\nbad2 with space\nBad3\n";

/// `H`, `N`, `I`, `P` and `B` stand for the files.
const SITE: &str = "  acl x path /x /y
  acl x path_beg -i /Z
  acl n src 10.0.0.0/8 192.168.1.1
  acl g hdr_cnt(x) gt 5
  acl g2 hdr_cnt(x) ge 5 lt 3 7:9
  acl u path,lower -u 7 -m sub foo
  acl e path -m end -i .PHP .Html
  acl bad req.hdr(x-bad) -f B
  acl bad req.hdr(x-bad) -i -f B more
  acl onmap req.hdr(host) -m str -M -f H
  acl v method GET
  http-request set-map(H) %[req.hdr(key)] %[req.hdr(value)] if { req.hdr(op) -m str set }
  http-request del-map(H) %[req.hdr(key)] if { req.hdr(op) -m str del }
  http-request add-acl(B) %[req.hdr(key)] if { req.hdr(op) -m str -- add }
  http-request del-acl(B) %[req.hdr(key)] if { req.hdr(op) -m str rem }
  http-request set-header is-bad yes if bad
  http-request set-header is-x yes if x
  http-request set-header is-on yes if onmap
  http-request return status 200 hdr x-all \"%[req.hdr(host),map(H,-)] %[req.hdr(host),map_dom(H,-)] %[path,map_beg(H,-)] \
%[req.hdr(ip),map_ip_int(N,-1)] %[req.hdr(int),map_int(I,-)] %[path,map_regm(P,-)] %[req.hdr(host),map_end(H,-)] \
%[req.hdr(host),map_sub(H,-)] bad=%[req.hdr(is-bad)] x=%[req.hdr(is-x)] on=%[req.hdr(is-on)]\"
";

const COMMANDS: &str = "show map|show acl|show map H|show acl B|show acl #0|show acl #3|show acl #4|show acl #7|show map #99|\
    show map nofile|show acl nofile|show map @3 H|show map @3|get map H a.example.com|get map H /api/v1/xx|get map N 10.1.2.3|\
    get map N ::ffff:10.2.2.3|get map N 192.0.7.9|get map N notip|get map I 5|get map I 50|get map I 500|get map P /a/q|\
    get acl B BAD3|get acl B bad2\\ with\\ space|get acl #0 /y|get acl #2 10.9.9.9|get acl #3 6|get acl #5 /x.html|\
    get acl #1 /zzz|get acl #8|get acl|get map x|get map x y|add map|add acl|add map H new.example.com val with rest|\
    add acl H new|add acl #0 /w|add acl #3 20:|add map N 10.1.0.0/24 99|get map N 10.1.0.9|show acl #0|show acl #3|show map N|\
    set map N 10.1.0.0/24 100|set map N 10.1.0.0/24 nope|set map N 10.1.0.0/25 100|set map N|set map nothere a b|\
    set map N #0xzz 3|set map N #0x1234 3|get map N 10.1.0.9|show map|del map N 10.1.0.0/24|del map N 10.1.0.0/24|\
    del map N #0x12|del map N|del acl|del acl nofile x|del map nofile x|del acl #0 /w|get acl #0 /w|get map N 10.1.0.9|\
    prepare map H|prepare map nofile|prepare acl nofile|prepare acl #0|add map @1 H z.example.com zz|\
    add map @2 H z.example.com zz|add acl @3 #0 /q|add acl @1 #0 /q|show map @1 H|show map @0 H|get map H z.example.com|\
    commit map @1 H|commit map @1 H|commit map @7 H|commit map H|commit map @1|commit acl|commit acl @1 #0|get acl #0 /q|\
    get acl #0 /x|get map H z.example.com|get map H a.example.com|show map|show acl|prepare map H|prepare map H|\
    add map @2 H k2 v2|add map @3 H k3 v3|show map|clear map @2 H|show map @2 H|commit map @3 H|show map H|\
    add map H <<\nk4 v4\nk5  v5 and more\nk6\t6\n|show map H|add map H <<\nk7\n|clear map H|clear acl|clear map|\
    clear map nofile|clear acl nofile|show map|clear acl B|show acl B|show acl|add acl #3 abc|add acl #2 300.0.0.1|\
    add map N 10.1.0.0/24 notint|show map N";

struct Files {
    folder: Folder,
}

impl Files {
    fn new() -> Self {
        let folder = Folder::new();
        for (name, content) in [("H", HOSTS), ("N", NETS), ("I", NUMBERS), ("P", PATHS), ("B", BAD)] {
            folder.file(name, content);
        }
        Files { folder }
    }

    /// `text` with the paths of the files for their names.
    fn put_into(&self, text: &str) -> String {
        let path = |name: &str| self.folder.0.join(name).display().to_string();
        let mut text = text.to_owned();
        for name in ["H", "N", "I", "P", "B"] {
            for (before, after) in [('(', ')'), ('(', ','), (' ', ' '), (' ', '\n'), (' ', '|')] {
                text = text.replace(&format!("{before}{name}{after}"), &format!("{before}{}{after}", path(name)));
            }
        }
        text
    }

    fn section(&self, front: std::net::SocketAddr) -> String {
        let site = self.put_into(SITE);
        format!("global\n stats socket %FOLDER%/stats level admin\nfrontend site\n mode http\n bind {front}\n{site}")
    }
}

/// The answer without what differs between programs: handles, the configuration's path, HAProxy's own HTTP client.
fn normalize(answer: &str) -> String {
    let line = |line: &str| {
        let word = |word: &str| match word {
            word if word.starts_with("0x") => "[HANDLE]".to_owned(),
            word if word.contains("haproxy.cfg'") => "[CONFIG]".to_owned(),
            word => word.to_owned(),
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n"
    };
    answer.lines().filter(|line| !line.contains("'httpclient'")).map(line).collect()
}

#[test]
fn every_command_answers_like_haproxy() {
    let files = Files::new();
    let commands = files.put_into(&format!("{COMMANDS}|"));
    let answers = beside_haproxy(
        |front| files.section(front),
        |scene| {
            let ask = |command: &str| format!("{command}: {}", normalize(&scene.edge.command(command)));
            let mut answers: Vec<String> = commands.split('|').filter(|command| !command.is_empty()).map(ask).collect();
            // By handle.
            scene.edge.command(&files.put_into("add map H first 1|").replace('|', ""));
            let shown = scene.edge.command(&files.put_into("show map H|").replace('|', ""));
            let handle = shown.split(' ').next().unwrap();
            for command in ["set map H #HANDLE 2|", "get map H first|", "del map H #HANDLE|", "get map H first|"] {
                let command = files.put_into(command).replace('|', "").replace("HANDLE", handle);
                answers.push(normalize(&scene.edge.command(&command)));
            }
            answers
        },
    );
    assert!(answers.iter().any(|answer| answer.contains("entry_cnt=28")), "{answers:#?}");
}

#[test]
fn requests_change_what_later_ones_find() {
    let files = Files::new();
    let told = beside_haproxy(
        |front| files.section(front),
        |scene| {
            let ask = |path: &str, fields: &str| {
                let request =
                    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n", fields.replace('|', "\r\n"));
                let answer = Wire::connect(scene.front).ask(request);
                format!("{path} {fields} -> {}", answer.field("x-all").unwrap_or_default())
            };
            [
                ("/api/v1/z", "Host: a.example.com|ip: 10.1.2.3|int: 5"),
                ("/a/hello", "Host: www.c.example.com|ip: 2001:db8::1|int: 500"),
                ("/b/77x", "Host: xb.example.com|ip: 192.0.2.200|int: 77"),
                ("/y", "Host: n|x-bad: bad2 with space"),
                ("/y", "Host: n|x-bad: BAD3"),
                ("/y", "Host: n|x-bad: MORE"),
                ("/zz", "Host: new|op: set|key: new|value: v1 v2"),
                ("/zz", "Host: new"),
                ("/zz", "Host: new|op: set|key: new|value: v2"),
                ("/zz", "Host: new|op: del|key: new"),
                ("/zz", "Host: new|op: add|key: BAD9"),
                ("/zz", "Host: new|x-bad: BAD9"),
                ("/zz", "Host: new|x-bad: bad9|op: rem|key: BAD9"),
                ("/zz", "Host: new|x-bad: bad9"),
            ]
            .map(|(path, fields)| ask(path, fields))
            .to_vec()
        },
    );
    assert!(told[0].ends_with("-> one one 2 8 ten - one one bad= x= on=yes"), "{}", told[0]);
}

#[test]
fn a_map_may_change_with_every_request_on_every_worker() {
    let folder = Folder::new();
    let lines: String = (0..2_000).map(|number| format!("key{number} {number}\n")).collect();
    let path = folder.file("big.map", lines);
    let (path, front) = (path.display(), free_address());
    let edge = Edge::start(&format!(
        "global\n nbthread 3\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n\
         frontend site\n bind {front}\n http-request set-map({path}) %[req.hdr(key)] %[req.hdr(value)]\n \
         http-request return status 200 hdr found %[req.hdr(key),map({path},none)] hdr old %[str(key7),map({path},none)]\n"
    ));
    thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                let mut wire = Wire::connect(front);
                for number in 0..100 {
                    let request =
                        format!("GET / HTTP/1.1\r\nHost: h\r\nkey: {client}-{number}\r\nvalue: v{number}\r\n\r\n");
                    let answer = wire.ask(request);
                    assert_eq!(answer.field("found"), Some(format!("v{number}").as_str()));
                    assert_eq!(answer.field("old"), Some("7"));
                }
            });
        }
    });
    let counted = |count: &str| edge.command("show map").contains(&format!("entry_cnt={count}\n"));
    assert!(counted("2400"), "{}", edge.command("show map"));
    // A reload reads the file anew: what was changed is gone.
    edge.signal(rustix::process::Signal::USR2);
    wait_until("the file is read anew", || counted("2000"));
}
