//! Who supervises the process (`supervised`), and what it is told: systemd by its notification protocol, upstart by a stop.

use std::{io, sync::mpsc, thread, time::Duration};

use commands::config::{LogLevel, Supervised};
use rustix::process::{Signal, getpid, kill_process};
use supervise::Notifier;

use crate::messages;

/// While starting or ending takes, systemd is asked to wait for so long more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked.
const PATIENCE_STEP: Duration = Duration::from_secs(10);

/// Who supervises the process.
#[derive(Debug, Clone, Default)]
pub enum Supervisor {
    /// Nobody does.
    #[default]
    None,
    /// systemd, which waits for words on its socket.
    Systemd(Notifier),
    /// upstart, which waits until the process stops itself.
    Upstart,
}

/// What is to be told of it in the log.
pub type Message = (LogLevel, &'static str);

impl Supervisor {
    /// As the setting and the environment say, with what there is to tell.
    pub fn find(supervised: Supervised) -> (Self, Option<Message>) {
        let notifier = Notifier::from_environment();
        let has_upstart = std::env::var_os("UPSTART_JOB").is_some();
        match (supervised, has_upstart, notifier.has_listener()) {
            (Supervised::No, ..) | (Supervised::Auto, false, false) => (Self::None, None),
            (Supervised::Auto | Supervised::Upstart, true, _) => {
                (Self::Upstart, Some((LogLevel::Notice, "supervised by upstart, will stop to signal readiness.")))
            }
            (Supervised::Upstart, false, _) => {
                let text = "upstart supervision requested, but UPSTART_JOB not found! Nobody is told when the store is ready; \
                            `supervised no` says that nobody is to be";
                (Self::None, Some((LogLevel::Warning, text)))
            }
            (Supervised::Auto | Supervised::Systemd, _, true) => {
                let text = "Supervised by systemd. It is asked for more time as long as starting or ending takes.";
                (Self::Systemd(notifier), Some((LogLevel::Notice, text)))
            }
            (Supervised::Systemd, _, false) => {
                let text = "systemd supervision error: NOTIFY_SOCKET not found! Nobody is told when the store is ready: the unit \
                            needs Type=notify, or the setting `supervised no`";
                (Self::None, Some((LogLevel::Warning, text)))
            }
        }
    }

    /// Its name in `INFO`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "no",
            Self::Systemd(_) => "systemd",
            Self::Upstart => "upstart",
        }
    }

    /// Whether there is one: such a process stays in the foreground.
    pub fn is_there(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The store serves.
    pub fn ready(&self) {
        match self {
            Self::None => {}
            Self::Systemd(notifier) => report(notifier.ready("Ready to accept connections")),
            Self::Upstart => {
                if let Err(error) = kill_process(getpid(), Signal::STOP) {
                    messages::warn(&format!("the store cannot stop itself to tell upstart that it serves: {error}"));
                }
            }
        }
    }

    /// The store ends.
    pub fn stopping(&self, status: &str) {
        if let Self::Systemd(notifier) = self {
            report(notifier.stopping(status));
        }
    }

    /// Something that takes begins. As long as what this returns is there, systemd does not lose its patience.
    pub fn patience(&self, status: &str) -> Patience {
        let Self::Systemd(notifier) = self else { return Patience { _end: None } };
        report(notifier.status(status));
        let (end, ended) = mpsc::channel::<()>();
        let notifier = notifier.clone();
        let ask = move || {
            report(notifier.extend_timeout(PATIENCE));
            while ended.recv_timeout(PATIENCE_STEP) == Err(mpsc::RecvTimeoutError::Timeout) {
                report(notifier.extend_timeout(PATIENCE));
            }
        };
        if let Err(error) = thread::Builder::new().name("store-patience".into()).spawn(ask) {
            messages::warn(&format!("systemd cannot be asked for more time: {error}"));
        }
        Patience { _end: Some(end) }
    }
}

/// As long as it is there, the service manager is asked to wait.
#[derive(Debug)]
pub struct Patience {
    _end: Option<mpsc::Sender<()>>,
}

fn report(sent: io::Result<()>) {
    if let Err(error) = sent {
        messages::warn(&format!("systemd supervision error: NOTIFY_SOCKET cannot be written: {error}"));
    }
}
