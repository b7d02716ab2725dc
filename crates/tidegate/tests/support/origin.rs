//! Scripted servers.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use super::{Wire, free_address, wait_until, wire::Answer};

/// A server whose connections are played by a closure, each in a thread of its own.
#[derive(Debug)]
pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
pub struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

impl Origin {
    /// Plays every connection; the closure gets the number of the connection, from 0.
    pub fn start(play: impl Fn(Wire, usize) + Send + Sync + 'static) -> Self {
        Self::start_at(free_address(), play)
    }

    pub fn start_at(address: SocketAddr, play: impl Fn(Wire, usize) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        Self::accept(address, Arc::clone(&shared), play);
        Self { address, shared }
    }

    /// Answers every request by a closure, keeping connections alive until the client closes or the answer says `close`.
    pub fn answering(answer: impl Fn(&Answer) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::answering_at(free_address(), answer)
    }

    pub fn answering_at(address: SocketAddr, answer: impl Fn(&Answer) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        Self::accept(address, Arc::clone(&shared), move |mut wire, _| {
            while let Some(request) = wire.request() {
                seen.heads.lock().unwrap().push(request.head.clone());
                let bytes = answer(&request);
                let closes = bytes.windows(17).take(600).any(|window| window == b"connection: close");
                if !wire.try_send(bytes) || closes {
                    break;
                }
            }
        });
        Self { address, shared }
    }

    /// Answers 200 with its name as body.
    pub fn named(name: &'static str) -> Self {
        Self::answering(move |_| ok(name))
    }

    pub fn named_at(address: SocketAddr, name: &'static str) -> Self {
        Self::answering_at(address, move |_| ok(name))
    }

    fn accept(address: SocketAddr, shared: Arc<Shared>, play: impl Fn(Wire, usize) + Send + Sync + 'static) {
        // A process that another test is just starting may hold the socket of an origin before this one for a moment.
        let mut bound = None;
        wait_until(&format!("{address} is free"), || {
            bound = TcpListener::bind(address)
                .map_err(|error| assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}"))
                .ok();
            bound.is_some()
        });
        let listener = bound.unwrap();
        listener.set_nonblocking(true).unwrap();
        let play = Arc::new(play);
        thread::spawn(move || {
            while !shared.stop.load(SeqCst) {
                let Ok((stream, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                let number = shared.connections.fetch_add(1, SeqCst);
                let play = Arc::clone(&play);
                thread::spawn(move || {
                    let wire = Wire::new(stream);
                    // An idle connection may wait as long as it likes.
                    wire.stream.set_read_timeout(None).unwrap();
                    play(wire, number);
                });
            }
        });
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// Heads of the requests received so far.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    pub fn last_head(&self) -> String {
        self.heads().pop().unwrap_or_default()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
    }
}

/// A whole answer.
pub fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
