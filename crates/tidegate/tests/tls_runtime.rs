//! Certificates, lists, CA files and the like that are changed at the stats socket, beside Debian's HAProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    ffi::OsString,
    io::{Read as _, Write as _},
    net::SocketAddr,
    process::{Command, Stdio},
    sync::OnceLock,
};

use support::{Edge, Folder, beside_haproxy};

/// Makes an authority `ca`, certificates `site`, `other`, `new` and `client` of it, and what it says of them.
const FILES: &str = r#"
set -e
ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3000 -subj "/CN=$2" -keyout $1.key -out $1.pem; }
ca ca "Test CA"; ca ca2 "Other CA"; cat ca.pem ca2.pem > caboth
mk() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout $1.key -out $1.csr
  echo "subjectAltName=DNS:$2" > ext
  openssl x509 -req -in $1.csr -CA ${4:-ca}.pem -CAkey ${4:-ca}.key -set_serial $3 -days 300 -extfile ext -out $1.crt
  cat $1.crt $1.key > $1.pem
}
mk site localhost 1; mk other other.example 2; mk new new.example 3; mk client client 9; mk stranger stranger 10 ca2
cat site.crt ca.pem site.key > chain.pem
cat > ca.cnf <<END
[ca]
default_ca=d
[d]
database=index.txt
crlnumber=crlnumber
default_md=sha256
default_crl_days=300
END
touch index.txt; echo 01 > crlnumber
openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.pem -out crl.pem
openssl ca -config ca.cnf -revoke client.crt -keyfile ca.key -cert ca.pem
openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.pem -out crl2.pem
openssl ca -config ca.cnf -revoke site.crt -keyfile ca.key -cert ca.pem
openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.pem -out crl3.pem
printf 'V\t370924211518Z\t\t01\tunknown\t/CN=localhost\nR\t370924211518Z\t261128211519Z\t02\tunknown\t/CN=other.example\n' > ocsp.txt
answer() {
  name=$1; shift
  openssl ocsp -index ocsp.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -reqin $1 -respout $name.der $2 $3
  base64 -w0 $name.der > $name.b64; echo >> $name.b64
}
ask() { openssl ocsp -issuer ca.pem -cert $1.crt -no_nonce -reqout $1.req; }
ask site; ask new; ask other
openssl ocsp -issuer ca.pem -cert site.crt -cert other.crt -no_nonce -reqout two.req
answer good site.req -ndays 30; answer endless site.req; answer unknown new.req -ndays 30; answer revoked other.req -ndays 30
answer two two.req -ndays 30
printf '\060\003\012\001\006' | base64 > refused.b64
echo junk > junk
key() { head -c $2 /dev/zero | tr '\0' $1 | base64 -w0; echo; }
for byte in a b c; do key $byte 48 >> tickets; key $byte 80 >> long; done
for byte in d e f; do key $byte 48 > key-$byte; done
"#;

/// A folder with these files, which are made once for all tests.
fn files() -> Folder {
    static MADE: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = Folder::new();
        let made = Command::new("sh").args(["-c", FILES]).current_dir(&folder.0).output().unwrap();
        assert!(made.status.success(), "openssl is installed by .ci/tools: {}", String::from_utf8_lossy(&made.stderr));
        let entries = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
    });
    let folder = Folder::new();
    for (name, content) in made {
        std::fs::write(folder.0.join(name), content).unwrap();
    }
    folder
}

/// What is said on the stats socket; `F/` stands for the folder, whose file goes along behind `<`, or whose file's words behind `$`.
fn say(edge: &Edge, folder: &str, command: &str) -> Vec<String> {
    let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let filled = |text: String| if text.starts_with("F/") { text.replace("F/", &format!("{folder}/")) } else { text };
    let text = match (command.split_once(" < "), command.split_once(" $ ")) {
        (Some((command, file)), _) => format!("{command} <<\n{}", filled(read(file))),
        (None, Some((command, file))) => format!("{command} {}", read(file).trim()),
        (None, None) => command.to_owned(),
    };
    let answer = edge.command(&text.replace(" F/", &format!(" {folder}/")).replace("*F/", &format!("*{folder}/")));
    let shown = |line: &str| match line.strip_prefix("\t- ") {
        // Each program has a configuration of its own.
        Some(place) => place.rsplit_once('/').map_or(place, |(_, place)| place).to_owned(),
        // HAProxy shows the zero byte behind its list of protocols.
        None => line.replace(folder, "F").replace('\0', ""),
    };
    answer.trim_end().lines().map(shown).collect()
}

/// What a client of OpenSSL sees: the chain, what is stapled, and whether the session is resumed.
fn look(address: SocketAddr, arguments: &[&str]) -> Vec<String> {
    let run = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-status", "-showcerts"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let starts = [" 0 s:", " 1 s:", "OCSP response: no", "    Cert Status:", "Reused,", "New,", "ALPN protocol:"];
    text.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).map(str::to_owned).collect()
}

/// What several clients see, who come at the same time.
fn look_by_each(address: SocketAddr, clients: &[&[&str]]) -> Vec<String> {
    std::thread::scope(|scope| {
        let looks: Vec<_> = clients.iter().map(|client| scope.spawn(|| look(address, client))).collect();
        looks.into_iter().flat_map(|look| look.join().unwrap()).collect()
    })
}

/// Plays commands beside HAProxy, each with what a client sees afterwards.
fn play(folder: &Folder, config: &str, commands: &[&str], clients: &[&[&str]]) -> Vec<String> {
    let folder = folder.0.display().to_string();
    beside_haproxy(
        |front| config.replace("F/", &format!("{folder}/")).replace("FRONT", &front.to_string()),
        |scene| {
            let mut told = Vec::new();
            for command in commands {
                told.push(format!("> {command}"));
                let answer = say(&scene.edge, &folder, command);
                let ends = ["Success!", "Failed!", "OCSP Response updated!"];
                let changes = answer.iter().any(|line| ends.contains(&&**line) || line.contains("deleted in"));
                told.extend(answer);
                if changes {
                    told.extend(look_by_each(scene.front, clients));
                }
            }
            told
        },
    )
}

#[test]
fn a_response_and_an_issuer_are_replaced_without_their_certificate() {
    let folder = files();
    let config = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt F/site.pem\n \
                  http-request return status 200\n";
    let commands = [
        "set ssl cert F/site.pem.ocsp < good.b64",
        // Nobody knows its issuer.
        "commit ssl cert F/site.pem",
        "set ssl cert F/site.pem.issuer < junk",
        "set ssl cert F/site.pem.issuer < ca.pem",
        "set ssl cert F/site.pem.ocsp < good.b64",
        "commit ssl cert F/site.pem",
        "show ssl cert F/site.pem",
        "set ssl cert F/site.pem < chain.pem",
        "commit ssl cert F/site.pem",
        "show ssl cert F/site.pem",
        "set ssl cert F/site.pem.key < new.key",
        "commit ssl cert F/site.pem",
        "set ssl cert F/site.pem < new.pem",
        "commit ssl cert F/site.pem",
        "show ssl cert F/site.pem",
    ];
    let told = play(&folder, config, &commands, &[&["-servername", "localhost"]]);
    assert!(told.contains(&"    Cert Status: good".to_owned()), "{told:?}");
    assert!(told.contains(&" 1 s:CN = Test CA".to_owned()), "{told:?}");
}

/// A listener with a list, with others beside it.
const LISTS: &str = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt-list F/list alpn http/1.1\n \
                     bind unix@%FOLDER%/second ssl crt-list F/list\n bind unix@%FOLDER%/third ssl crt F/dir\n http-request return status 200\n";

#[test]
fn lists_change_while_their_listeners_run() {
    let folder = files();
    let path = folder.0.display().to_string();
    folder.file(
        "list",
        format!("# comment\n{path}/site.pem [alpn h2,http/1.1] localhost !no.localhost\n\n{path}/other.pem\n"),
    );
    std::fs::create_dir(folder.0.join("dir")).unwrap();
    std::fs::copy(folder.0.join("site.pem"), folder.0.join("dir/a.pem")).unwrap();
    std::fs::copy(folder.0.join("other.pem"), folder.0.join("dir/b.pem")).unwrap();
    folder.file("options", "F/new.pem [alpn http/1.1 verify none] *.x.example !a.x.example\n");
    folder.file(
        "everything",
        "F/new.pem [ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.3 no-ca-names ciphers ECDHE+AESGCM ciphersuites \
         TLS_AES_128_GCM_SHA256 curves P-256 alpn h2,http/1.1 alpn h2] all.example\n",
    );
    folder.file("unknown", "F/new.pem [nonsense]\n");
    folder.file("unread", "F/new.pem [verify required ca-file F/ca.pem]\n");
    folder.file("verify", "F/new.pem [verify perhaps]\n");
    folder.file("two", "F/new.pem\nF/new.pem\n");
    let commands = [
        "show ssl crt-list",
        "show ssl crt-list F/list",
        "show ssl crt-list -n F/list",
        "show ssl crt-list -n F/dir/",
        "show ssl crt-list F/none",
        "show ssl crt-list -n",
        "add ssl crt-list F/list F/new.pem",
        "new ssl cert",
        "new ssl cert F/new.pem",
        "new ssl cert F/new.pem",
        "new ssl cert F/site.pem",
        "show ssl cert",
        "show ssl cert F/new.pem",
        "show ssl cert *F/new.pem",
        "add ssl crt-list F/list F/new.pem",
        "set ssl cert F/new.pem.key < new.key",
        "commit ssl cert F/new.pem",
        "set ssl cert F/new.pem < new.pem",
        "show ssl cert",
        "show ssl cert *F/new.pem",
        "del ssl cert F/new.pem",
        "commit ssl cert F/new.pem",
        "show ssl cert F/new.pem",
        "add ssl crt-list",
        "add ssl crt-list F/list",
        "add ssl crt-list F/none F/new.pem",
        "add ssl crt-list F/list F/new.pem",
        "show ssl cert F/new.pem",
        "show ssl crt-list -n F/list",
        "del ssl cert F/new.pem",
        "del ssl crt-list F/list F/new.pem",
        "del ssl crt-list F/list F/new.pem",
        "add ssl crt-list F/list < unknown",
        "add ssl crt-list F/list < unread",
        "add ssl crt-list F/list < verify",
        "add ssl crt-list F/list < two",
        "add ssl crt-list F/list < options",
        "add ssl crt-list F/list/ < everything",
        "add ssl crt-list F/list F/new.pem",
        "show ssl crt-list -n F/list",
        "del ssl crt-list F/list F/new.pem",
        "del ssl crt-list F/list F/new.pem:99",
        "del ssl crt-list F/list F/new.pem:x",
        "set ssl cert F/new.pem < other.pem",
        "commit ssl cert F/new.pem",
        "del ssl crt-list F/list F/new.pem:6",
        "del ssl crt-list F/list F/new.pem:7",
        "del ssl crt-list F/list F/site.pem",
        "del ssl crt-list F/list F/site.pem:2",
        "del ssl crt-list F/list F/none.pem",
        "del ssl crt-list F/list",
        "del ssl crt-list F/none F/site.pem",
        "add ssl crt-list F/dir F/new.pem",
        "new ssl cert F/dir/c.pem",
        "set ssl cert F/dir/c.pem < new.pem",
        "commit ssl cert F/dir/c.pem",
        "add ssl crt-list F/dir F/dir/c.pem",
        "add ssl crt-list F/dir/ F/dir/c.pem",
        "show ssl crt-list -n F/dir",
        "del ssl crt-list F/dir F/dir/c.pem",
        "show ssl crt-list -n F/list",
        "del ssl crt-list F/list F/new.pem:8",
        "del ssl cert",
        "del ssl cert F/new.pem",
        "del ssl cert F/new.pem",
        "del ssl cert F/site.pem",
        "show ssl cert",
    ];
    let clients: &[&[&str]] = &[
        &["-servername", "new.example", "-alpn", "h2,http/1.1"],
        &["-servername", "b.x.example", "-alpn", "h2,http/1.1"],
        &["-servername", "a.x.example"],
        &["-servername", "all.example", "-alpn", "h2,http/1.1"],
        &["-servername", "localhost", "-alpn", "h2"],
    ];
    let told = play(&folder, LISTS, &commands, clients);
    assert!(told.contains(&" 0 s:CN = new.example".to_owned()), "{told:?}");
}

#[test]
fn responses_are_replaced_by_their_certificates_names() {
    let folder = files();
    let config = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt F/chain.pem crt F/other.pem\n \
                  http-request return status 200\n";
    std::fs::copy(folder.0.join("good.der"), folder.0.join("chain.pem.ocsp")).unwrap();
    let commands = [
        "show ssl ocsp-response",
        "show ssl ocsp-response x",
        "show ssl cert F/chain.pem",
        "set ssl ocsp-response",
        "set ssl ocsp-response abc=",
        "set ssl ocsp-response %",
        "set ssl ocsp-response < refused.b64",
        "set ssl ocsp-response < endless.b64",
        "set ssl ocsp-response < unknown.b64",
        "set ssl ocsp-response < revoked.b64",
        "set ssl ocsp-response < two.b64",
        "set ssl ocsp-response < good.b64",
        "set ssl ocsp-response $ good.b64",
        "set ssl cert F/other.pem.issuer < ca.pem",
        "set ssl cert F/other.pem.ocsp < revoked.b64",
        "commit ssl cert F/other.pem",
        "show ssl ocsp-response",
        "set ssl ocsp-response < revoked.b64",
    ];
    let clients: &[&[&str]] = &[&["-servername", "localhost"], &["-servername", "other.example"]];
    let told = play(&folder, config, &commands, clients);
    for status in ["good", "revoked"] {
        assert!(told.contains(&format!("    Cert Status: {status}")), "{told:?}");
    }
}

#[test]
fn keys_of_tickets_are_rotated() {
    let folder = files();
    let config = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt F/site.pem tls-ticket-keys \
                  F/tickets\n bind unix@%FOLDER%/second ssl crt F/site.pem tls-ticket-keys F/long\n bind unix@%FOLDER%/third ssl crt \
                  F/site.pem tls-ticket-keys F/tickets\n http-request return status 200\n";
    let commands = [
        "show tls-keys",
        "show tls-keys *",
        "show tls-keys #0",
        "show tls-keys 0",
        "show tls-keys #7",
        "show tls-keys F/tickets",
        "set ssl tls-key",
        "set ssl tls-key F/tickets",
        "set ssl tls-key F/tickets abc=",
        "set ssl tls-key F/tickets %",
        "set ssl tls-key F/none abc=",
        "set ssl tls-key #0 $ key-d",
        "set ssl tls-key #1 $ key-d",
        "show tls-keys F/tickets",
        "set ssl tls-key F/tickets $ key-e",
        "show tls-keys *",
    ];
    play(&folder, config, &commands, &[]);
    let folder = folder.0.display().to_string();
    // A ticket is good as long as its key is known: for one rotation where it was the one that encrypts.
    let told = beside_haproxy(
        |front| config.replace("F/", &format!("{folder}/")).replace("FRONT", &front.to_string()),
        |scene| {
            let mut told = Vec::new();
            let session = format!("{folder}/session-{}", scene.front.port());
            for version in ["-tls1_2", "-tls1_3"] {
                // The server's ticket comes behind the handshake in TLS 1.3.
                let get = ["-ign_eof", version];
                told.extend(visit(scene.front, &[&get[..], &["-sess_out", &session]].concat()));
                for key in ["key-d", "key-e", "key-f"] {
                    told.extend(visit(scene.front, &[&get[..], &["-sess_in", &session]].concat()));
                    told.extend(say(&scene.edge, &folder, &format!("set ssl tls-key F/tickets $ {key}")));
                }
                told.extend(visit(scene.front, &[&get[..], &["-sess_in", &session]].concat()));
            }
            told
        },
    );
    assert!(told.iter().any(|line| line.starts_with("Reused")), "{told:?}");
}

/// Asks for a page, so that everything that follows a handshake has come.
fn visit(address: SocketAddr, arguments: &[&str]) -> Vec<String> {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-servername", "localhost"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let output = client.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let starts = ["Reused,", "New,", "HTTP/1.1"];
    text.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).map(str::to_owned).collect()
}

#[test]
fn authorities_and_what_they_revoke_change_while_listeners_and_servers_run() {
    let folder = files();
    let config = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt F/site.pem crt F/other.pem \
                  ca-file F/ca.pem crl-file F/crl.pem verify required\n bind unix@%FOLDER%/second ssl crt F/site.pem ca-file F/ca2.pem \
                  verify optional\n http-request return status 200\n";
    let commands = [
        "show ssl ca-file F/ca.pem",
        "show ssl ca-file F/ca.pem:1",
        "show ssl ca-file F/ca.pem:9",
        "show ssl ca-file F/ca.pem:0",
        "show ssl ca-file F/none",
        "set ssl ca-file",
        "set ssl ca-file F/ca.pem < junk",
        "set ssl ca-file F/none < ca2.pem",
        "set ssl ca-file F/ca.pem < ca2.pem",
        "set ssl ca-file F/ca.pem < caboth",
        "show ssl ca-file *F/ca.pem",
        "show ssl ca-file *F/none",
        "commit ssl ca-file F/none",
        "abort ssl ca-file F/none",
        "abort ssl ca-file",
        "commit ssl ca-file",
        "abort ssl ca-file F/ca.pem",
        "abort ssl ca-file F/ca.pem",
        "commit ssl ca-file F/ca.pem",
        "set ssl ca-file F/ca.pem < caboth",
        "del ssl ca-file F/ca.pem",
        "commit ssl ca-file F/ca.pem",
        "show ssl ca-file F/ca.pem",
        "new ssl ca-file",
        "new ssl ca-file F/ca.pem",
        "new ssl ca-file fresh",
        "show ssl ca-file fresh",
        "del ssl ca-file fresh",
        "del ssl ca-file F/ca.pem",
        "del ssl ca-file fresh",
        "del ssl ca-file",
        "show ssl crl-file",
        "show ssl crl-file F/crl.pem",
        "show ssl crl-file F/crl.pem:1",
        "show ssl crl-file F/crl.pem:2",
        "show ssl crl-file F/crl.pem:0",
        "show ssl crl-file F/none",
        "set ssl crl-file",
        "set ssl crl-file F/crl.pem < junk",
        "set ssl crl-file F/none < crl2.pem",
        "set ssl crl-file F/crl.pem < crl2.pem",
        "show ssl crl-file",
        "show ssl crl-file *F/crl.pem",
        "commit ssl crl-file F/none",
        "abort ssl crl-file F/none",
        "commit ssl crl-file F/crl.pem",
        "commit ssl crl-file F/crl.pem",
        "abort ssl crl-file F/crl.pem",
        "show ssl crl-file F/crl.pem",
        "new ssl crl-file fresh",
        "new ssl crl-file fresh",
        "new ssl crl-file",
        "show ssl crl-file fresh",
        "show ssl crl-file",
        "del ssl crl-file fresh",
        "del ssl crl-file F/crl.pem",
        "del ssl crl-file fresh",
        "del ssl crl-file",
    ];
    play(&folder, config, &commands, &[]);
}

/// Whether a client with this certificate is served, over each version.
fn served(folder: &str, address: SocketAddr, certificate: &str) -> Vec<String> {
    let file = format!("{folder}/{certificate}");
    let mut told = Vec::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let page = visit(address, &["-ign_eof", version, "-cert", &file, "-key", &file]);
        let status = page.into_iter().find(|line| line.starts_with("HTTP/1.1"));
        told.push(format!("{certificate} {version}: {}", status.as_deref().unwrap_or("refused")));
    }
    told
}

#[test]
fn clients_are_judged_by_what_files_hold_now() {
    let folder = files();
    let path = folder.0.display().to_string();
    folder.file("list", format!("{path}/site.pem\n{path}/other.pem [verify required ca-file {path}/ca2.pem]\n"));
    let config = "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind FRONT ssl crt-list F/list ca-file F/ca.pem \
                  crl-file F/crl.pem verify required\n http-request return status 200\n";
    let told = beside_haproxy(
        |front| config.replace("F/", &format!("{path}/")).replace("FRONT", &front.to_string()),
        |scene| {
            let mut told = Vec::new();
            let session = format!("{path}/session-{}", scene.front.port());
            let client = format!("{path}/client.pem");
            let with = ["-ign_eof", "-tls1_2", "-cert", &client, "-key", &client];
            told.extend(visit(scene.front, &[&with[..], &["-sess_out", &session]].concat()));
            told.extend(visit(scene.front, &[&with[..], &["-sess_in", &session]].concat()));
            for command in [
                "set ssl crl-file F/crl.pem < crl2.pem",
                "commit ssl crl-file F/crl.pem",
                "set ssl crl-file F/crl.pem < crl.pem",
                "commit ssl crl-file F/crl.pem",
                "set ssl ca-file F/ca.pem < ca2.pem",
                "commit ssl ca-file F/ca.pem",
            ] {
                told.extend(say(&scene.edge, &path, command));
                told.extend(served(&path, scene.front, "client.pem"));
                told.extend(served(&path, scene.front, "stranger.pem"));
            }
            told
        },
    );
    assert!(told.contains(&"client.pem -tls1_3: refused".to_owned()), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("Reused")), "{told:?}");
}

#[test]
fn connections_are_limited() {
    let folder = files();
    let (path, front) = (folder.0.display().to_string(), support::free_address());
    let edge = Edge::start(&format!(
        "global\n stats socket %FOLDER%/stats level admin\n maxsslconn 1\nfrontend site\n mode http\n timeout client 1m\n \
         bind {front} ssl crt {path}/site.pem\n http-request return status 200\n"
    ));
    let has = |line: &str| edge.command("show info").lines().any(|other| other == line);
    let client = || {
        let mut program = Command::new("openssl");
        program.args(["s_client", "-connect", &front.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
        program.stdin(Stdio::piped()).spawn().unwrap()
    };
    let is_served = || {
        let output = client().wait_with_output().unwrap();
        !String::from_utf8_lossy(&output.stdout).contains("(NONE)")
    };
    let mut first = client();
    support::wait_until("it has begun", || has("CurrSslConns: 1"));
    assert!(!is_served());
    support::wait_until("the other one is closed", || has("CurrConns: 1"));
    first.kill().unwrap();
    first.wait().unwrap();
    support::wait_until("it has ended", || has("CurrSslConns: 0"));
    assert!(is_served());
}

#[test]
fn connections_are_counted() {
    let folder = files();
    let path = folder.0.display().to_string();
    let config = "global\n stats socket %FOLDER%/stats level admin\n maxsslconn 50\n maxsslrate 60\nlisten site\n mode http\n \
                  bind FRONT ssl crt F/site.pem no-tls-tickets\n \
                  http-reuse never\n server s unix@%FOLDER%/origin ssl verify none no-ssl-reuse\nlisten origin\n mode http\n \
                  bind unix@%FOLDER%/origin ssl crt F/site.pem\n http-request return status 200\n";
    beside_haproxy(
        |front| config.replace("F/", &format!("{path}/")).replace("FRONT", &front.to_string()),
        |scene| {
            let said = || {
                let names = [
                    "MaxSslConns:",
                    "SslRateLimit:",
                    "CurrSslConns:",
                    "CumSslConns:",
                    "SslCacheLookups:",
                    "SslCacheMisses:",
                ];
                let info = say(&scene.edge, &path, "show info");
                let rates = ["MaxSslRate:", "SslFrontendMaxKeyRate:", "SslBackendMaxKeyRate:"];
                let is_shown = |line: &&String| names.iter().any(|name| line.starts_with(name));
                let mut told: Vec<String> = info.iter().filter(is_shown).cloned().collect();
                // How many come within one second is up to the machine.
                for rate in rates {
                    let value = info.iter().find_map(|line| line.strip_prefix(rate));
                    told.push(format!("{rate} {}", value.is_some_and(|value| value.trim() != "0")));
                }
                told
            };
            let mut told = said();
            let session = format!("{path}/session-{}", scene.front.port());
            for stored in ["-sess_out", "-sess_in"] {
                told.extend(visit(scene.front, &["-ign_eof", "-tls1_2", stored, &session]));
                // What has ended is counted no more.
                support::wait_until("it has ended", || said().contains(&"CurrSslConns: 0".to_owned()));
                told.extend(said());
            }
            told.extend(say(&scene.edge, &path, "set rate-limit ssl-sessions global 7"));
            told.extend(said());
            told
        },
    );
}

/// The answer to a request over plain HTTP.
fn page(address: SocketAddr) -> Vec<String> {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    // Whoever has said 503 may reset the connection behind it.
    let _ = stream.read_to_string(&mut text);
    [text.lines().next(), text.lines().last()].into_iter().flatten().map(str::to_owned).collect()
}

/// A site whose server is asked over TLS, and that server, which says who has shown which certificate.
const SERVERS: &str = "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
                       timeout connect 5s\n retries 0\nlisten site\n bind FRONT\n http-reuse never\n server s unix@%FOLDER%/origin ssl verify required \
                       ca-file F/ca2.pem crt F/client.pem REVOKED\nlisten origin\n bind unix@%FOLDER%/origin ssl crt F/site.pem ca-file F/ca.pem \
                       verify optional\n http-request return status 200 content-type text/plain lf-string %[ssl_c_serial,hex]\n";

/// Gives commands, each with what the site's server says then.
fn ask_each(edge: &Edge, path: &str, front: SocketAddr, commands: &[&str]) -> Vec<String> {
    let mut told = Vec::new();
    for command in commands {
        told.extend(say(edge, path, command));
        told.extend(page(front).into_iter().filter(|line| !line.is_empty() && !line.starts_with('<')));
    }
    told
}

#[test]
fn servers_are_judged_by_what_files_hold_now_and_shown_what_is_theirs_now() {
    let folder = files();
    let path = folder.0.display().to_string();
    let config = |front: SocketAddr, revoked: &str| {
        let config = SERVERS.replace("REVOKED", revoked).replace("F/", &format!("{path}/"));
        config.replace("FRONT", &front.to_string())
    };
    // Debian's HAProxy forgets a server's certificate with the first new CA file, and ends with a new list of what was revoked.
    let commands = [
        "show ssl cert",
        "del ssl cert F/client.pem",
        "set ssl cert F/client.pem < new.pem",
        "commit ssl cert F/client.pem",
        "show ssl cert F/client.pem",
        "show ssl ca-file F/ca2.pem",
        "set ssl ca-file F/ca2.pem < caboth",
        "commit ssl ca-file F/ca2.pem",
    ];
    let told = beside_haproxy(|front| config(front, ""), |scene| ask_each(&scene.edge, &path, scene.front, &commands));
    assert_eq!(told.last().unwrap(), "03");
    let front = support::free_address();
    let edge = Edge::start_single(&config(front, "crl-file F/crl.pem"));
    let status = |command: &str| ask_each(&edge, &path, front, &[command]);
    for (set, commit, last) in [
        ("set ssl ca-file F/ca2.pem < caboth", "commit ssl ca-file F/ca2.pem", "09"),
        ("set ssl cert F/client.pem < new.pem", "commit ssl cert F/client.pem", "03"),
        ("set ssl crl-file F/crl.pem < crl3.pem", "commit ssl crl-file F/crl.pem", "HTTP/1.1 503 Service Unavailable"),
        ("set ssl crl-file F/crl.pem < crl.pem", "commit ssl crl-file F/crl.pem", "03"),
        ("set ssl ca-file F/ca2.pem < ca2.pem", "commit ssl ca-file F/ca2.pem", "HTTP/1.1 503 Service Unavailable"),
    ] {
        status(set);
        let told = status(commit);
        assert!(told.contains(&"Success!".to_owned()), "{commit}: {told:?}");
        assert_eq!(told.last().unwrap(), last, "{commit}");
    }
}
