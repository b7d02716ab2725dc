//! A proxy within another program, which has the clients: it hands requests over, and gets the replies. A thread of its own has the
//! connections to servers.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, Receiver, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use commands::cluster::Topology;
use mio::Waker;
use resp::Protocol;

use super::{
    resolve::ServerAddresses,
    worker::{Shared, Worker},
};
use crate::{
    frame::FrameScanner,
    nutcracker::{PoolConfig, SlotsConfig},
    policy::ReadFrom,
};

/// For how long a request is tried again that no server takes.
const RETRY_FOR: Duration = Duration::from_secs(5);
/// How long a server has for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The caller that messages are sent for. Nobody takes the replies to these.
const PUBLISHER: u64 = u64::MAX;

/// What is asked for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The client, by a number that no other has.
    pub caller: u64,
    /// The number of the question, which comes back with its answer.
    pub number: u64,
    /// What the client speaks.
    pub protocol: Protocol,
    /// One request, or several: the answer is the reply to the last.
    pub requests: Vec<u8>,
    /// How many requests these are.
    pub count: usize,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its number.
    pub number: u64,
    /// The reply.
    pub reply: Vec<u8>,
    /// The client has a connection to a server for itself by now: what it asks next has to come here too.
    pub is_bound: bool,
}

enum Order {
    Ask(Question),
    Leave(u64),
    Publish(Vec<u8>),
    Learn(Box<Topology>),
}

/// The proxy, as the program has it. Its thread ends with it.
pub struct Embedded {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
    waker: Waker,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Embedded {
    /// One that logs in to servers with a password, if there is one, and its user. `notify` is called when answers have come, by its
    /// thread.
    ///
    /// # Errors
    /// The system has no thread or no descriptors.
    pub fn start(
        credentials: Option<(Option<String>, String)>,
        notify: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let slots = SlotsConfig { retry_for: RETRY_FOR, of_one_server: false, read_from: ReadFrom::Master };
        // It does not listen.
        let mut pool = PoolConfig::of_slots("cluster", "127.0.0.1:1", slots).map_err(io::Error::other)?;
        pool.timeout = Some(TIMEOUT);
        (pool.user, pool.redis_auth) = credentials.map_or((None, None), |(user, password)| (user, Some(password)));
        let pools = [pool];
        let shared = Arc::new(Shared::default());
        let places = Arc::new(ServerAddresses::of_pools(&pools));
        let (mut worker, waker) = Worker::new((&pools, usize::MAX), Vec::new(), places, Arc::clone(&shared), 0)?;
        let (orders, taken) = mpsc::channel();
        let (given, answers) = mpsc::channel();
        worker.set_callers(Callers::new(taken, given, Box::new(notify)));
        let thread = std::thread::Builder::new().name("cluster-proxy".into()).spawn(move || {
            // NOTE: an error of epoll itself ends it; whoever asks then hears that it has gone.
            let _ = worker.run();
        })?;
        Ok(Self { orders, answers, waker, shared, thread: Some(thread) })
    }

    /// Asks something. `false` if the thread has gone.
    #[must_use]
    pub fn ask(&self, question: Question) -> bool {
        self.order(Order::Ask(question))
    }

    /// Has all masters but the program itself publish a message: a command. Nobody waits for it.
    pub fn publish(&self, command: Vec<u8>) {
        self.order(Order::Publish(command));
    }

    /// A client has gone, and whatever it waits for.
    pub fn leave(&self, caller: u64) {
        self.order(Order::Leave(caller));
    }

    /// Tells which server has which slots.
    pub fn learn(&self, topology: Topology) {
        self.order(Order::Learn(Box::new(topology)));
    }

    fn order(&self, order: Order) -> bool {
        self.orders.send(order).is_ok() && self.waker.wake().is_ok()
    }

    /// An answer that has come.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client that has no socket.
#[derive(Debug)]
struct Caller {
    id: u64,
    /// Questions without an answer: their numbers, and how many replies are missing of each.
    asked: VecDeque<(u64, usize)>,
    /// Replies that are not taken yet.
    replies: Vec<u8>,
    scanner: FrameScanner,
}

impl Caller {
    fn new(id: u64) -> Self {
        Self { id, asked: VecDeque::new(), replies: Vec::new(), scanner: FrameScanner::default() }
    }

    /// Takes replies, and says which questions they answer.
    fn take(&mut self, bytes: &[u8], mut answered: impl FnMut(u64, Vec<u8>)) {
        self.replies.extend_from_slice(bytes);
        let mut at = 0;
        while let Ok(Some(length)) = self.scanner.scan(self.replies.get(at..).unwrap_or_default()) {
            let reply = self.replies.get(at..at + length).unwrap_or_default();
            at += length;
            let Some((number, missing)) = self.asked.front_mut() else { continue };
            *missing -= 1;
            if *missing == 0 {
                answered(*number, reply.to_vec());
                self.asked.pop_front();
            }
        }
        self.replies.drain(..at);
    }
}

/// The clients of an embedded proxy, as its thread has them.
pub struct Callers {
    orders: Receiver<Order>,
    answers: Sender<Answer>,
    notify: Box<dyn Fn() + Send>,
    /// By the places of the proxy's clients.
    by_place: HashMap<usize, Caller>,
    places: HashMap<u64, usize>,
}

impl Callers {
    fn new(orders: Receiver<Order>, answers: Sender<Answer>, notify: Box<dyn Fn() + Send>) -> Self {
        Self { orders, answers, notify, by_place: HashMap::new(), places: HashMap::new() }
    }
}

impl Worker {
    /// Does what the program has asked for.
    pub(super) fn take_orders(&mut self) {
        loop {
            let Some(callers) = &self.callers else { return };
            match callers.orders.try_recv() {
                Ok(Order::Ask(question)) => self.take_question(&question),
                Ok(Order::Leave(caller)) => self.remove_caller(caller),
                Ok(Order::Publish(command)) => {
                    if let Some(place) = self.place_of(PUBLISHER) {
                        self.proxy.publish_to_others(place, &command);
                    }
                }
                Ok(Order::Learn(topology)) => {
                    self.proxy.set_topology(0, &topology);
                    self.proxy.set_myself(&topology);
                }
                Err(_) => return,
            }
        }
    }

    fn take_question(&mut self, question: &Question) {
        let Some(place) = self.place_of(question.caller) else { return };
        let Some(callers) = &mut self.callers else { return };
        if let Some(caller) = callers.by_place.get_mut(&place) {
            caller.asked.push_back((question.number, question.count.max(1)));
        }
        if let Some(client) = self.proxy.clients.get_mut(place) {
            // Whoever hands it over knows who the client is.
            client.is_authenticated = true;
            if client.own.is_none() {
                client.protocol = question.protocol;
            }
        }
        self.proxy.received(place, &question.requests);
    }

    /// The client that stands for a caller.
    fn place_of(&mut self, caller: u64) -> Option<usize> {
        let callers = self.callers.as_mut()?;
        if let Some(place) = callers.places.get(&caller) {
            return Some(*place);
        }
        let place = self.proxy.add_client(0)?;
        callers.places.insert(caller, place);
        callers.by_place.insert(place, Caller::new(caller));
        Some(place)
    }

    fn remove_caller(&mut self, caller: u64) {
        let Some(callers) = &mut self.callers else { return };
        if let Some(place) = callers.places.remove(&caller) {
            callers.by_place.remove(&place);
            self.proxy.remove_client(place, false);
        }
    }

    /// Gives a client without a socket its replies. `false` if it has one.
    pub(super) fn deliver(&mut self, place: usize) -> bool {
        let Some(callers) = &mut self.callers else { return false };
        let Some(caller) = callers.by_place.get_mut(&place) else { return false };
        let Some(client) = self.proxy.clients.get_mut(place) else { return true };
        let (output, is_bound) = (std::mem::take(&mut client.output), client.own.is_some());
        client.sent = 0;
        let mut has_answered = false;
        let answers = &callers.answers;
        caller.take(&output, |number, reply| {
            has_answered |= answers.send(Answer { number, reply, is_bound }).is_ok();
        });
        if client.is_closing && client.is_settled() {
            for (number, _) in std::mem::take(&mut caller.asked) {
                let reply = b"-ERR the proxy has given the client up\r\n".to_vec();
                has_answered |= answers.send(Answer { number, reply, is_bound: false }).is_ok();
            }
            let id = caller.id;
            if has_answered {
                (callers.notify)();
            }
            self.remove_caller(id);
        } else if has_answered {
            (callers.notify)();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reply_of_a_question_is_its_answer() {
        let mut caller = Caller::new(1);
        caller.asked = [(7, 3), (8, 1)].into();
        let mut answers = Vec::new();
        for piece in [&b"+OK\r\n+QUEUED\r"[..], b"\n*1\r\n:1\r", b"\n$-1\r\n"] {
            caller.take(piece, |number, reply| answers.push((number, String::from_utf8(reply).unwrap())));
        }
        assert_eq!(answers, [(7, "*1\r\n:1\r\n".to_owned()), (8, "$-1\r\n".to_owned())]);
        assert!(caller.replies.is_empty() && caller.asked.is_empty());
    }

    #[test]
    fn questions_without_servers_are_answered_all_the_same() {
        let (told, heard) = mpsc::channel();
        let embedded = Embedded::start(None, move || told.send(()).unwrap_or_default()).unwrap();
        let mut requests = Vec::new();
        resp::encode_command(&mut requests, &["GET", "a"]);
        let question = Question { caller: 1, number: 5, protocol: Protocol::Resp2, requests, count: 1 };
        assert!(embedded.ask(question));
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
        let answer = embedded.answer().unwrap();
        assert_eq!((answer.number, answer.is_bound), (5, false));
        assert!(answer.reply.starts_with(b"-CLUSTERDOWN"), "{}", answer.reply.escape_ascii());
        embedded.leave(1);
    }
}
