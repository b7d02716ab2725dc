//! Agents tell each other how they are: a thread for each other agent, which asks it several times a second, and at once when there is
//! news. Requests and promises go this way.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    board::{Board, EXCHANGE, View},
    http::{self, Token},
};

/// How often another agent is asked when nothing happens.
const EACH: Duration = Duration::from_millis(100);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_millis(400);

/// What happens when another agent has said something.
pub type Heard = dyn Fn(View) + Send + Sync;

/// Other agents that are talked to.
pub struct Peers {
    board: Arc<Board>,
    token: Token,
    heard: Arc<Heard>,
    /// Where each is, and what its thread is told by.
    threads: BTreeMap<String, (Arc<Mutex<String>>, Arc<AtomicBool>)>,
}

impl Peers {
    /// None yet.
    #[must_use]
    pub fn new(board: Arc<Board>, token: Token, heard: Arc<Heard>) -> Self {
        Self { board, token, heard, threads: BTreeMap::new() }
    }

    /// Talks to an agent at an address from now on.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn talk_to(&mut self, host: &str, api: &str) -> io::Result<()> {
        if let Some((place, _)) = self.threads.get(host) {
            api.clone_into(&mut place.lock().unwrap_or_else(PoisonError::into_inner));
            return Ok(());
        }
        let (place, stops) = (Arc::new(Mutex::new(api.to_owned())), Arc::new(AtomicBool::new(false)));
        let (own_place, own_stops) = (Arc::clone(&place), Arc::clone(&stops));
        let (board, token, heard) = (Arc::clone(&self.board), self.token.clone(), Arc::clone(&self.heard));
        thread::Builder::new().name("agent".into()).spawn(move || {
            let mut seen = 0;
            while !own_stops.load(Ordering::Relaxed) {
                let api = own_place.lock().unwrap_or_else(PoisonError::into_inner).clone();
                seen = board.wait(seen, EACH);
                let Ok(body) = serde_json::to_value(board.view()) else { continue };
                let answer = http::ask_at(&api, &token, ("POST", EXCHANGE), &body, PATIENCE);
                match answer.ok().and_then(|answer| serde_json::from_value::<View>(answer).ok()) {
                    Some(view) => heard(view),
                    None => thread::sleep(EACH),
                }
            }
        })?;
        self.threads.insert(host.to_owned(), (place, stops));
        Ok(())
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Peers").finish_non_exhaustive()
    }
}
