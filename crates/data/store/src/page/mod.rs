//! The store's page: what it does and how it is, by HTTP, for people and for Prometheus.
//!
//! Threads of its own speak HTTP ([`http`]). What they need to know they ask of the loop, which answers between two turns as it would
//! answer a client, and with the same rules of who may know it; it is woken for that, and writes down some counters each second for
//! the charts. A page that nobody looks at costs that second's sample, 100 bytes, kept for an hour.

mod assets;
mod http;
mod live;
mod metrics;
mod requests;
mod samples;

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use commands::{Server, config::Settings};
use keyspace::Millis;
use mio::Waker;

use crate::StoreError;

use requests::Questions;
use samples::Sample;

/// The page of a store, as its loop has it.
pub struct Page {
    questions: Arc<Questions>,
    address: SocketAddr,
    /// When counters are written down next.
    next_sample: Millis,
}

impl Page {
    /// Begins to serve it, if there is to be one.
    ///
    /// # Errors
    ///
    /// Its address cannot be listened on.
    pub fn start(settings: &Settings, waker: &Arc<Waker>) -> Result<Option<Self>, StoreError> {
        let wanted = &settings.page_address.0;
        if wanted.is_empty() {
            return Ok(None);
        }
        let failed = |source| StoreError::ListenPage { address: wanted.clone(), source };
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let folder = Some(&settings.dir.0).filter(|dir| !dir.is_empty());
        let folder = folder.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| PathBuf::from(dir)));
        let questions = Arc::new(Questions::new(Arc::clone(waker)));
        http::start(listener, http::Site::new(Arc::clone(&questions), folder)).map_err(StoreError::Loop)?;
        Ok(Some(Self { questions, address, next_sample: 0 }))
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers who looks, and writes counters down each second. `used` is the memory that is allocated.
    pub fn turn(&mut self, server: &mut Server, now: Millis, used: u64) {
        if now >= self.next_sample || self.next_sample > now + samples::STEP_MS {
            self.next_sample = now - now.rem_euclid(samples::STEP_MS) + samples::STEP_MS;
            self.questions.note(Sample::of(server, now, used));
        }
        if self.is_asked() {
            server.set_now(now);
            self.questions.answer(server);
        }
    }

    /// Whether somebody waits for an answer.
    pub fn is_asked(&self) -> bool {
        self.questions.is_asked()
    }
}
