//! The work of checking a configuration grows with its size: instructions are counted, by valgrind, so that a busy machine
//! makes no difference.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fmt::Write as _, process::Command};

use support::Folder;

/// A grown configuration: so many sites, each with names, rules, a backend and servers, one after the other as teams add
/// them, and lists of everything that is looked up by name.
fn sites(count: usize) -> String {
    let mut text = String::from(
        "global\n maxconn 2000\ndefaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n",
    );
    for site in 0..count {
        write!(
            text,
            "userlist u{site}\n user ann insecure-password x\n group g{site} users ann\n\
             backend t{site}\n stick-table type ip size 1k store http_req_rate(10s)\n\
             backend b{site}\n balance roundrobin\n cookie SRV insert\n acl private path_beg /private{site}\n \
             http-request deny if private !{{ http_auth(u{site}) }}\n http-response set-header X-Site {site}\n \
             server a{site} 10.0.{0}.{1}:80 check cookie a weight 10\n \
             server b{site} 10.1.{0}.{1}:80 cookie b track b{site}/a{site}\n",
            site / 250,
            site % 250 + 1,
        )
        .unwrap();
    }
    text.push_str("frontend www\n bind 127.0.0.1:8080\n");
    for site in 0..count {
        write!(
            text,
            " acl host{site} hdr(host) -i www{site}.example.com\n http-request track-sc0 src table t{site} if host{site}\n \
             http-request set-var(txn.site{site}) path,lower if host{site}\n \
             http-request set-header X-Load %[nbsrv(b{site})] if host{site} {{ var(txn.site{site}) -m found }}\n",
        )
        .unwrap();
    }
    for site in 0..count {
        writeln!(text, " use_backend b{site} if host{site}").unwrap();
    }
    text.push_str("backend many\n");
    for site in 0..count {
        writeln!(text, " server s{site} 10.2.{}.{}:80 id {}", site / 250, site % 250 + 1, 1000 + site).unwrap();
    }
    text
}

/// How many instructions a check takes; none without valgrind.
fn instructions(folder: &Folder, count: usize) -> Option<u64> {
    let file = folder.file(&format!("{count}.cfg"), sites(count));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", env!("CARGO_BIN_EXE_tidegate")]);
    let output = command.args(["haproxy", "-c", "-f"]).arg(file).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", &said[..said.len().min(3000)]);
    let line = said.lines().find(|line| line.contains("Collected :")).unwrap();
    Some(line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// How many sites the small one has; `GROWTH_SITES` in the environment asks for more, which finds what grows slowly.
const SITES: usize = 20;

#[test]
fn the_work_of_a_check_grows_with_the_file() {
    let folder = Folder::new();
    let sites = std::env::var("GROWTH_SITES").ok().and_then(|sites| sites.parse().ok()).unwrap_or(SITES);
    let Some(small) = instructions(&folder, sites) else { return eprintln!("skipped: valgrind is not installed") };
    let large = instructions(&folder, 4 * sites).unwrap();
    // Four times as much, and what does not depend on the size at all makes it less.
    assert!(large < small * 43 / 10, "{small} instructions for {sites} sites, {large} for four times as many");
}
