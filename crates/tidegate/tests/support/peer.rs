//! Real web servers from Debian's packages.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Folder, free_address, listens, wait_until};

/// A web server in a process of its own; its page `/` says its name.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    child: Child,
    folder: Folder,
}

/// NGINX; `None` when it is not installed.
pub fn nginx(name: &str) -> Option<Peer> {
    nginx_at(free_address(), name)
}

pub fn nginx_at(address: SocketAddr, name: &str) -> Option<Peer> {
    nginx_with(address, name, &format!("location = /name {{ return 200 {name}; }}"))
}

/// One whose server has these lines too.
pub fn nginx_with(address: SocketAddr, name: &str, lines: &str) -> Option<Peer> {
    let program = "/usr/sbin/nginx";
    if !Path::new(program).exists() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let folder = Folder::new();
    let root = folder.0.display().to_string();
    folder.file("index.html", name);
    let config = folder.file(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
user root;
events {{ worker_connections 256; }}
http {{
  access_log {root}/access.log; client_body_temp_path {root}; client_max_body_size 64m;
  proxy_temp_path {root}; fastcgi_temp_path {root}; uwsgi_temp_path {root}; scgi_temp_path {root};
  server {{ listen {address}; root {root}; {lines} }}
}}
"
        ),
    );
    let child = Command::new(program)
        .args(["-e".as_ref(), folder.0.join("error.log").as_os_str(), "-c".as_ref(), config.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(Peer::up(address, child, folder))
}

/// Python's web server; `None` when it is not installed.
pub fn python(name: &str) -> Option<Peer> {
    let program = "/usr/bin/python3";
    if !Path::new(program).exists() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let folder = Folder::new();
    folder.file("index.html", name);
    let address = free_address();
    let child = Command::new(program)
        .args(["-m", "http.server", "--bind", &address.ip().to_string(), &address.port().to_string()])
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(Peer::up(address, child, folder))
}

impl Peer {
    fn up(address: SocketAddr, child: Child, folder: Folder) -> Self {
        let peer = Self { address, child, folder };
        wait_until("the web server listens", || listens(address));
        peer
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Where its files are, `access.log` among them.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    pub fn file(&self, name: &str, content: &[u8]) {
        self.folder.file(name, content);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
