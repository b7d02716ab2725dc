//! An application that speaks FastCGI and takes several requests on a connection, each on a thread of its own.

use std::{
    collections::{HashMap, HashSet},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use super::{free_address, wait_until};

/// How it answers to GET_VALUES.
#[derive(Clone, Debug)]
pub enum OnQuestion {
    /// With these pairs.
    Says(Vec<(&'static str, &'static str)>),
    /// With these pairs, and then it closes, as PHP-FPM does.
    SaysAndCloses(Vec<(&'static str, &'static str)>),
    /// It closes.
    Closes,
    /// Not at all.
    Silent,
}

#[derive(Debug)]
struct State {
    question: OnQuestion,
    /// One of several requests on a connection is ended with CANT_MPX_CONN.
    is_single: bool,
    connections: AtomicUsize,
    /// Connections that requests have come on.
    used: Mutex<HashSet<usize>>,
    /// Requests on one connection at the same time, at most.
    together_max: AtomicUsize,
    aborted: AtomicUsize,
    questions: AtomicUsize,
    waiting: AtomicUsize,
    bytes: AtomicUsize,
    released: Mutex<HashSet<String>>,
    wakes: Condvar,
}

/// An application.
#[derive(Debug)]
pub struct FastCgiApp {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct Request {
    params: Vec<u8>,
    stdin: Vec<u8>,
}

impl FastCgiApp {
    pub fn start(question: OnQuestion) -> Self {
        Self::start_with(question, false)
    }

    pub fn start_with(question: OnQuestion, is_single: bool) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).unwrap();
        let state = Arc::new(State {
            question,
            is_single,
            connections: AtomicUsize::new(0),
            used: Mutex::default(),
            together_max: AtomicUsize::new(0),
            aborted: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            released: Mutex::default(),
            wakes: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, number) = (Arc::clone(&shared), shared.connections.fetch_add(1, SeqCst));
                thread::spawn(move || serve(&state, number, stream));
            }
        });
        Self { address, state }
    }

    /// Connections that requests have come on.
    pub fn connections_used(&self) -> usize {
        self.state.used.lock().unwrap().len()
    }

    /// How many requests were on one connection at the same time, since this was asked last.
    pub fn together_max(&self) -> usize {
        self.state.together_max.swap(0, SeqCst)
    }

    /// Requests that were aborted.
    pub fn aborted(&self) -> usize {
        self.state.aborted.load(SeqCst)
    }

    /// How often it was asked for its values.
    pub fn questions(&self) -> usize {
        self.state.questions.load(SeqCst)
    }

    /// Requests that wait to be released.
    pub fn waiting(&self) -> usize {
        self.state.waiting.load(SeqCst)
    }

    /// Waits until it has written something and cannot write more.
    pub fn wait_stuck(&self) {
        let (mut before, mut times) = (0, 0);
        wait_until("nothing more is read", || {
            let now = self.state.bytes.load(SeqCst);
            times = if now == before && now > 0 { times + 1 } else { 0 };
            before = now;
            times > 20
        });
    }

    /// Has `/wait/NAME` go on, once.
    pub fn release(&self, name: &str) {
        self.state.released.lock().unwrap().insert(name.to_owned());
        self.state.wakes.notify_all();
    }
}

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let mut out = vec![1, kind];
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(content);
    out
}

fn end(id: u16, status: u8) -> Vec<u8> {
    record(3, id, &[0, 0, 0, 0, status, 0, 0, 0])
}

fn param(params: &[u8], wanted: &str) -> Option<String> {
    let length = |at: &mut usize| {
        let first = usize::from(params[*at]);
        *at += 1;
        if first < 128 {
            return first;
        }
        let rest = [params[*at - 1] & 0x7f, params[*at], params[*at + 1], params[*at + 2]];
        *at += 3;
        u32::from_be_bytes(rest) as usize
    };
    let mut at = 0;
    while at < params.len() {
        let (name, value) = (length(&mut at), length(&mut at));
        let found = &params[at..at + name];
        let text = &params[at + name..at + name + value];
        if found == wanted.as_bytes() {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        at += name + value;
    }
    None
}

fn serve(state: &Arc<State>, number: usize, mut stream: TcpStream) {
    let out = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    let running = Arc::new(AtomicUsize::new(0));
    let mut requests: HashMap<u16, Request> = HashMap::new();
    let mut head = [0; 8];
    while stream.read_exact(&mut head).is_ok() {
        let id = u16::from_be_bytes([head[2], head[3]]);
        let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
        let mut padding = vec![0; usize::from(head[6])];
        if stream.read_exact(&mut content).is_err() || stream.read_exact(&mut padding).is_err() {
            return;
        }
        match head[1] {
            9 => {
                state.questions.fetch_add(1, SeqCst);
                let (pairs, closes) = match &state.question {
                    OnQuestion::Says(pairs) => (pairs.clone(), false),
                    OnQuestion::SaysAndCloses(pairs) => (pairs.clone(), true),
                    OnQuestion::Closes => return,
                    OnQuestion::Silent => continue,
                };
                let mut text = Vec::new();
                for (name, value) in pairs {
                    text.extend([name.len() as u8, value.len() as u8]);
                    text.extend_from_slice(name.as_bytes());
                    text.extend_from_slice(value.as_bytes());
                }
                out.lock().unwrap().write_all(&record(10, 0, &text)).unwrap();
                if closes {
                    return;
                }
            }
            1 => {
                state.used.lock().unwrap().insert(number);
                if state.is_single && running.load(SeqCst) + requests.len() > 0 {
                    out.lock().unwrap().write_all(&end(id, 1)).unwrap();
                    continue;
                }
                requests.insert(id, Request { params: Vec::new(), stdin: Vec::new() });
                state.together_max.fetch_max(running.load(SeqCst) + requests.len(), SeqCst);
            }
            2 => {
                state.aborted.fetch_add(1, SeqCst);
                if requests.remove(&id).is_some() {
                    out.lock().unwrap().write_all(&end(id, 0)).unwrap();
                }
            }
            4 => {
                if let Some(request) = requests.get_mut(&id) {
                    request.params.extend(content);
                }
            }
            5 if content.is_empty() => {
                let Some(request) = requests.remove(&id) else { continue };
                let (state, out, running) = (Arc::clone(state), Arc::clone(&out), Arc::clone(&running));
                running.fetch_add(1, SeqCst);
                thread::spawn(move || {
                    answer(&state, number, id, &request, &out);
                    running.fetch_sub(1, SeqCst);
                });
            }
            5 => {
                if let Some(request) = requests.get_mut(&id) {
                    request.stdin.extend(content);
                }
            }
            _ => {}
        }
    }
}

fn answer(state: &State, number: usize, id: u16, request: &Request, out: &Mutex<TcpStream>) {
    let uri = param(&request.params, "REQUEST_URI").unwrap_or_default();
    let say =
        |bytes: &[u8]| bytes.chunks(8_000).all(|piece| out.lock().unwrap().write_all(&record(6, id, piece)).is_ok());
    if let Some(name) = uri.strip_prefix("/wait/") {
        state.waiting.fetch_add(1, SeqCst);
        let mut released = state.released.lock().unwrap();
        while !released.remove(name) {
            released = state.wakes.wait(released).unwrap();
        }
        state.waiting.fetch_sub(1, SeqCst);
    }
    say(b"Content-Type: text/plain\r\n\r\n");
    if let Some(count) = uri.strip_prefix("/big/") {
        let piece = vec![b'x'; 8_000];
        let mut left: usize = count.parse().unwrap();
        while left > 0 {
            let most = left.min(piece.len());
            if !say(&piece[..most]) {
                return;
            }
            state.bytes.fetch_add(most, SeqCst);
            left -= most;
        }
    } else {
        say(format!("{uri} on {number} with {}", request.stdin.len()).as_bytes());
    }
    let mut last = record(7, id, b"");
    last.extend(record(6, id, b""));
    last.extend(end(id, 0));
    let _ = out.lock().unwrap().write_all(&last);
}
