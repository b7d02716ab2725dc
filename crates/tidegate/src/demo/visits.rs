//! The visits to all sites together, which the sites count in the store.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The key in the store.
pub const KEY: &str = "visits";
/// How long a page waits for the store.
const WAIT_MAX: Duration = Duration::from_millis(300);

/// A connection to the store, as any Redis client has one.
#[derive(Debug)]
pub struct Visits {
    address: SocketAddr,
    connection: Mutex<Option<BufReader<TcpStream>>>,
}

impl Visits {
    /// Those in the store on a port of this machine.
    pub fn new(port: u16) -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, port).into(), connection: Mutex::new(None) }
    }

    /// Counts one more. Returns how many there are now; nothing if the store does not answer: the page does without.
    pub fn count(&self) -> Option<u64> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that was open when the store ended is of no use, so a second one is tried.
        for _ in 0..2 {
            let reader = match connection.take() {
                Some(reader) => reader,
                None => self.connect().ok()?,
            };
            if let Ok((count, reader)) = increment(reader) {
                *connection = Some(reader);
                return count;
            }
        }
        None
    }

    fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect_timeout(&self.address, WAIT_MAX)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }
}

/// The answer is `:NUMBER`, or `-` and an error.
fn increment(mut reader: BufReader<TcpStream>) -> io::Result<(Option<u64>, BufReader<TcpStream>)> {
    write!(reader.get_mut(), "INCR {KEY}\r\n")?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((line.strip_prefix(':').and_then(|number| number.trim_end().parse().ok()), reader))
}
