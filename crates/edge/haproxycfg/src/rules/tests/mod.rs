//! Lines in tiny configurations: what is accepted, what is said about the rest, and what becomes of it.

mod differential;
mod messages;
mod models;

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use crate::{
    Options, Parsed,
    diagnostics::Severity,
    model::{Config, Proxy},
    parse,
    source::{Files, ReadError},
};

/// Files that the lines of the tests name, in a directory of the file system so that HAProxy sees them too.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// A new one; `name` tells tests apart that run at the same time.
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("haproxycfg-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let write = |name: &str, contents: &[u8]| fs::write(path.join(name), contents).unwrap();
        write("good.http", b"HTTP/1.0 503 Gone fishing\r\nContent-Type: text/html\r\n\r\n<p>back soon</p>\n");
        write("exact-length.http", b"HTTP/1.1 503 x\r\nContent-Length: 3\r\n\r\nabc");
        write("lf-only.http", b"HTTP/1.1 503 x\nA: b\n\nabc");
        write("empty.http", b"");
        write("users", b"ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
        write("types", b"text/html html\n");
        write("bad-length.http", b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nabc");
        write("not-http.http", b"<html>\r\n\r\n</html>\r\n");
        write("no-end.http", b"HTTP/1.1 503 x\r\nA: b\r\n");
        write("chunked.http", b"HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        write("body.txt", b"hello\n");
        write("large.txt", &[b'x'; 20_000]);
        write("map.txt", b"/old /new\n");
        Self(path)
    }

    /// `text` with the directory in place of `DIR/`.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("DIR/", &format!("{}/", self.0.display()))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The configuration `text` as a file `test.cfg`; all else from the file system.
struct OneFile<'a>(&'a str);

impl Files for OneFile<'_> {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        match path {
            "test.cfg" => Ok(self.0.as_bytes().into()),
            _ => fs::read(path).map(Arc::from).map_err(|error| ReadError(error.to_string())),
        }
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError> {
        if path == "test.cfg" { Ok(None) } else { Err(ReadError("No such file or directory".to_owned())) }
    }
}

/// Reads `text`.
pub(super) fn read(text: &str) -> Parsed {
    let options = Options { hostname: "test".to_owned(), ..Options::default() };
    parse(&["test.cfg".to_owned()], &OneFile(text), BTreeMap::new(), &options)
}

/// Reads `text`, which must be right.
pub(super) fn accept(text: &str) -> Config {
    let parsed = read(text);
    let said: String = parsed.diagnostics.iter().map(|diagnostic| diagnostic.render(1)).collect();
    parsed.config.unwrap_or_else(|| panic!("refused:\n{said}"))
}

/// The proxy of this name.
pub(super) fn proxy(config: &Config, name: &str) -> Proxy {
    config
        .proxies
        .iter()
        .find(|proxy| &*proxy.name == name)
        .unwrap_or_else(|| panic!("no proxy {name}"))
        .as_ref()
        .clone()
}

/// The alerts about `text`, as they are shown.
pub(super) fn alerts(text: &str) -> Vec<String> {
    said(text, Severity::Alert)
}

/// The warnings about `text`, as they are shown.
pub(super) fn warnings(text: &str) -> Vec<String> {
    said(text, Severity::Warning)
}

fn said(text: &str, severity: Severity) -> Vec<String> {
    let parsed = read(text);
    let list = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
    list.map(|diagnostic| diagnostic.render(1)).collect()
}

/// A line of `lines.txt`.
pub(super) struct Case {
    /// `=`, `!`, `-` or `+`.
    pub(super) sign: char,
    /// The context.
    pub(super) context: &'static str,
    /// The line or lines, as in the file.
    pub(super) text: &'static str,
    /// Its number in the file.
    pub(super) number: usize,
}

impl Case {
    pub(super) fn accepted_here(&self) -> bool {
        matches!(self.sign, '=' | '+')
    }

    pub(super) fn accepted_by_haproxy(&self) -> bool {
        matches!(self.sign, '=' | '-')
    }

    /// The section with the lines. `id` makes its name unique, so that many can stand in one file.
    pub(super) fn section(&self, directory: &Directory, id: usize) -> String {
        let lines = directory.fill(self.text).replace(" ## ", "\n");
        let client = "bind 127.0.0.1:1\ntimeout client 1s\nacl local src 127.0.0.1";
        let server = "timeout connect 1s\ntimeout server 1s\nserver s1 127.0.0.1:1";
        let head = match self.context {
            "frontend" => format!("frontend fe{id}\nmode http\n{client}"),
            "tcp frontend" => format!("frontend fe{id}\nmode tcp\n{client}"),
            "backend" => format!("backend app{id}\nmode http\n{server}"),
            "listen" => format!("listen fe{id}\nmode http\n{client}\n{server}"),
            "named defaults" => format!("defaults named{id}\nmode http"),
            "anonymous defaults" => "defaults\nmode http".to_owned(),
            "global" => "global".to_owned(),
            "userlist" => format!("userlist people{id}"),
            "http-errors" => format!("http-errors pages{id}"),
            "file" => "# whole".to_owned(),
            other => panic!("unknown context {other}"),
        };
        format!("{head}\n{lines}\n").replace("use_backend fe\n", &format!("use_backend fe{id}\n"))
    }

    /// The whole configuration around it.
    pub(super) fn configuration(&self, directory: &Directory) -> String {
        let section = self.section(directory, 0);
        if self.context == "file" { section } else { prelude(directory) + &section }
    }
}

/// What the lines refer to.
pub(super) fn prelude(directory: &Directory) -> String {
    directory.fill(
        "global\nexpose-experimental-directives\nlisten start\nbind 127.0.0.1:2\nuserlist staff\nuser ann insecure-password x\nhttp-errors site\n\
         errorfile 503 DIR/good.http\nbackend be\nmode http\nbackend tcpbe\nmode tcp\n",
    )
}

/// All of `lines.txt`.
pub(super) fn cases() -> Vec<Case> {
    let mut context = "";
    let mut cases = Vec::new();
    for (index, line) in include_str!("lines.txt").lines().enumerate() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            context = name;
        } else if let (Some(sign @ ('=' | '!' | '-' | '+')), Some(text)) = (line.chars().next(), line.get(2..)) {
            cases.push(Case { sign, context, text, number: index + 1 });
        }
    }
    cases
}

#[test]
fn lines() {
    let directory = Directory::new("lines");
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() > 900, "{} lines", cases.len());
    for case in &cases {
        let parsed = read(&case.configuration(&directory));
        if parsed.config.is_some() != case.accepted_here() {
            let alerts = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Alert);
            let alerts: String = alerts.map(|diagnostic| diagnostic.one_line() + "\n").collect();
            wrong.push(format!("lines.txt:{} [{}] {} {}\n{alerts}", case.number, case.context, case.sign, case.text));
        }
    }
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
