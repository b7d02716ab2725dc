//! Debian's redis-server as the other end, or the one that `REDIS_SERVER` names: of another version, or Valkey's.

use std::{
    fs::File,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use super::{Folder, RedisClient, free_address, listens, wait_until};

fn program() -> String {
    std::env::var("REDIS_SERVER").unwrap_or_else(|_| "/usr/bin/redis-server".into())
}

/// A running redis-server.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    pub address: SocketAddr,
    pub folder: Arc<Folder>,
}

impl Redis {
    /// One with a folder of its own.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_at(free_address(), Arc::new(Folder::new()), arguments)
    }

    /// One on a folder that may have data, once it listens.
    #[track_caller]
    pub fn start_at(address: SocketAddr, folder: Arc<Folder>, arguments: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(folder.0.join("redis.log")).unwrap();
        let debug: &[&str] = if Self::is_old() { &[] } else { &["--enable-debug-command", "yes"] };
        let child = Command::new(program())
            .args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()])
            .args(["--dir", &folder.0.display().to_string(), "--save", ""])
            .args(debug)
            .args(["--repl-diskless-sync-delay", "0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        wait_until("redis-server listens", || listens(address));
        Self { child, address, folder }
    }

    /// Whether it is older than Redis 7: it has no functions, and loads no copies of RDB version 10.
    pub fn is_old() -> bool {
        let output = Command::new(program()).arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = text.split("v=").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major < 7)
    }

    #[track_caller]
    pub fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
    }

    /// What it has said.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("redis.log")).unwrap_or_default()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("redis-server on {} said: {}", self.address, self.output());
        }
    }
}
