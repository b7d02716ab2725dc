//! Programs of VCL in front of a scripted server: in the edge, and in Debian's varnishd beside it.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Edge, Folder, Origin, Wire, free_address, listens, wait_until, wire::Answer};

/// An edge that runs a program in front of a server, which the program calls `default`.
pub struct Site {
    pub edge: Edge,
    pub front: SocketAddr,
    pub folder: Folder,
}

impl Site {
    /// `program` without its backend; `arguments` stand behind it in the `vcl` line.
    #[track_caller]
    pub fn new(program: &str, arguments: &str, origin: &Origin) -> Self {
        Self::with(Edge::start_single, program, arguments, "", origin)
    }

    /// `options` are lines of the `defaults` section.
    #[track_caller]
    pub fn with(start: impl Fn(&str) -> Edge, program: &str, arguments: &str, options: &str, origin: &Origin) -> Self {
        let (folder, front) = (Folder::new(), free_address());
        let path = folder.0.join("site.vcl");
        // The port is said by the section, not by the program.
        fs::write(&path, format!("{program}\nbackend default {{ .host = \"127.0.0.1\"; }}\n")).unwrap();
        let arguments = arguments.replace("%FOLDER%", &folder.0.display().to_string());
        let edge = start(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n {options}\n\
             frontend site\n bind {front}\n vcl {} {arguments}\nbackend default\n server s1 {}\n",
            path.display(),
            origin.address,
        ));
        Self { edge, front, folder }
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        Wire::connect(self.front).get(path)
    }
}

/// Debian's varnishd.
pub struct Varnish {
    child: Child,
    pub front: SocketAddr,
    _folder: Folder,
}

impl Varnish {
    /// `None` when it is not installed.
    #[track_caller]
    pub fn start(program: &str, arguments: &[&str], origin: &Origin) -> Option<Self> {
        let path = "/usr/sbin/varnishd";
        if !Path::new(path).exists() {
            eprintln!("skipped: {path} is not installed");
            return None;
        }
        let (folder, front) = (Folder::new(), free_address());
        let (ip, port) = (origin.address.ip(), origin.address.port());
        let backend = format!("{program}\nbackend default {{ .host = \"{ip}\"; .port = \"{port}\"; }}\n");
        let vcl = folder.file("site.vcl", backend);
        let child = Command::new(path)
            .args(["-F", "-j", "none", "-s", "malloc,16m", "-n"])
            .arg(folder.0.join("n"))
            .args(["-a", &front.to_string(), "-f"])
            .arg(vcl)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let varnish = Self { child, front, _folder: folder };
        // NOTE: it compiles the program first.
        super::wait_within(std::time::Duration::from_secs(60), "varnishd listens", || listens(front));
        Some(varnish)
    }
}

impl Drop for Varnish {
    fn drop(&mut self) {
        super::signal_process(self.child.id(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
