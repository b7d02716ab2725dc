//! Name servers: dnsmasq, and one that says what a test wants it to.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use super::{free_address, wait_until};

/// Debian's dnsmasq with records of the domain `test`, over UDP and TCP.
#[derive(Debug)]
pub struct NameServer {
    pub address: SocketAddr,
    child: Option<Child>,
}

impl NameServer {
    /// One that has these records, as dnsmasq's options write them: `host-record=a.test,127.0.0.1`. `None` when dnsmasq is
    /// not installed.
    pub fn start(records: &[&str]) -> Option<Self> {
        let program = Path::new("/usr/sbin/dnsmasq");
        if !program.exists() {
            eprintln!("skipped: {} is not installed", program.display());
            return None;
        }
        let mut server = Self { address: free_address(), child: None };
        server.serve(records);
        Some(server)
    }

    /// Has other records from now on.
    pub fn serve(&mut self, records: &[&str]) {
        self.stop();
        let child = Command::new("/usr/sbin/dnsmasq")
            .args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file="])
            .args(["--bind-interfaces", "--local=/test/", "--local-ttl=0", "--user="])
            .arg(format!("--listen-address={}", self.address.ip()))
            .arg(format!("--port={}", self.address.port()))
            .args(records.iter().map(|record| format!("--{record}")))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let socket = UdpSocket::bind((self.address.ip(), 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        wait_until("dnsmasq answers", || {
            let _ = socket.send_to(b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01x\x04test\0\0\x01\0\x01", self.address);
            socket.recv(&mut [0; 512]).is_ok()
        });
    }

    /// Answers nothing any more.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A name server that answers every question by a closure, with nothing or with several messages, by UDP and by TCP.
#[derive(Debug)]
pub struct Oracle {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Oracle {
    pub fn start(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let socket = UdpSocket::bind(free_address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let oracle = Self { address: socket.local_addr().unwrap(), stop: Arc::default() };
        let listener = TcpListener::bind(oracle.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, answers) = (Arc::clone(&oracle.stop), Arc::new(answers));
        thread::spawn(move || {
            let mut question = [0; 2048];
            while !stop.load(SeqCst) {
                while let Ok((connection, _)) = listener.accept() {
                    let answers = Arc::clone(&answers);
                    thread::spawn(move || answer_by_tcp(connection, &*answers));
                }
                let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                for answer in answers(&question[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        oracle
    }
}

/// Answers what comes on a connection, each message behind its length, until the client has gone.
fn answer_by_tcp(mut connection: TcpStream, answers: &dyn Fn(&[u8]) -> Vec<Vec<u8>>) {
    connection.set_nonblocking(false).unwrap();
    let mut length = [0; 2];
    while connection.read_exact(&mut length).is_ok() {
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        if connection.read_exact(&mut question).is_err() {
            return;
        }
        for answer in answers(&question) {
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            if connection.write_all(&[&length, &answer[..]].concat()).is_err() {
                return;
            }
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

/// An answer to a question: its id, these flags, its name, and records of the question's type with these owners and data.
pub fn answer(question: &[u8], flags: u16, records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let kind = &question[name_end..name_end + 2];
    let mut out = question[..2].to_vec();
    out.extend(flags.to_be_bytes());
    out.extend([0, 1, 0, u8::try_from(records.len()).unwrap(), 0, 0, 0, 0]);
    out.extend(&question[12..name_end + 4]);
    for (owner, data) in records {
        out.extend(*owner);
        out.extend(kind);
        out.extend([0, 1, 0, 0, 0, 1]);
        out.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        out.extend(*data);
    }
    out
}
