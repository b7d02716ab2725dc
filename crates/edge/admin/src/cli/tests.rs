//! Conversations, and comparison of every word with the real HAProxy.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    os::unix::net::UnixStream as StdUnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use haproxycfg::model::{CliLevel, SeverityOutput};
use net::Target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::stats::samples::FakeControl;

/// A host with the sample edge behind it.
#[derive(Default)]
struct FakeHost {
    control: FakeControl,
}

impl Host for FakeHost {
    async fn settled(&self) {}

    async fn ending(&self) {
        std::future::pending().await
    }

    fn with_context<R>(&self, work: impl FnOnce(&Context<'_>) -> R) -> R {
        work(&Context {
            control: &self.control,
            sockets: vec![("unix@/run/socket".to_owned(), CliLevel::Admin)],
            rings: Vec::new(),
            buffer: None,
            startup_logs: "all is well\n".to_owned(),
            libraries: "0x1-0x2 (0x2) /usr/bin/tidegate\n".to_owned(),
            now: Duration::from_secs(1_795_232_134),
            offset: 0,
        })
    }

    async fn sessions(&self) -> Vec<SessionView> {
        let proxy = |name: &str, id, is_http| ProxyView { name: name.to_owned(), id, is_http };
        let idle = SessionView {
            id: 1 << 48 | 7,
            source: None,
            transport: Transport::Plain,
            http_version: 1,
            frontend: proxy("web", 2, true),
            listener: Some((None, 1)),
            backend: None,
            server: None,
            age: Duration::ZERO,
            requests: 1,
            is_idle: true,
        };
        let target = Target::Inet(SocketAddr::from(([10, 0, 0, 9], 80)));
        let busy = SessionView {
            id: 2 << 48 | 8,
            source: Some(SocketAddr::from(([10, 0, 0, 1], 4_000))),
            backend: Some(proxy("app", 3, true)),
            server: Some(ServerView { name: "s1".to_owned(), id: 1, target, is_secure: false }),
            age: Duration::from_secs(65),
            requests: 3,
            is_idle: false,
            ..idle.clone()
        };
        vec![idle, busy]
    }

    async fn descriptors(&self, which: Option<i32>) -> String {
        format!("{which:?}\n")
    }

    async fn shut_session(&self, id: u64) -> bool {
        id == 7
    }
}

/// Sends bytes and returns what came until the other side closed, what was changed, and how it ended.
async fn talk(level: CliLevel, input: &[u8]) -> (String, String, End) {
    let host = FakeHost::default();
    let (mut client, mut server) = tokio::io::duplex(1 << 20);
    client.write_all(input).await.unwrap();
    let options = Options { level, severity: SeverityOutput::None, timeout: Some(Duration::from_secs(5)) };
    let end = serve(&mut server, &host, options).await.unwrap_or(End::Closed);
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    (answer, host.control.changes(), end)
}

async fn admin(input: &str) -> (String, String) {
    let (answer, changes, _) = talk(CliLevel::Admin, format!("{input}\n").as_bytes()).await;
    (answer, changes)
}

#[tokio::test(start_paused = true)]
async fn commands_that_change() {
    for (command, answer, changes) in [
        ("set server app/s1 state maint", "", "app/s1 Maintain"),
        ("set server app/s1 state drain;set server #3/#2 state ready", "", "app/s1 Drain, app/s2 Ready"),
        ("set server app/s1 weight 50%", "", "app/s1 Weight(\"50%\")"),
        ("set server app/s1 weight 300", "Absolute weight can only be between 0 and 256 inclusive.\n", ""),
        ("set server app/s1 health stopping", "", "app/s1 Health(Stopping)"),
        (
            "set server app/s1 addr 10.0.0.1 port 81",
            "IP changed from '127.0.0.1' to '10.0.0.1', port changed from '8080' to '81' by 'stats socket command'\n",
            "app/s1 Address { ip: Some(10.0.0.1), port: Some(Fixed(81)) }",
        ),
        (
            "set server app/s1 addr 10.0.0.1 port +1",
            "IP changed from '127.0.0.1' to '10.0.0.1', port changed from '8080' to '+1' by 'stats socket command'\n",
            "app/s1 Address { ip: Some(10.0.0.1), port: Some(Offset(1)) }",
        ),
        ("set server app/s1 check-port 81", "", "app/s1 CheckAddress { ip: None, port: Some(81) }"),
        ("set server app/s1 check-addr ::1 port 81", "", "app/s1 CheckAddress { ip: Some(::1), port: Some(81) }"),
        ("set weight app/s1 0", "", "app/s1 Weight(\"0\")"),
        ("disable server app/s1", "", "app/s1 Maintain"),
        ("enable server app/s1", "", "app/s1 Ready"),
        ("disable health app/s1", "", "app/s1 Checks(false)"),
        ("enable health app/s1", "", "app/s1 Checks(true)"),
        ("set maxconn server app/s1 12", "", "app/s1 MaxConn(12)"),
        ("set maxconn frontend web 99", "", "web MaxConn(99)"),
        ("set maxconn global 500", "", "process MaxConn(500)"),
        ("set maxconn global -1", "", "process MaxConn(0)"),
        ("set maxconn global 1000000", "Value out of range.\n", ""),
        ("set rate-limit sessions global 5", "", "process SessionRate(5)"),
        ("set rate-limit ssl-sessions global 6", "", "process TlsRate(6)"),
        ("set rate-limit connections global 9", "", "process ConnectionRate(9)"),
        ("experimental-mode on;set var proc.a int(3)", "", "proc.a false int(3)"),
        ("experimental-mode on;set var proc.a fmt x%[int(3)]", "", "proc.a true x%[int(3)]"),
        ("disable frontend web", "", "web Pause"),
        ("enable frontend web", "All sockets are already enabled.\n", "web Resume"),
        ("shutdown frontend web", "", "web Stop"),
        ("shutdown sessions server app/s2", "", "app/s2 ShutSessions"),
        ("clear counters", "", "clear false"),
        ("clear counters all", "", "clear true"),
        ("shutdown session 0x7", "", ""),
        ("shutdown session 8", "No such session (use 'show sess').\n", ""),
    ] {
        let (said, told) = admin(command).await;
        let ends = command.matches(';').count() + 1;
        assert_eq!(
            (said.as_str(), told.as_str()),
            (format!("{answer}{}", "\n".repeat(ends)).as_str(), changes),
            "{command}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn levels() {
    const DENIED: &str = "Permission denied\n\n";
    for command in COMMANDS.iter().filter(|command| command.supported() && command.level > CliLevel::User) {
        let line = format!("{}\n", command.words.join(" "));
        let (answer, changes, _) = talk(CliLevel::User, line.as_bytes()).await;
        assert_eq!((answer.as_str(), changes.as_str()), (DENIED, ""), "{line}");
        if command.level == CliLevel::Operator {
            assert_ne!(talk(CliLevel::Operator, line.as_bytes()).await.0, DENIED, "{line}");
        } else {
            assert_eq!(talk(CliLevel::Operator, line.as_bytes()).await.0, DENIED, "{line}");
        }
    }
    let (answer, changes, _) = talk(CliLevel::Operator, b"clear counters all\n").await;
    assert_eq!((answer.as_str(), changes.as_str()), (DENIED, ""));
    let (answer, _) = admin("show cli level;operator;show cli level;user;show cli level;operator").await;
    assert_eq!(answer, format!("admin\n\n\noperator\n\n\nuser\n\n{DENIED}"));
    let (stat, ..) = talk(CliLevel::User, b"show stat\n").await;
    assert!(!stat.contains("127.0.0.1"), "addresses are for operators");
    assert!(admin("show stat").await.0.contains("127.0.0.1"));
}

/// HAProxy lets everybody do these; its manual says of the level that it allows no change.
#[tokio::test(start_paused = true)]
async fn who_is_a_mere_user_changes_no_map_no_acl_and_no_table() {
    for change in ["add", "clear", "commit", "del", "prepare", "set"] {
        for what in ["map", "acl", "table"] {
            let found = COMMANDS.iter().find(|command| command.words == [change, what]);
            let Some(command) = found else { continue };
            assert_eq!(command.level, CliLevel::Operator, "{change} {what}");
            for line in [format!("{change} {what} x\n"), format!("show info;{change} {what} x <<\na b\n\n")] {
                let (answer, changes, _) = talk(CliLevel::User, line.as_bytes()).await;
                assert!(answer.ends_with("Permission denied\n\n") && changes.is_empty(), "{line}: {answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conversations_with_a_prompt() {
    let input =
        b"prompt\nshow cli level\nset map x <<\na b\n\nexpert-mode\nexpert-mode on\nexpert-mode;quit\nshow version\n";
    let (answer, _, end) = talk(CliLevel::Admin, input).await;
    assert_eq!(end, End::Closed);
    assert_eq!(
        answer,
        "\n> admin\n\n> + + 'set map' expects three parameters: map identifier, key and value.\n\n> expert-mode is OFF\n\n> \n> expert-mode is ON\n\n> "
    );
}

#[tokio::test(start_paused = true)]
async fn how_conversations_end() {
    assert_eq!(talk(CliLevel::Admin, b"_getsocks\n").await.2, End::SendSockets);
    assert_eq!(talk(CliLevel::Admin, b"show cli level\nquit\nshow version\n").await.0, "admin\n\n");
    assert_eq!(
        talk(CliLevel::Admin, b"show cli level; show cli lev").await.0,
        "admin\n\n",
        "waits, and then has waited enough"
    );
    let long = vec![b'x'; 40_000];
    assert_eq!(talk(CliLevel::Admin, &long).await.0, "");
    let (answer, ..) = talk(CliLevel::Admin, b"operator -\nshow cli level\n").await;
    assert_eq!(answer, "operator\n\n", "no empty line after what a master sends before a command");
    assert_eq!(
        admin("set timeout cli 3x;set timeout cli;set timeout x;set timeout cli 3m").await.0,
        "Invalid timeout value.\n\nExpects an integer value.\n\n'set timeout' only supports 'cli'.\n\n\n"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_shown() {
    for (command, start) in [
        ("show info", "Name: Tidegate\nVersion: "),
        ("show info typed", "0.Name.1:POS:str:Tidegate\n"),
        ("show info json", "[{\"field\":"),
        ("show stat", "# pxname,svname,"),
        ("show stat typed", "F.2.0.0.pxname.1:KNS:str:web\n"),
        ("show stat json", "[[{\"objType\":\"Frontend\","),
        ("show stat 3 4 1 typed", "S.3.1.0.pxname.1:KNS:str:app\n"),
        ("show stat app 2 -1 typed", "B.3.0.0.pxname.1:KNS:str:app\n"),
        ("show stat nope 1 1", "No such proxy.\n"),
        ("show stat domain proxy app 2 -1 typed", "B.3.0."),
        ("show stat domain x", "Invalid statistics domain.\n"),
        ("show schema json", "{\"$schema\""),
        ("show backend", "# name\napp\ntcp\n\n"),
        ("show env HOME", "HOME=/root\n\n"),
        ("show env", "HOME=/root\nA=1\n\n"),
        ("get var proc.a", "proc.a: type=str value=<x.y>\n"),
        ("get var proc.b", "Variable not found.\n\n"),
        ("show env NOPE", "Variable not found\n\n"),
        ("show errors", "Total events captured on [21/Nov/2026:03:35:34.000] : 0\n\n"),
        ("show errors nope", "No such proxy.\n\n"),
        ("show cli sockets", "# socket lvl processes\nunix@/run/socket admin all\n\n"),
        ("show startup-logs", "all is well\n\n"),
        (
            "show sess",
            "0x2000000000008: proto=tcpv4 src=10.0.0.1:4000 fe=web be=app srv=s1 ts=00 epoch=0 age=1m5s calls=3 rate=0 \
             cpu=0 lat=0 rq[f=000000h,i=0,an=00h,rx=,wx=,ax=] rp[f=000000h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] \
             scb=[8,1h,fd=-1] exp= rc=0 c_exp=\n(nil): proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> ",
        ),
        (
            "show sess idle",
            "0x1000000000007: proto=unix_stream src=unix:1 fe=web be=<NONE> srv=<none> ts=00 epoch=0 age=0s ",
        ),
        (
            "show sess 0x1000000000007",
            "0x1000000000007: [21/Nov/2026:03:35:34.000000] id=7 proto=unix_stream source=unix:1\n",
        ),
        ("show sess 1", "Session not found.\n\n"),
        (
            "show sess all",
            "0x2000000000008: [21/Nov/2026:03:34:29.000000] id=8 proto=tcpv4 source=10.0.0.1:4000\n  flags=0x0, \
             conn_retries=0, conn_exp=<NEVER> conn_et=0x000 srv_conn=(nil), pend_pos=(nil) waiting=0 epoch=0\n  \
             frontend=web (id=2 mode=http), listener=? (id=1)\n  backend=app (id=3 mode=http)\n  server=s1 (id=1) \
             addr=10.0.0.9:80\n  task=(nil) (state=0x00 nice=0 calls=3 rate=0 exp=<NEVER> tmask=0x2 age=1m5s)\n  \
             scf=(nil) flags=0x00000000 state=EST endp=CONN,(nil),0x00000000 sub=0\n      co0=(nil) ctrl=tcpv4 xprt=RAW \
             mux=H1 data=STRM target=LISTENER:(nil)\n      flags=0x00000000 fd=-1 fd.state=00 updt=0 fd.tmask=0x2\n  \
             scb=(nil) flags=0x00000000 state=EST endp=CONN,(nil),0x00000000 sub=0\n      co1=(nil) ctrl=tcpv4 xprt=RAW \
             mux=H1 data=STRM target=SERVER:(nil)\n      flags=0x00000000 fd=-1 fd.state=00 updt=0 fd.tmask=0x2\n\n",
        ),
        ("show activity", "thread_id: 1 (1..2)\ndate_now: 1795232134.000000\n"),
        ("show table", "\n"),
        ("show table nope", "No such table\n\n"),
        ("trace h1", "No such trace source: there are none."),
        ("trace 0", "All traces now stopped\n"),
        ("httpclient GET x", "'httpclient' is not here: it tests HAProxy's own HTTP client; use curl.\n\n"),
        ("show fd", "None\n\n"),
        ("show fd 7", "Some(7)\n\n"),
        ("show libs", "0x1-0x2 (0x2) /usr/bin/tidegate\n\n"),
        ("show threads", "  Thread 1 : act=0 wq=3 rq=0 conn=0\n"),
        ("show tasks", "Running tasks: 0 (2 threads)\n"),
        ("show profiling status", "Per-task CPU profiling              : off "),
        ("set profiling tasks on", "'set profiling tasks' has no meaning here"),
        ("set profiling x on", "Expects either 'tasks' or 'memory'.\n\n"),
        ("get weight app/s1", "10 (initial 10)\n\n"),
        ("help", "The following commands are valid at this level:\n  abort ssl ca-file"),
        ("help show", "The following commands are valid at this level:\n  show acl [@<ver>]"),
    ] {
        let answer = admin(command).await.0;
        assert!(answer.starts_with(start), "{command}: {answer:.200}");
        assert!(answer.ends_with('\n'), "{command}");
    }
    let state = admin("show servers state app").await.0;
    assert!(state.starts_with("1\n# be_id be_name srv_id "));
    for line in [
        "3 app 1 s1 127.0.0.1 2 0 10 10 59 15 3 4 6 0 0 0 - 8080 - 0 0 - - 0",
        "3 app 3 s3 127.0.0.1 0 0 1 1 55 17 2 0 6 0 0 0 - 8082 - 0 0 - - 0",
        "3 app 4 s4 127.0.0.1 0 1 1 1 54 1 0 0 0 0 0 0 - 8083 - 0 0 - - 0",
        "3 app 5 s5 127.0.0.1 2 0 1 1 59 1 0 3 0 0 0 0 - 8084 - 0 0 - - 0",
    ] {
        assert!(state.lines().any(|found| found == line), "{line}\n{state}");
    }
    let connections = admin("show servers conn").await.0;
    assert!(connections.contains("\napp/s1 3/1 127.0.0.1 8080 - 5000 3 5 5 0 2 -1 2 2 0\n"), "{connections}");
    assert_eq!(admin("show servers state nope").await.0, "Can't find backend.\n\n");
}

/// HAProxy with a stats socket.
struct Peer {
    child: Child,
    folder: PathBuf,
}

impl Peer {
    fn start(name: &str) -> Option<Self> {
        const PROGRAM: &str = "/usr/sbin/haproxy";
        if !std::path::Path::new(PROGRAM).exists() {
            eprintln!("{PROGRAM} is not installed: nothing to compare with");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("tidegate-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = format!(
            "global\n stats socket {0}/socket level admin\n\
             defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend web\n bind unix@{0}/web\n default_backend app\n\
             backend app\n server s1 127.0.0.1:8080 weight 10\n server s2 127.0.0.1:8081\n",
            folder.display()
        );
        std::fs::write(folder.join("haproxy.cfg"), config).unwrap();
        let child = Command::new(PROGRAM)
            .args(["-db", "-f"])
            .arg(folder.join("haproxy.cfg"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peer = Self { child, folder };
        for _ in 0..200 {
            if StdUnixStream::connect(peer.folder.join("socket")).is_ok() {
                return Some(peer);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("HAProxy does not open its socket");
    }

    fn command(&self, command: &str) -> String {
        let mut stream = StdUnixStream::connect(self.folder.join("socket")).unwrap();
        writeln!(stream, "{command}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(start_paused = true)]
async fn texts_are_haproxys() {
    let Some(peer) = Peer::start("texts") else { return };
    for command in [
        "show cli level",
        "show env THERE_IS_NO_SUCH_VARIABLE",
        "get weight app/s1",
        "get weight app/nope",
        "get weight nope/s1",
        "get weight app",
        "get weight",
        "set server",
        "set server x",
        "set server app/s1",
        "set server app/s1 state",
        "set server app/s1 state up",
        "set server app/s1 health",
        "set server app/s1 weight",
        "set server app/s1 weight 300",
        "set server app/s1 weight -1%",
        "set server app/s1 addr",
        "set server app/s1 addr x",
        "set server app/s1 addr 127.0.0.1 port x",
        "set server app/s1 addr 127.0.0.1 port 8080",
        "set server app/s1 check-addr",
        "set server app/s1 check-port",
        "set server app/s1 agent up",
        "set server app/s1 agent-addr",
        "set server app/s1 agent-port",
        "set server app/s1 fqdn",
        "set server app/s1 state maint;set server app/s1 state drain;set server app/s1 state ready",
        "set maxconn frontend",
        "set maxconn frontend nope",
        "set maxconn frontend web",
        "set maxconn frontend web -1",
        "set maxconn server",
        "set maxconn server app/s1",
        "set maxconn global",
        "set weight app/s1",
        "enable agent app/s1",
        "disable agent app/s1",
        "disable frontend",
        "disable frontend nope",
        "enable frontend web",
        "shutdown session",
        "shutdown session 0x1",
        "shutdown sessions server app",
        "get var",
        "get var proc.none",
        "set var proc.a int(3)",
        "experimental-mode on;set var",
        "experimental-mode on;set var proc.a",
        "experimental-mode on;set var proc.a x int(3)",
        "set rate-limit",
        "set rate-limit connections",
        "set rate-limit connections x 5",
        "set server app/s1 ssl on",
        "set timeout",
        "set timeout cli",
        "set timeout cli x",
        "set severity-output",
        "set severity-output number;set server app/s1 state x;show cli level",
        "set severity-output string;set server app/s1 state x;show cli level;set severity-output none;show cli level",
        "set rate-limit connections global",
        "set rate-limit connections global -1",
        "show errors nope",
        "show stat nope 1 1",
        "show stat domain nope",
        "show servers state nope",
        "operator;show cli level;user;show cli level;set server app/s1 state ready;show env;clear counters",
        "expert-mode;expert-mode on;expert-mode;experimental-mode",
        "user -;show cli level",
        "prompt;quit",
        ";;quit",
        "set server app/s1 addr 127.0.0.9 port 81",
    ] {
        // HAProxy lists commands that are not ours where an empty command is given.
        let cut =
            |text: String| text.split_once("Unknown command").map_or(text.clone(), |(before, _)| before.to_owned());
        let (ours, _) = admin(command).await;
        assert_eq!(cut(ours), cut(peer.command(command)), "{command}");
    }
    let header = |text: String| text.lines().find(|line| line.starts_with("# ")).map(str::to_owned);
    assert_eq!(header(admin("show servers state").await.0), header(peer.command("show servers state")));
    let of_conn = |text: String| header(text).map(|line| line.split('[').next().unwrap().to_owned());
    assert_eq!(of_conn(admin("show servers conn").await.0), of_conn(peer.command("show servers conn")));
}

/// Every command that HAProxy lists is in our table, at least as one that is not supported yet.
#[test]
fn no_command_is_missing() {
    let Some(peer) = Peer::start("help") else { return };
    let help = peer.command("expert-mode on;experimental-mode on;help");
    let mut seen = 0;
    for line in help.lines().filter(|line| line.starts_with("  ")) {
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| {
                word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
            })
            .collect();
        let known = |command: &&super::table::Command| {
            command.words.iter().zip(&words).all(|(own, word)| own == word) && !words.is_empty()
        };
        // One that HAProxy lists in other words than it takes.
        let is_listed_wrongly = line.starts_with("  new ssl crlfile ");
        assert!(is_listed_wrongly || COMMANDS.iter().any(|command| known(&command)), "{line}");
        seen += 1;
    }
    assert!(seen > 80, "only {seen} commands were compared");
}
