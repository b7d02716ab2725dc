//! Lines of settings: whether they are accepted here, and whether HAProxy, if it is installed, agrees.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;

const HAPROXY: &str = "/usr/sbin/haproxy";
const THREADS: usize = 4;

const PRELUDE: &str = "listen start\nbind 127.0.0.1:2\nbackend be\nmode http\n";

/// A line of `settings.txt`.
struct Case {
    sign: char,
    context: &'static str,
    text: &'static str,
    number: usize,
}

impl Case {
    fn accepted_here(&self) -> bool {
        matches!(self.sign, '=' | '+')
    }

    fn accepted_by_haproxy(&self) -> bool {
        matches!(self.sign, '=' | '-')
    }

    /// The section with the lines, named by the case so that many can stand in one file.
    fn section(&self, folder: &Path) -> String {
        let lines = self.text.replace(" ## ", "\n").replace("DIR/", &format!("{}/", folder.display()));
        let number = self.number;
        let head = match self.context {
            "global" => "global".to_owned(),
            "frontend" => format!("frontend fe{number}\nmode http\nbind 127.0.0.1:1\ntimeout client 1s"),
            "backend" => {
                format!("backend app{number}\nmode http\ntimeout connect 1s\ntimeout server 1s\nserver s1 127.0.0.1:1")
            }
            "anonymous defaults" => "defaults\nmode http".to_owned(),
            "file" => return format!("{lines}\n"),
            other => panic!("unknown context {other}"),
        };
        format!("{head}\n{lines}\n")
    }

    fn configuration(&self, folder: &Path) -> String {
        let section = self.section(folder);
        if self.context == "file" { section } else { format!("{PRELUDE}{section}") }
    }

    fn describe(&self) -> String {
        format!("settings.txt:{} [{}] {} {}", self.number, self.context, self.sign, self.text)
    }
}

fn cases() -> Vec<Case> {
    let mut context = "";
    let mut cases = Vec::new();
    for (index, line) in include_str!("settings.txt").lines().enumerate() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            context = name;
        } else if let (Some(sign @ ('=' | '!' | '-' | '+')), Some(text)) = (line.chars().next(), line.get(2..)) {
            cases.push(Case { sign, context, text, number: index + 1 });
        }
    }
    assert!(cases.len() > 700, "{}", cases.len());
    cases
}

/// A folder of the file system, which HAProxy sees too.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("haproxycfg-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn settings() {
    let folder = Path::new("/folder");
    let mut wrong = Vec::new();
    for case in cases() {
        let files = Bundle::default().with_directory("/folder/", &[]);
        let parsed = read_with(&case.configuration(folder), files, &[("PATH", "/bin")]);
        if parsed.config.is_some() != case.accepted_here() {
            wrong.push(format!("{}\n{}", case.describe(), messages(&parsed, Severity::Alert).join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether `haproxy -c` accepts a configuration, and what it says.
fn haproxy(folder: &Path, name: usize, text: &str) -> (bool, String) {
    let path = folder.join(format!("{name}.cfg"));
    std::fs::write(&path, text).unwrap();
    let output = Command::new(HAPROXY).args(["-c", "-f"]).arg(&path).output().unwrap();
    (matches!(output.status.code(), Some(0 | 2)), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Gives the sections of several cases to HAProxy in one file: whether it accepts them all, and the cases at whose
/// lines it found errors.
fn together<'c>(folder: &Path, cases: &[&'c Case]) -> (bool, Vec<&'c Case>) {
    let mut text = PRELUDE.to_owned();
    let mut lines = text.lines().count();
    let mut owners = Vec::new();
    for case in cases {
        let section = case.section(folder);
        lines += section.lines().count();
        text.push_str(&section);
        owners.push((lines, *case));
    }
    let (accepted, said) = haproxy(folder, 0, &text);
    let alerts = said.lines().filter(|line| line.contains("[ALERT]"));
    let numbers = alerts.filter_map(|line| line.split("/0.cfg:").nth(1)?.split(']').next()?.parse::<usize>().ok());
    let found = numbers.filter_map(|number| owners.iter().find(|(last, _)| number <= *last)).map(|(_, case)| *case);
    (accepted, found.collect())
}

/// The cases that one run over many does not settle. That HAProxy accepts all of them settles all; an error settles the
/// case that it is about.
fn unsettled<'c>(folder: &Path, cases: &'c [Case]) -> Vec<&'c Case> {
    let mut left = Vec::new();
    for context in ["global", "frontend", "backend"] {
        let of_context = || cases.iter().filter(|case| case.context == context);
        let accepted: Vec<&Case> = of_context().filter(|case| case.accepted_by_haproxy()).collect();
        if !together(folder, &accepted).0 {
            left.extend(accepted);
        }
        let mut refused: Vec<&Case> = of_context().filter(|case| !case.accepted_by_haproxy()).collect();
        loop {
            let (_, found) = together(folder, &refused);
            if found.is_empty() {
                break;
            }
            refused.retain(|case| !found.iter().any(|found| found.number == case.number));
        }
        left.extend(refused);
    }
    left.extend(cases.iter().filter(|case| matches!(case.context, "file" | "anonymous defaults")));
    left
}

#[test]
fn haproxy_agrees() {
    if !Path::new(HAPROXY).exists() {
        println!("skipped: {HAPROXY} is not installed");
        return;
    }
    let folder = Folder::new("settings");
    let cases = cases();
    let left = unsettled(&folder.0, &cases);
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (accepted, said) = haproxy(&folder.0, case.number, &case.configuration(&folder.0));
                    if accepted != case.accepted_by_haproxy() {
                        wrong.lock().unwrap().push(format!("{}\n{said}", case.describe()));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    println!("{} of {} lines on their own", left.len(), cases.len());
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_command_line_has_its_say() {
    let files = || {
        Bundle::default()
            .with("t.cfg", b"frontend fe\n bind :80\n timeout client 1s\nbackend be\n server s 1.1.1.1:1\n")
    };
    let with = |options: Options| parse(&["t.cfg".to_owned()], &files(), BTreeMap::new(), &options);
    let plain = with(options());
    assert!(plain.has_warnings() && plain.config.is_some());
    let strict = with(Options { zero_warning: true, ..options() });
    assert!(
        strict.config.is_none() && messages(&strict, Severity::Alert).iter().any(|text| text.contains("zero-warning"))
    );
    let shared = with(Options { noreuseport: true, ..options() }).config.unwrap();
    assert_eq!(proxy(&shared, "fe").binds[0].accept, crate::model::AcceptMode::Shared);
}

#[test]
fn certificates_of_servers_may_be_left_unverified_by_an_option() {
    let with = |servers_unverified: bool, global: &str| {
        let text =
            format!("{global}backend b\n  timeout connect 1s\n  timeout server 1s\n  server s 192.0.2.1:443 ssl\n");
        let files = Bundle::default().with("t.cfg", text.as_bytes());
        let options = Options { servers_unverified, ..options() };
        parse(&["t.cfg".to_owned()], &files, BTreeMap::new(), &options).config.is_some()
    };
    assert!(!with(false, ""));
    assert!(with(true, ""));
    // The configuration has the last word.
    assert!(!with(true, "global\n  ssl-server-verify required\n"));
}
