//! A varnishd, ours or Debian's, whose log and counters Debian's tools read.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{Folder, Origin, free_address, listens, signal_process, wait_within};

/// An instance of a varnishd, until it is dropped.
pub struct VarnishInstance {
    child: Child,
    pub front: SocketAddr,
    workdir: PathBuf,
    _folder: Folder,
}

impl Drop for VarnishInstance {
    fn drop(&mut self) {
        signal_process(self.child.id(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl VarnishInstance {
    /// `HOST` and `ORIGIN` in the program are the origin's address and port.
    fn start(mut command: Command, program: &str, arguments: &[&str], origin: &Origin) -> Self {
        let (folder, front) = (Folder::new(), free_address());
        let (ip, port) = (origin.address.ip().to_string(), origin.address.port().to_string());
        let vcl = folder.file("a.vcl", program.replace("HOST", &ip).replace("ORIGIN", &port));
        let workdir = folder.0.join("v");
        command.args(["-F", "-s", "malloc,16m", "-a", &front.to_string(), "-f"]).arg(vcl).arg("-n").arg(&workdir);
        command.args(arguments);
        let said = folder.0.join("said");
        let output = std::fs::File::create(&said).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut instance = Self { child: command.spawn().unwrap(), front, workdir, _folder: folder };
        // NOTE: Varnish compiles the program first.
        wait_within(Duration::from_secs(120), "it listens", || {
            let has_ended = instance.child.try_wait().unwrap().is_some();
            assert!(!has_ended, "it ended: {}", std::fs::read_to_string(&said).unwrap());
            listens(front)
        });
        instance
    }

    /// `tidegate varnishd`.
    pub fn ours(program: &str, arguments: &[&str], origin: &Origin) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("varnishd");
        Self::start(command, program, arguments, origin)
    }

    /// Debian's.
    pub fn theirs(program: &str, arguments: &[&str], origin: &Origin) -> Self {
        let mut command = Command::new("/usr/sbin/varnishd");
        command.args(["-j", "none"]);
        Self::start(command, program, arguments, origin)
    }

    pub fn tool(&self, tool: &str, arguments: &[&str]) -> String {
        tool_at(&self.workdir, tool, arguments)
    }

    /// The sessions with requests, each with all that belongs to it, in the order of their ends.
    pub fn sessions(&self) -> Vec<String> {
        let log = self.tool("varnishlog", &["-d", "-g", "session"]);
        log.split("\n\n").filter(|group| group.contains("SessClose")).map(str::to_owned).collect()
    }

    pub fn counters(&self) -> HashMap<String, u64> {
        let lines = self.tool("varnishstat", &["-1"]);
        let counter = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        };
        lines.lines().filter_map(counter).collect()
    }
}

/// What a tool says about the instance with that folder.
pub fn tool_at(workdir: &Path, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).arg("-n").arg(workdir).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a program is installed; says so if not.
pub fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("{tool} is not installed (.ci/tools installs it): not tested");
    }
    found
}
