//! Runs Debian's haproxy beside ours in tests, to compare what both do with the same peers.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

/// A running haproxy; ends with the value.
pub struct Haproxy {
    child: Child,
    folder: PathBuf,
}

/// Time that a test waits for something that must come, many times what it takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl Haproxy {
    /// Starts haproxy in the foreground with a configuration, in which `%FOLDER%` stands for a folder of its own; `None`, with a
    /// note, when it is not installed.
    pub fn start(configuration: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("tidegate-side-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, configuration.replace("%FOLDER%", folder.to_str().unwrap())).unwrap();
        let started = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match started {
            Ok(child) => Some(Self { child, folder }),
            Err(error) => {
                println!("SKIPPED: haproxy cannot be started: {error}");
                let _ = std::fs::remove_dir_all(&folder);
                None
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of its standard output. Can be taken once.
    pub fn output(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.child.stdout.take().unwrap()).lines().map_while(Result::ok)
    }

    /// The lines of its standard error. Can be taken once.
    pub fn errors(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.child.stderr.take().unwrap()).lines().map_while(Result::ok)
    }

    /// Asks its stats socket `%FOLDER%/stats`, waiting until it is there.
    pub fn ask(&mut self, command: &str) -> String {
        let path = self.folder.join("stats");
        loop {
            if let Ok(mut socket) = UnixStream::connect(&path) {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.write_all(format!("{command}\n").as_bytes()).unwrap();
                let mut answer = String::new();
                socket.read_to_string(&mut answer).unwrap();
                return answer;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                let errors: Vec<_> = self.errors().collect();
                panic!("haproxy ended with {status}: {}", errors.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A UDP socket on loopback that waits for log lines, and its port.
pub fn syslog() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// The next line that a socket gets.
pub fn receive(socket: &UdpSocket) -> String {
    let mut buffer = vec![0; 65_536];
    let count = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// A port on loopback that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
