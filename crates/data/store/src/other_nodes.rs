//! Commands that other nodes of the cluster run for this node's clients (`cluster-proxy`): a proxy on a thread of its own asks them.

use std::{io, sync::Arc};

use commands::{SessionId, cluster::Membership, config::Settings, server::Forward};
use kvproxy::serve::{Answer, Embedded, Question};
use mio::Waker;

/// The proxy, and what it knows.
#[derive(Debug)]
pub struct OtherNodes {
    proxy: Embedded,
    /// The change of the cluster that it was told last.
    epoch: Option<u64>,
}

impl OtherNodes {
    /// One that wakes the loop when there are answers.
    ///
    /// # Errors
    ///
    /// The system has no thread or no descriptors.
    pub fn start(settings: &Settings, waker: Arc<Waker>) -> io::Result<Self> {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let credentials = said(&settings.masterauth.0).map(|password| (said(&settings.masteruser.0), password));
        let proxy = Embedded::start(credentials, move || drop(waker.wake()))?;
        Ok(Self { proxy, epoch: None })
    }

    /// Tells the proxy how the cluster is, if it does not know.
    pub fn learn(&mut self, membership: Option<&Membership>) {
        let Some(membership) = membership.filter(|membership| self.epoch != Some(membership.epoch)) else { return };
        if let Some(topology) = &membership.topology {
            self.epoch = Some(membership.epoch);
            self.proxy.learn(topology.clone());
        }
    }

    /// Has a command run for a session. `false` if the proxy has gone.
    #[must_use]
    pub fn ask(&self, forward: Forward) -> bool {
        self.proxy.ask(Question {
            caller: number_of(forward.session),
            number: forward.number,
            protocol: forward.protocol,
            requests: forward.commands,
            count: forward.answers,
        })
    }

    /// Has the other masters publish a message.
    pub fn publish(&self, command: Vec<u8>) {
        self.proxy.publish(command);
    }

    /// A session asks nothing any more.
    pub fn leave(&self, session: SessionId) {
        self.proxy.leave(number_of(session));
    }

    /// An answer that has come.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        self.proxy.answer()
    }
}

fn number_of(session: SessionId) -> u64 {
    session.0
}
