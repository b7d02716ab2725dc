//! A master that sends what a test writes into its log, byte by byte: as servers do that are not at hand, or that mean no good.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use resp::{Limits, Progress, RequestParser};

use super::free_address;

/// The history that it tells.
pub const HISTORY: &str = "00112233445566778899aabbccddeeff00112233";

#[derive(Debug, Default)]
struct Log {
    /// The offset of its first byte: what the first replica has when it comes.
    first: Option<u64>,
    bytes: Vec<u8>,
}

type Shared = Arc<(Mutex<Log>, Condvar)>;

/// Such a master. Each replica is given the log from where it is.
#[derive(Debug)]
pub struct ScriptedMaster {
    pub address: SocketAddr,
    log: Shared,
}

impl ScriptedMaster {
    pub fn start() -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).unwrap();
        let log = Shared::default();
        let own = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let log = Arc::clone(&own);
                thread::spawn(move || serve(stream, &log));
            }
        });
        Self { address, log }
    }

    /// Commands that are in the log from now on.
    pub fn append(&self, commands: &[&[&[u8]]]) {
        let mut log = self.log.0.lock().unwrap();
        commands.iter().for_each(|words| resp::encode_command(&mut log.bytes, words));
        self.log.1.notify_all();
    }

    /// The offset at which the log ends; nothing before the first replica has come.
    pub fn end(&self) -> Option<u64> {
        let log = self.log.0.lock().unwrap();
        log.first.map(|first| first + log.bytes.len() as u64)
    }
}

fn serve(mut stream: TcpStream, log: &Shared) {
    let (mut parser, mut buffer, mut room) = (RequestParser::new(), Vec::new(), [0; 4096]);
    loop {
        let Ok(len @ 1..) = stream.read(&mut room) else { return };
        buffer.extend_from_slice(&room[..len]);
        while let Ok(Progress::Complete { consumed }) = parser.parse(&buffer, &Limits::default()) {
            let words: Vec<Vec<u8>> = parser.arguments(&buffer).iter().map(<[u8]>::to_vec).collect();
            buffer.drain(..consumed);
            match words[0].to_ascii_uppercase().as_slice() {
                b"PSYNC" => {
                    let asked = String::from_utf8(words[2].clone()).unwrap().parse::<u64>().unwrap() - 1;
                    let sender = stream.try_clone().unwrap();
                    let log = Arc::clone(log);
                    thread::spawn(move || send(sender, &log, asked));
                }
                b"REPLCONF" if words[1].eq_ignore_ascii_case(b"ACK") => {}
                b"PING" => stream.write_all(b"+PONG\r\n").unwrap(),
                _ => stream.write_all(b"+OK\r\n").unwrap(),
            }
        }
    }
}

fn send(mut stream: TcpStream, (log, has_grown): &(Mutex<Log>, Condvar), asked: u64) {
    let mut at = asked;
    if stream.write_all(format!("+CONTINUE {HISTORY}\r\n").as_bytes()).is_err() {
        return;
    }
    let mut log = log.lock().unwrap();
    loop {
        let first = *log.first.get_or_insert(asked);
        let rest = log.bytes[usize::try_from(at - first).unwrap()..].to_vec();
        if stream.write_all(&rest).is_err() {
            return;
        }
        at += rest.len() as u64;
        log = has_grown.wait(log).unwrap();
    }
}
