//! Clients of the management protocol: those that connect (`-T`), those that are connected to (`-M`), and a terminal (`-d`).

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, SystemTime},
};

use varnishcli::{CHALLENGE_BYTES, Session, auth};

use super::{Shared, worker::named};

/// Clients at a time.
const CLIENTS_MAX: usize = 100;
const READ_BYTES: usize = 16 << 10;
/// Between two attempts to reach a client of `-M`.
const REDIAL_TIME: Duration = Duration::from_secs(1);

/// Listens for clients: on all of the addresses that there are.
pub(super) fn listen(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let listeners: Vec<TcpListener> = addresses.iter().filter_map(|address| TcpListener::bind(address).ok()).collect();
    match (listeners.is_empty(), addresses.first()) {
        (true, Some(first)) => TcpListener::bind(first).map(|listener| vec![listener]),
        _ => Ok(listeners),
    }
}

/// The addresses that a word means: `localhost:6082`, `:0`, `127.0.0.1 6082`.
///
/// # Errors
/// Why it means none.
pub fn addresses(word: &str, port: Option<&str>) -> Result<Vec<SocketAddr>, String> {
    let word = word.trim();
    let (host, given) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.trim_start_matches([':', ' '])),
        None => word.rsplit_once([':', ' ']).unwrap_or((word, "")),
    };
    let port = Some(given).filter(|given| !given.is_empty()).or(port);
    let port = port.ok_or_else(|| format!("{word}: there is no port"))?;
    let port: u16 = port.parse().map_err(|_| format!("{word}: '{port}' is no port"))?;
    if host.is_empty() || host == "*" {
        return Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]);
    }
    let found = (host.trim(), port).to_socket_addrs().map_err(|error| format!("{word}: {error}"))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Serves those that connect.
pub(super) fn accept(listener: TcpListener, shared: Shared) -> io::Result<()> {
    let clients = Arc::<AtomicUsize>::default();
    named("cli-listen", move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(REDIAL_TIME);
                continue;
            };
            if clients.fetch_add(1, Relaxed) >= CLIENTS_MAX {
                clients.fetch_sub(1, Relaxed);
                continue;
            }
            let (shared, own) = (shared.clone(), Arc::clone(&clients));
            let started = named("cli", move || {
                // A client that goes away is no news.
                let _ = serve(stream, &shared, true);
                own.fetch_sub(1, Relaxed);
            });
            if started.is_err() {
                clients.fetch_sub(1, Relaxed);
            }
        }
    })
}

/// Connects to a client, again and again.
pub(super) fn call(addresses: Vec<SocketAddr>, shared: Shared) -> io::Result<()> {
    named("cli-call", move || {
        loop {
            if let Ok(stream) = TcpStream::connect(&*addresses) {
                let _ = serve(stream, &shared, true);
            }
            thread::sleep(REDIAL_TIME);
        }
    })
}

/// What is typed comes in, replies go out.
struct Terminal;

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().lock().read(buffer)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Serves a terminal. Returns when nothing more comes.
pub(super) fn terminal(shared: &Shared) {
    let _ = serve(Terminal, shared, false);
}

fn serve(mut stream: impl Read + Write, shared: &Shared, asks_secret: bool) -> io::Result<()> {
    let challenge = match asks_secret && shared.lock().has_secret() {
        true => Some(auth::challenge_of(random()?)),
        false => None,
    };
    let (mut session, greeting) = {
        let mut manager = shared.lock();
        match challenge {
            Some(challenge) => Session::challenged(challenge, &mut *manager),
            None => Session::open(&mut *manager),
        }
    };
    stream.write_all(&greeting)?;
    stream.flush()?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        let output = session.receive(bytes, &mut *shared.lock(), SystemTime::now());
        stream.write_all(&output.bytes)?;
        stream.flush()?;
        if output.closes {
            return Ok(());
        }
    }
}

/// Random bytes for a challenge.
fn random() -> io::Result<[u8; CHALLENGE_BYTES]> {
    let mut bytes = [0; CHALLENGE_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
