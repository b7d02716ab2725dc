//! CGI: a program for each request, whose pipes are the source and the sink of the bodies.
//!
//! ```text
//!  Fetch::run ─▶ line_for ─▶ fetch ─▶ thread of programs: finds and starts ─▶ Cgi, a codec as a server's connection has one
//! ```

mod codec;
mod process;

use std::{future::poll_fn, sync::Arc, task::Poll};

use fastcgi::{Facts, Script, Variables, is_hidden};
use haproxycfg::model::Cgi as Line;
use http::{BodyLength, Plus, percent_decode};
use live::{LiveProxy, programs::ProgramPlaces};
use logs::{LogLevel, LogLine};
use net::Deadline;
use sample::Context as _;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub use self::codec::Cgi;
use self::process::{Order, Refusal, Started};
use super::request::{SOFTWARE, uri};
use crate::{
    session::{
        fetch::{HeadEnd, HttpRequester, Unreachable},
        rules::{Phase, applies},
        transaction::Transaction,
    },
    worker::Worker,
};

/// What the log calls a program that answers.
pub const NAME: &str = "<CGI>";

/// Variables that the program's place says.
const OF_PLACE: [&[u8]; 4] = [b"SCRIPT_NAME", b"SCRIPT_FILENAME", b"PATH_INFO", b"PATH_TRANSLATED"];

/// A line whose programs answer a request, and its places.
pub type Chosen<'a> = (&'a Line, &'a Arc<ProgramPlaces>);

/// The line of a backend whose programs answer a request.
#[inline]
pub fn line_for<'a>(transaction: &Transaction, backend: &'a LiveProxy) -> Option<Chosen<'a>> {
    let lines = &backend.settings().cgi;
    if lines.is_empty() {
        return None;
    }
    let path = transaction.request.path();
    let is_meant = |line: &Line| {
        let rest = path.strip_prefix(&*line.prefix);
        let begins = rest.is_some_and(|rest| line.prefix.ends_with(b"/") || matches!(rest.first(), None | Some(b'/')));
        begins && applies(line.condition.as_ref(), transaction, Phase::Request)
    };
    lines.iter().zip(&backend.program_places).find(|(line, _)| is_meant(line))
}

/// Why no program answers.
#[derive(Debug)]
pub enum NoProgram {
    /// The client gets an answer with this status.
    Status(u16),
    /// Whoever waits has left.
    Left(Unreachable),
}

/// Starts the program that answers a request.
pub async fn start(
    worker: &Worker,
    transaction: &Transaction,
    backend: &LiveProxy,
    (line, places): Chosen<'_>,
    (requester, deadline): (&mut impl HttpRequester, &mut Deadline),
) -> Result<Cgi, NoProgram> {
    let mut path = Vec::new();
    let written = transaction.request.path().get(line.prefix.len()..).unwrap_or_default();
    percent_decode(written, Plus::Literal, &mut path).ok_or(NoProgram::Status(400))?;
    let settings = backend.settings();
    let limit = settings.timeouts.queue.or(settings.timeouts.connect);
    deadline.set(limit.map(|limit| worker.now() + limit));
    let place = take_place(places, requester, deadline).await?;
    let (answer, started) = oneshot::channel();
    let order = Order { line: line.clone(), path, variables: variables(transaction, line), place };
    let is_running = backend.process.programs.run(move || {
        tokio::task::spawn_local(process::run(order, answer));
    });
    let refusal = match if is_running { started.await.ok() } else { None } {
        Some(Ok(started)) => return begin(worker, backend, line, started),
        Some(Err(refusal)) => refusal,
        None => Refusal::System(std::io::ErrorKind::Other.into()),
    };
    Err(NoProgram::Status(match refusal {
        Refusal::Missing => 404,
        Refusal::NotExecutable => 403,
        Refusal::System(error) => {
            let path = String::from_utf8_lossy(transaction.request.path()).into_owned();
            complain(worker, backend, &format!("cannot start the program of {path:?}: {error}"));
            500
        }
    }))
}

fn begin(worker: &Worker, backend: &LiveProxy, line: &Line, started: Started) -> Result<Cgi, NoProgram> {
    Cgi::new(started, line.output_bytes_max, (&worker.log, &backend.program_log)).map_err(|error| {
        complain(worker, backend, &format!("cannot speak with a program: {error}"));
        NoProgram::Status(500)
    })
}

fn complain(worker: &Worker, backend: &LiveProxy, text: &str) {
    let line = LogLine::new(LogLevel::Error, text.as_bytes());
    worker.log.send(&backend.program_log, &line, std::time::SystemTime::now());
}

/// A place among the programs that run; 503 if too many wait for one, or none comes free in time.
async fn take_place(
    places: &Arc<ProgramPlaces>,
    requester: &mut impl HttpRequester,
    deadline: &mut Deadline,
) -> Result<OwnedSemaphorePermit, NoProgram> {
    let mut taking = Box::pin(places.take());
    poll_fn(|context| {
        if let Poll::Ready(place) = taking.as_mut().poll(context) {
            return Poll::Ready(place.ok_or(NoProgram::Status(503)));
        }
        if let Poll::Ready(left) = requester.poll_leaving(context) {
            return Poll::Ready(Err(NoProgram::Left(left)));
        }
        deadline.poll(context).map(|()| Err(NoProgram::Status(503)))
    })
    .await
}

/// The variables of a request but for those that say which program it is.
fn variables(transaction: &Transaction, line: &Line) -> Vec<(Vec<u8>, Vec<u8>)> {
    let request = &transaction.request;
    let fields: Vec<(&[u8], &[u8])> = request.headers.iter().filter(|(name, _)| !is_hidden(name)).collect();
    let facts = Facts {
        method: request.method(),
        uri: uri(transaction),
        query: request.query(),
        protocol: request.version_bytes(),
        content_length: match http::request_body_length(request) {
            BodyLength::Exact(length) => Some(length),
            _ => None,
        },
        remote: transaction.source.get(),
        local: transaction.destination(),
        is_secure: transaction.client_tls().is_some(),
        docroot: line.folder.as_os_str().as_encoded_bytes(),
        software: SOFTWARE.as_bytes(),
    };
    let mut found = Vec::new();
    let script = Script::default();
    let fields = fields.iter().copied();
    Variables { facts, script: &script, fields, overrides: &[] }.for_each(|name, value| {
        // A variable of the environment ends at a NUL.
        if !OF_PLACE.contains(&name) && !value.contains(&0) {
            found.push((name.to_vec(), value.to_vec()));
        }
    });
    found
}

impl NoProgram {
    /// As what a fetch comes to.
    pub fn unfetched(self) -> crate::session::fetch::Unfetched {
        match self {
            Self::Status(status) => {
                crate::session::fetch::Unfetched::NoResponse { end: HeadEnd::Refused(status), reused: false }
            }
            Self::Left(left) => crate::session::fetch::Unfetched::Unreachable(left),
        }
    }
}
