//! A real PHP-FPM from Debian's packages, on a socket of its own.

use std::{
    fs::File,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{Folder, wait_until};

const PROGRAM: &str = "/usr/sbin/php-fpm8.2";

/// An instance, which has a folder of documents.
#[derive(Debug)]
pub struct Fpm {
    child: Child,
    pub folder: Folder,
}

impl Fpm {
    /// One with so many processes, each of which serves one connection at a time; `None` when it is not installed.
    pub fn start(children: usize, index: &str) -> Option<Self> {
        Self::start_with(children, index, "")
    }

    /// The same, with more lines of its configuration.
    pub fn start_with(children: usize, index: &str, lines: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("skipped: {PROGRAM} is not installed");
            return None;
        }
        let folder = Folder::new();
        let root = folder.0.display().to_string();
        std::fs::create_dir(folder.0.join("www")).unwrap();
        folder.file("www/index.php", index);
        let sessions = match lines.contains("session.save_path") {
            true => String::new(),
            false => format!("php_value[session.save_path] = {root}\n"),
        };
        let config = folder.file(
            "fpm.conf",
            format!(
                "[global]\nerror_log = {root}/fpm.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\n\
                 listen = {root}/fpm.sock\npm = static\npm.max_children = {children}\nclear_env = no\n\
                 {sessions}php_admin_value[upload_tmp_dir] = {root}\n\
                 php_admin_value[upload_max_filesize] = 300M\nphp_admin_value[post_max_size] = 300M\n{lines}\n"
            ),
        );
        let output = File::create(folder.0.join("fpm.out")).unwrap();
        let mut command = Command::new(PROGRAM);
        // It refuses to run as root unless it is told to.
        if rustix::process::geteuid().is_root() {
            command.arg("-R");
        }
        let child = command
            .arg("-y")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let fpm = Self { child, folder };
        wait_until("PHP-FPM listens", || UnixStream::connect(fpm.socket()).is_ok());
        Some(fpm)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.0.join("fpm.sock")
    }

    /// Its documents.
    pub fn root(&self) -> PathBuf {
        self.folder.0.join("www")
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Its master ends its children.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
