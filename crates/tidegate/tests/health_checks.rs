//! Checks of real databases, directories and mail servers, by programs, and mails about what they find: beside HAProxy with the same configuration.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use support::{Edge, Folder, free_address, host, wait_until, wait_within};

/// A server of Debian's in a process of its own.
struct Database {
    address: SocketAddr,
    child: Child,
    #[expect(dead_code, reason = "kept as long as the server runs")]
    folder: Folder,
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long a server may take to start beside others on a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The first bytes that a server says to these.
fn said(address: SocketAddr, ask: &[u8], count: usize) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(START_PATIENCE))?;
    stream.write_all(ask)?;
    let mut said = vec![0; count];
    stream.read_exact(&mut said)?;
    Ok(said)
}

/// Who servers that refuse to be root run as.
fn unprivileged() -> Option<u32> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then_some(65_534)
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn folder_for_anyone() -> Folder {
    let folder = Folder::new();
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn is_installed(program: &str) -> bool {
    let found = Path::new(program).exists();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

impl Database {
    /// Once it says `answer` at this place of what it says to `ask`: some listen long before they can.
    fn up(address: SocketAddr, child: Child, folder: Folder, ask: &[u8], (at, answer): (usize, &[u8])) -> Self {
        let mut database = Self { address, child, folder };
        wait_within(START_PATIENCE, "the server answers", || {
            assert_eq!(database.child.try_wait().unwrap(), None, "it ended");
            said(address, ask, at + answer.len()).is_ok_and(|said| said.ends_with(answer))
        });
        database
    }

    fn redis() -> Option<Self> {
        let program = "/usr/bin/redis-server";
        if !is_installed(program) {
            return None;
        }
        let (address, folder) = (free_address(), Folder::new());
        let child = quiet(Command::new(program).args(["--bind", &address.ip().to_string()]))
            .args(["--port", &address.port().to_string(), "--save", "", "--appendonly", "no", "--dir"])
            .arg(&folder.0)
            .spawn()
            .unwrap();
        Some(Self::up(address, child, folder, b"PING\r\n", (0, b"+PONG")))
    }

    fn postgres() -> Option<Self> {
        let programs = Path::new("/usr/lib/postgresql/15/bin");
        if !is_installed(programs.join("postgres").to_str().unwrap()) {
            return None;
        }
        let (address, folder) = (free_address(), folder_for_anyone());
        let data = folder.0.join("data");
        let mut initdb = Command::new(programs.join("initdb"));
        let mut postgres = Command::new(programs.join("postgres"));
        if let Some(user) = unprivileged() {
            initdb.uid(user);
            postgres.uid(user);
        }
        let prepared =
            quiet(initdb.arg("-D").arg(&data).args(["-U", "me", "-A", "trust", "--no-sync", "--no-instructions"]))
                .status();
        assert!(prepared.unwrap().success());
        let child = quiet(postgres.arg("-D").arg(&data).args(["-F", "-h", &address.ip().to_string()]))
            .args(["-p", &address.port().to_string(), "-k"])
            .arg(&folder.0)
            .spawn()
            .unwrap();
        Some(Self::up(address, child, folder, b"\0\0\0\x11\0\x03\0\0user\0me\0\0", (0, b"R")))
    }

    fn mariadb() -> Option<Self> {
        let program = "/usr/sbin/mariadbd";
        if !is_installed(program) {
            return None;
        }
        let (address, folder) = (free_address(), folder_for_anyone());
        let data = format!("--datadir={}", folder.0.join("data").display());
        let user = format!("--user={}", if unprivileged().is_some() { "nobody" } else { "" });
        let user = unprivileged().map(|_| user);
        let prepared = quiet(Command::new("/usr/bin/mariadb-install-db").arg("--no-defaults").arg(&data).args(&user))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=4M"])
            .status();
        assert!(prepared.unwrap().success());
        let rights = folder.file("rights.sql", "FLUSH PRIVILEGES;\nCREATE USER 'checker'@'%';\n");
        let child = quiet(Command::new(program).args(["--no-defaults", "--skip-name-resolve"]).arg(&data).args(&user))
            .arg(format!("--socket={}", folder.0.join("socket").display()))
            .arg(format!("--init-file={}", rights.display()))
            .args([format!("--bind-address={}", address.ip()), format!("--port={}", address.port())])
            .args(["--innodb-log-file-size=4M", "--innodb-flush-method=nosync"])
            .spawn()
            .unwrap();
        Some(Self::up(address, child, folder, b"", (4, b"\x0a")))
    }

    /// OpenLDAP's server without any data, which is enough to be asked who one is.
    fn slapd(lines: &str) -> Option<Self> {
        let program = "/usr/sbin/slapd";
        if !is_installed(program) {
            return None;
        }
        let (address, folder) = (free_address(), Folder::new());
        let config = folder.file("slapd.conf", format!("pidfile {}\n{lines}", folder.0.join("pid").display()));
        let child = quiet(Command::new(program).args(["-h", &format!("ldap://{address}"), "-d", "0", "-f"]))
            .arg(config)
            .spawn()
            .unwrap();
        Some(Self::up(address, child, folder, b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0", (0, b"\x30")))
    }

    fn exim() -> Option<Self> {
        let program = "/usr/sbin/exim4";
        if !is_installed(program) || unprivileged().is_none() {
            return None;
        }
        let (address, folder) = (free_address(), folder_for_anyone());
        let place = folder.0.display();
        let config = folder.file(
            "exim.conf",
            format!(
                "primary_hostname = mail.example.org\nspool_directory = {place}\nlog_file_path = {place}/%slog\n\
                 local_interfaces = <; {}.{}\nexim_user = nobody\nexim_group = nogroup\nkeep_environment =\n\
                 tls_advertise_hosts =\nbegin acl\n",
                address.ip(),
                address.port()
            ),
        );
        let child = quiet(Command::new(program).arg("-C").arg(config).args(["-bdf", "-oP"]))
            .arg(folder.0.join("pid"))
            .spawn()
            .unwrap();
        Some(Self::up(address, child, folder, b"", (0, b"220 ")))
    }
}

/// The interval is what a check may take, so it is long: programs and databases are slow on a busy machine. All begin at
/// once nevertheless.
const DEFAULTS: &str = "global\n  stats socket %FOLDER%/stats level admin\n  external-check\n  insecure-fork-wanted\n  \
                        max-spread-checks 200ms\ndefaults\n  mode tcp\n  timeout connect 30s\n  timeout server 5s\n  \
                        timeout client 5s\n  default-server inter 30s rise 1 fall 1\n";

/// The interval of a check that is to time out.
const SHORT: &str = "inter 1s";
/// How long all first checks may take together.
const CHECK_PATIENCE: Duration = Duration::from_secs(60);

/// What the statistics say of the check of server `s` of each backend, once all have been checked.
fn outcomes(edge: &Edge, columns: &[&str], backends: usize) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    wait_within(CHECK_PATIENCE, "all servers have been checked", || {
        let text = edge.command("show stat");
        let mut lines = text.trim_start_matches("# ").lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let place = |name: &str| names.iter().position(|found| *found == name).unwrap();
        for row in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
            let Some(&"s") = row.get(1) else { continue };
            let known = |status: &str| !status.is_empty() && status != "INI" && !status.starts_with('*');
            if columns.iter().filter(|name| name.ends_with("status")).all(|name| known(row[place(name)])) {
                let values = columns.iter().map(|name| row[place(name)].to_owned()).collect();
                found.entry(row[0].to_owned()).or_insert(values);
            }
        }
        found.len() == backends
    });
    found
}

fn compare(text: &str, columns: &[&str], backends: usize) -> BTreeMap<String, Vec<String>> {
    let bind =
        |address: SocketAddr| format!("{DEFAULTS}listen front\n  bind {address}\n  server x 127.0.0.1:9\n{text}");
    let ours = outcomes(&Edge::start_single(&bind(free_address())), columns, backends);
    if let Some(haproxy) = Edge::start_haproxy(&bind(free_address())) {
        assert_eq!(ours, outcomes(&haproxy, columns, backends));
    }
    ours
}

const CHECK: &[&str] = &["status", "check_status", "check_code", "last_chk"];

#[test]
fn databases_directories_and_mail_servers() {
    let started = [
        Database::redis,
        Database::postgres,
        Database::mariadb,
        || Database::slapd(""),
        || Database::slapd("disallow bind_anon\n"),
        Database::exim,
    ]
    .map(thread::spawn);
    let [redis, postgres, mariadb, ldap, private_ldap, mail] = started.map(|database| database.join().unwrap());
    let mut text = String::new();
    let mut expected = BTreeMap::new();
    let mut add = |name: &str, lines: &str, address: SocketAddr, status: &str| {
        let interval = if status == "L7TOUT" { SHORT } else { "" };
        text += &format!("backend {name}\n  {}\n  server s {address} check {interval}\n", lines.replace('\n', "\n  "));
        expected.insert(name.to_owned(), status.to_owned());
    };
    if let Some(Database { address, .. }) = redis {
        add("redis", "option redis-check", address, "L7OK");
        add(
            "role",
            "option tcp-check\ntcp-check send \"info replication\\r\\n\"\ntcp-check expect string role:master",
            address,
            "L7OK",
        );
        add(
            "replica",
            "option tcp-check\ntcp-check send PING\\r\\n\ntcp-check expect string +PONG\ntcp-check send \"info replication\\r\\n\"\n\
                        tcp-check expect min-recv 100 string role:slave comment \"a replica\"",
            address,
            "L7RSP",
        );
        add("not-pgsql", "option pgsql-check user me", address, "L7TOUT");
    }
    if let Some(Database { address, .. }) = postgres {
        add("pgsql", "option pgsql-check user me", address, "L7OK");
        add("not-redis", "option redis-check", address, "L7STS");
    }
    if let Some(Database { address, .. }) = mariadb {
        add("mysql", "option mysql-check", address, "L7OK");
        add("mysql-user", "option mysql-check user checker", address, "L7OK");
        add("mysql-nobody", "option mysql-check user nobody-there", address, "L7STS");
    }
    if let Some(Database { address, .. }) = ldap {
        add("ldap", "option ldap-check", address, "L7OK");
        add("not-smtp", "option smtpchk", address, "L7TOUT");
    }
    if let Some(Database { address, .. }) = private_ldap {
        add("ldap-for-members", "option ldap-check", address, "L7STS");
    }
    if let Some(Database { address, .. }) = mail {
        add("smtp", "option smtpchk", address, "L7OK");
        add("smtp-ehlo", "option smtpchk EHLO edge.example.org", address, "L7OK");
        add("not-ldap", "option ldap-check", address, "L7RSP");
    }
    let found = compare(&text, CHECK, expected.len());
    for (name, status) in expected {
        assert_eq!(found[&name][1], status, "{name}: {:?}", found[&name]);
    }
}

#[test]
fn programs() {
    let folder = Folder::new();
    let script = |name: &str, body: &str| {
        let path = folder.file(name, format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let seen = folder.0.join("seen");
    let tells = script(
        "tells",
        &format!(
            "{{ echo \"$@\"; env | grep -v -e ^PWD -e ^SHLVL -e ^_= -e ^OLDPWD | sort; }} > {0}.new; mv {0}.new {0}",
            seen.display()
        ),
    );
    let fails = script("fails", "exit 3");
    let hangs = script("hangs", "exec /bin/sleep 30");
    script("found", "exit 0");
    let backend = |name: &str, command: &str, more: &str| {
        format!(
            "backend {name}\n  option external-check\n  external-check command {command}\n{more}  server s 127.0.0.1:77 check \
             maxconn 5 {}\n",
            if name == "hangs" { SHORT } else { "" }
        )
    };
    let path = format!("  external-check path {}:/bin\n", folder.0.display());
    let text = [
        backend("fails", &fails, ""),
        backend("hangs", &hangs, ""),
        backend("found", "found", &path),
        backend("not-there", "/no/such/program", ""),
        backend("tells", &tells, &path),
    ]
    .concat();
    let mut told = Vec::new();
    let config = |address| format!("{DEFAULTS}listen front\n  bind {address}\n  server x 127.0.0.1:9\n{text}");
    let mut run = |edge: &Edge| {
        let found = outcomes(edge, CHECK, 5);
        wait_until("the program has told", || seen.exists());
        told.push(std::fs::read_to_string(&seen).unwrap());
        std::fs::remove_file(&seen).unwrap();
        found
    };
    let ours = run(&Edge::start_single(&config(free_address())));
    assert_eq!(ours["fails"], ["DOWN", "PROCERR", "3", ""]);
    assert_eq!(ours["hangs"], ["DOWN", "PROCTOUT", "0", ""]);
    assert_eq!(ours["found"][1], "PROCOK");
    assert_eq!(ours["not-there"], ["DOWN", "PROCERR", "255", ""]);
    if let Some(haproxy) = Edge::start_haproxy(&config(free_address())) {
        assert_eq!(ours, run(&haproxy));
        assert_eq!(told[0], told[1]);
    }
    assert!(told[0].starts_with("NOT_USED NOT_USED 127.0.0.1 77\n"), "{}", told[0]);
}

/// A mail server that keeps what it is told, without the date, which changes by the second.
fn mail_server(letters: &Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind((host(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let letters = Arc::clone(letters);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut told = String::new();
            let mut answer = &stream;
            let _ = answer.write_all(b"220 mail.example.org ESMTP\r\n");
            let mut in_letter = false;
            for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                if !line.starts_with("Date: ") {
                    told += &format!("{line}\n");
                }
                in_letter = (in_letter || line == "DATA") && line != ".";
                let reply = match line.as_str() {
                    "DATA" => "354 go ahead\r\n",
                    "QUIT" => "221 bye\r\n",
                    _ if in_letter => continue,
                    _ => "250 fine\r\n",
                };
                let _ = answer.write_all(reply.as_bytes());
            }
            letters.lock().unwrap().push(told);
        }
    });
    address
}

#[test]
fn mails() {
    let play = |start: &dyn Fn(&str) -> Option<Edge>| -> Option<Vec<String>> {
        let letters = Arc::default();
        let mailer = mail_server(&letters);
        let config = format!(
            "{DEFAULTS}  email-alert mailers ops\n  email-alert from edge@example.org\n  email-alert to ops@example.org\n  \
             email-alert myhostname edge.example.org\n  email-alert level notice\nmailers ops\n  mailer one {mailer}\n  timeout \
             mail 5s\nlisten front\n  bind {}\n  server s {} check\n",
            free_address(),
            free_address()
        );
        let edge = start(&config)?;
        wait_until("a mail about the server that is down", || letters.lock().unwrap().len() == 1);
        edge.command("set server front/s health up");
        wait_until("a mail about the server that is up", || letters.lock().unwrap().len() >= 2);
        let told = letters.lock().unwrap().clone();
        // How long a check took is another number each time.
        let steady = |letter: &str| -> String {
            letter.split(' ').map(|word| if word.contains("ms.") { "Nms." } else { word }).collect::<Vec<_>>().join(" ")
        };
        Some(told.iter().take(2).map(|letter| steady(letter)).collect())
    };
    let ours = play(&|config| Some(Edge::start_single(config))).unwrap();
    assert!(
        ours[0].starts_with("HELO edge.example.org\nMAIL FROM:<edge@example.org>\nRCPT TO:<ops@example.org>\nDATA\n")
    );
    assert!(ours[0].contains("Subject: [HAProxy Alert] Server front/s is DOWN, reason: Layer4 connection problem"));
    assert!(ours[1].contains("Subject: [HAProxy Alert] Server front/s is UP"), "{}", ours[1]);
    if let Some(theirs) = play(&|config| Edge::start_haproxy(config)) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn agents() {
    let says = Arc::new(Mutex::new("up\n".to_owned()));
    let listener = TcpListener::bind((host(), 0)).unwrap();
    let agent = listener.local_addr().unwrap();
    let line = Arc::clone(&says);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(line.lock().unwrap().as_bytes());
        }
    });
    let columns = &["status", "weight", "slim", "agent_status", "agent_code", "agent_desc", "last_agt", "agent_health"];
    let play = |start: &dyn Fn(&str) -> Option<Edge>| -> Option<Vec<String>> {
        "up\n".clone_into(&mut says.lock().unwrap());
        let config = format!(
            "{DEFAULTS}listen front\n  bind {}\n  server s {} weight 100 agent-check agent-port {} agent-addr {} agent-inter 20ms\n",
            free_address(),
            free_address(),
            agent.port(),
            agent.ip()
        );
        let edge = start(&config)?;
        let mut seen = Vec::new();
        for (words, until) in [
            ("up\n", "via agent : up"),
            ("50%,maxconn:7\n", "50"),
            ("drain\n", "DRAIN (agent)"),
            ("ready up 100%\n", "via agent : up"),
            ("down # no disk\n", "via agent : down (no disk)"),
            ("up strange\n", "via agent : up (strange)"),
            ("maint\n", "MAINT"),
            ("ready up\n", "via agent : up"),
        ] {
            words.clone_into(&mut says.lock().unwrap());
            let mut last = Vec::new();
            wait_until(words, || {
                last = outcomes(&edge, columns, 1).remove("front").unwrap();
                last.iter().any(|value| value == until)
            });
            seen.push(format!("{words:?}: {last:?}"));
        }
        for command in [
            "disable agent front/s",
            "set server front/s agent down",
            "set server front/s agent-addr 127.0.0.1",
            "enable agent front/s",
            "set server front/s agent maybe",
            "set server front/s agent-port x",
            "set server front/s agent-port 99999",
            "set server front/s agent-addr x",
            "set server front/s agent-send hello",
            "show servers state front",
        ] {
            let state = edge.command(command);
            // Seconds since the last change, and the port of its own.
            let steady: Vec<_> =
                state.split(' ').enumerate().map(|(at, word)| if at == 40 { "-" } else { word }).collect();
            if !command.starts_with("show") {
                seen.push(format!("{command}: {}", steady.join(" ")));
            }
        }
        Some(seen)
    };
    let ours = play(&|config| Some(Edge::start_single(config))).unwrap();
    assert!(ours[1].contains("[\"no check\", \"50\", \"7\""), "{}", ours[1]);
    if let Some(theirs) = play(&|config| Edge::start_haproxy(config)) {
        assert_eq!(ours, theirs);
    }
}
