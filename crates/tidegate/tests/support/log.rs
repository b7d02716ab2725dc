//! A syslog server.

use std::{net::UdpSocket, time::Instant};

use super::{PATIENCE, free_address};

/// Takes what is logged.
#[derive(Debug)]
pub struct LogServer {
    socket: UdpSocket,
    /// For `log <address> local0`.
    pub address: String,
}

impl LogServer {
    pub fn start() -> Self {
        let socket = UdpSocket::bind(free_address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        Self { socket, address }
    }

    /// The next line with its header.
    #[track_caller]
    pub fn raw(&self) -> String {
        let mut bytes = [0; 65536];
        let count = self.socket.recv(&mut bytes).expect("no log line came");
        String::from_utf8_lossy(&bytes[..count]).trim_end().to_owned()
    }

    /// The next line after `haproxy[pid]: `.
    #[track_caller]
    pub fn line(&self) -> String {
        let raw = self.raw();
        raw.split_once("]: ").map_or(raw.clone(), |(_, line)| line.to_owned())
    }

    /// The next line that holds a text.
    #[track_caller]
    pub fn line_with(&self, text: &str) -> String {
        let began = Instant::now();
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
            assert!(began.elapsed() < PATIENCE, "no line with {text:?}; the last: {line}");
        }
    }

    /// All lines that have come.
    pub fn lines_so_far(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).unwrap();
        let mut lines = Vec::new();
        let mut bytes = [0; 65536];
        while let Ok(count) = self.socket.recv(&mut bytes) {
            lines.push(String::from_utf8_lossy(&bytes[..count]).trim_end().to_owned());
        }
        self.socket.set_nonblocking(false).unwrap();
        lines
    }
}
