//! A line to a server that can be cut: what is sent is passed on with a delay, or kept.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use super::free_address;

/// How often a line that is cut is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A line.
#[derive(Debug)]
pub struct Line {
    /// Where its other end is reached.
    pub address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Line {
    /// One to a server, at once.
    #[track_caller]
    pub fn new(server: SocketAddr) -> Self {
        Self::slow(server, Duration::ZERO)
    }

    /// One that all takes so long on.
    #[track_caller]
    pub fn slow(server: SocketAddr, delay: Duration) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).unwrap();
        let line = Self { address, is_cut: Arc::default(), is_over: Arc::default() };
        let (is_cut, is_over) = (Arc::clone(&line.is_cut), Arc::clone(&line.is_over));
        thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                if is_over.load(Relaxed) {
                    return;
                }
                let Ok(to) = TcpStream::connect(server) else { continue };
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
                for (from, to) in [(from, to), back] {
                    let (is_cut, is_over) = (Arc::clone(&is_cut), Arc::clone(&is_over));
                    thread::spawn(move || pass(from, to, delay, (&is_cut, &is_over)));
                }
            }
        });
        line
    }

    /// Cuts it, or joins it again. Nobody is told: nothing arrives, and nothing is lost.
    pub fn set_connected(&self, is_connected: bool) {
        self.is_cut.store(!is_connected, Relaxed);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes on what comes, until either end has gone.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration, (is_cut, is_over): (&AtomicBool, &AtomicBool)) {
    let mut piece = [0; 64 * 1024];
    while let Ok(len) = from.read(&mut piece) {
        thread::sleep(delay);
        while is_cut.load(Relaxed) && !is_over.load(Relaxed) {
            thread::sleep(LOOK);
        }
        if len == 0 || is_over.load(Relaxed) || to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}
