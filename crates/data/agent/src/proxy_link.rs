//! A thread for each proxy of the host: it asks which orders about Redis servers the proxy has done. Only asked while somebody waits for
//! that.

use std::{
    io,
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use cluster::Address;

use crate::connection::{Connection, Login, command, text};

/// What an answer may take.
const PATIENCE: Duration = Duration::from_millis(400);

/// A proxy's thread, as others see it.
#[derive(Debug)]
pub struct ProxyLink {
    questions: Sender<()>,
}

impl ProxyLink {
    /// Starts a proxy's thread. It ends when this goes. `report` gets the last orders that are done, if there is an answer.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start(
        proxy: Address,
        login: Login,
        report: impl Fn(Option<u64>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, given) = mpsc::channel();
        thread::Builder::new().name(format!("proxy {}", proxy.port())).spawn(move || {
            let mut connection = None;
            while given.recv().is_ok() {
                let done = ask((&proxy, &login), &mut connection);
                if done.is_none() {
                    connection = None;
                }
                if !report(done) {
                    return;
                }
            }
        })?;
        Ok(Self { questions })
    }

    /// Asks.
    pub fn ask(&mut self) {
        // A thread that has ended answers nobody; the next link has another one.
        let _ = self.questions.send(());
    }
}

fn ask((proxy, login): (&Address, &Login), connection: &mut Option<Connection>) -> Option<u64> {
    if connection.is_none() {
        *connection = Connection::open_as(proxy, PATIENCE, login).ok();
    }
    let reply = connection.as_mut()?.ask(&[command(&["INFO", "orders"])]).ok()?.pop()?;
    text(&reply).lines().find_map(|line| line.strip_prefix("orders_done:")?.trim().parse().ok())
}
