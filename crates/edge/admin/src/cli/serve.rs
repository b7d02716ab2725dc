//! A connection to the stats socket: reads commands, writes answers, knows when it is over.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use haproxycfg::model::{CliLevel, SeverityOutput};

use super::{
    line::{Input, Splitter},
    reply::Reply,
    session::{Context, Session},
    sessions::{self, SessionView},
    tables::Dump,
};

/// Time to the next command when `stats timeout` says nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read at a time.
const READ_LEN: usize = 4_096;

/// Where a conversation takes place.
pub trait Host {
    /// Gives commands what they work with, at the moment.
    fn with_context<R>(&self, work: impl FnOnce(&Context<'_>) -> R) -> R;

    /// Every session of every worker.
    fn sessions(&self) -> impl Future<Output = Vec<SessionView>>;

    /// What the process has open, or what a number stands for.
    fn descriptors(&self, which: Option<i32>) -> impl Future<Output = String>;

    /// Ends a session; whether there was one of that number.
    fn shut_session(&self, id: u64) -> impl Future<Output = bool>;

    /// Ready once every worker has done what commands told it.
    fn settled(&self) -> impl Future<Output = ()>;

    /// Ready once the process is about to end, and with it every conversation in which nothing is being answered.
    fn ending(&self) -> impl Future<Output = ()>;
}

/// How a conversation begins.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Who it is with.
    pub level: CliLevel,
    /// How the importance of answers is shown.
    pub severity: SeverityOutput,
    /// Time to the next command; also how long a client may take to read an answer.
    pub timeout: Option<Duration>,
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is over.
    Closed,
    /// The other side wants the listening sockets on this connection (`_getsocks`).
    SendSockets,
}

/// Talks until one side has had enough. Without a prompt that is when every command that came has been answered, as in
/// HAProxy: so a client may wait for the end of the answer by waiting for the end of the connection.
///
/// # Errors
/// The connection's, and that nothing came for too long.
pub async fn serve<S>(stream: &mut S, host: &impl Host, options: Options) -> io::Result<End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session::new(options.level, options.severity);
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; READ_LEN];
    loop {
        let time = session.timeout().or(options.timeout).unwrap_or(TIMEOUT);
        let mut said = false;
        loop {
            let answer = match splitter.next() {
                Input::Incomplete => break,
                Input::TooLong => return Ok(End::Closed),
                Input::Payload => String::new(),
                Input::Command(line) => {
                    let reply = host.with_context(|context| session.answer(context, &line));
                    match reply {
                        Reply::Quit => return Ok(End::Closed),
                        Reply::SendSockets => return Ok(End::SendSockets),
                        Reply::ShowSessions(which) => {
                            let sessions = host.sessions().await;
                            host.with_context(|context| sessions::render(&sessions, which, context))
                        }
                        Reply::Entries(entries) => {
                            let dump = host.with_context(|context| Dump::begin(entries, context));
                            if let Some(mut dump) = dump {
                                // NOTE: a table may be large: no more of the answer is made than the other side takes.
                                while let Some(part) = host.with_context(|context| dump.part(context)) {
                                    timeout(time, stream.write_all(part.as_bytes())).await??;
                                }
                            }
                            String::new()
                        }
                        Reply::Events(events) => {
                            tokio::select! {
                                written = events.write_to(stream) => written?,
                                () = host.ending() => return Ok(End::Closed),
                            }
                            String::new()
                        }
                        Reply::Steered => {
                            host.settled().await;
                            String::new()
                        }
                        Reply::ShowDescriptors(which) => host.descriptors(which).await,
                        Reply::ShutSession(id) if host.shut_session(id).await => String::new(),
                        Reply::ShutSession(_) => session.render(&Reply::error("No such session (use 'show sess').")),
                        other => session.render(&other),
                    }
                }
            };
            said = true;
            let prompt = session.prompt_text(splitter.in_payload());
            let answer = answer + prompt;
            timeout(time, stream.write_all(answer.as_bytes())).await??;
        }
        timeout(time, stream.flush()).await??;
        if said && !session.interactive() && !splitter.in_payload() && !splitter.has_rest() {
            return Ok(End::Closed);
        }
        let count = tokio::select! {
            biased;
            count = timeout(time, stream.read(&mut buffer)) => count??,
            () = host.ending() => return Ok(End::Closed),
        };
        if count == 0 {
            return Ok(End::Closed);
        }
        splitter.feed(buffer.get(..count).unwrap_or_default());
    }
}
