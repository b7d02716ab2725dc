//! A real uWSGI from Debian's packages, which speaks uwsgi and SCGI.

use std::{
    fs::File,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Folder, free_address, wait_until};

const PROGRAM: &str = "/usr/bin/uwsgi-core";

/// An instance that runs a WSGI application.
#[derive(Debug)]
pub struct Uwsgi {
    child: Child,
    pub uwsgi: SocketAddr,
    pub scgi: SocketAddr,
    pub folder: Folder,
}

impl Uwsgi {
    /// One with this application; `None` when it is not installed.
    pub fn start(application: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("skipped: {PROGRAM} is not installed");
            return None;
        }
        let (folder, uwsgi, scgi) = (Folder::new(), free_address(), free_address());
        let file = folder.file("app.py", application);
        let output = File::create(folder.0.join("uwsgi.out")).unwrap();
        let child = Command::new(PROGRAM)
            .args(["--plugin", "python3", "--master", "--processes", "2", "--die-on-term"])
            .args(["--socket", &uwsgi.to_string(), "--scgi-socket", &scgi.to_string()])
            .args(["--buffer-size", "65535", "--wsgi-file"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let found = Self { child, uwsgi, scgi, folder };
        wait_until("uWSGI listens", || {
            std::fs::read_to_string(found.folder.0.join("uwsgi.out"))
                .is_ok_and(|text| text.contains("spawned uWSGI worker 2"))
                && TcpStream::connect(scgi).is_ok()
        });
        Some(found)
    }
}

impl Drop for Uwsgi {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Its master ends its workers.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
