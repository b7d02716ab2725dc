//! One check from its connection to its report: the steps of a configuration, of a protocol that HAProxy knows, of an
//! agent's question or of a mail, all run by the same engine.

use std::{cell::RefCell, io, time::Duration};

use balance::{AgentReport, CheckReport, CheckStatus, OperationalState, ServerId, agent::AgentLine};
use haproxycfg::model::{
    CheckAction, CheckConnect, CheckExpect, CheckExpectation, CheckMessage, CheckProtocol, CheckSend, CheckStep,
    ServerProtocol,
};
use http::Method;
use live::{LiveProxy, LiveServer, variables};
use sample::{Context as _, Value, VariableName};
use tokio::time::{Instant, timeout_at};

use super::{
    connect::{self, connect, negotiate},
    connection::Connection,
    context::{CheckContext, OPTIONS},
    expect::{self, status_named},
    expect_tcp, external,
    request::{self, RequestStep},
    response::Received,
    subject::Subject,
    words,
};

/// Bytes read at a time.
const READ_BYTES: usize = 4 * 1024;
/// Reads in a row before what came is looked at.
const READS_MAX: usize = 4;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// What was to be told before the end: HAProxy's checks of MySQL, LDAP and SPOP take in their success twice, first
    /// with words and then without, and each counts.
    pub(crate) progress: Option<CheckReport>,
    /// What it came to.
    pub(crate) report: CheckReport,
}

/// Checks a server once.
pub(super) async fn health(proxy: &LiveProxy, server: &LiveServer) -> Ended {
    if let Some(check) = &proxy.settings().check.external {
        return Ended { progress: None, report: external::run(proxy, server, check).await };
    }
    match run(Subject::health(proxy, server)).await {
        Outcome::Ended(ended) => ended,
        Outcome::Agent(_) => Ended { progress: None, report: lost() },
    }
}

/// Asks a server's agent once.
pub(super) async fn agent(proxy: &LiveProxy, server: &LiveServer) -> AgentReport {
    let step = |number, action| CheckStep { action, comment: None, number };
    let connect = CheckConnect { default: true, implicit: true, ..CheckConnect::default() };
    let mut steps = vec![step(0, CheckAction::Connect(connect))];
    let question = server.agent_question();
    if !question.is_empty() {
        steps.push(step(1, CheckAction::Send(CheckSend::Bytes(question))));
    }
    let line = CheckExpect::plain(CheckExpectation::Message(CheckMessage::AgentLine));
    steps.push(step(2, CheckAction::Expect(Box::new(line))));
    match run(Subject::agent(proxy, server, &steps)).await {
        Outcome::Ended(ended) => AgentReport::Failed(ended.report),
        Outcome::Agent(AgentLine::Reply(reply)) => AgentReport::Reply(reply),
        Outcome::Agent(AgentLine::Wait | AgentLine::Incomplete) => AgentReport::Incomplete,
    }
}

/// What running all steps led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ended(Ended),
    Agent(AgentLine),
}

/// Runs the steps once.
pub(crate) async fn run(subject: Subject<'_>) -> Outcome {
    let steps = subject.steps;
    let mut check = Check {
        subject,
        connection: None,
        response: None,
        input: Vec::new(),
        must_read: true,
        ended: false,
        progress: None,
        variables: RefCell::default(),
        deadline: Instant::now(),
        method: Method::Options,
    };
    let result = check.run(steps).await;
    if let Some(connection) = check.connection.take() {
        connection.close();
    }
    let progress = check.progress.take();
    match result {
        Ok(report) | Err(Stop::Report(report)) => Outcome::Ended(Ended { progress, report }),
        Err(Stop::Agent(line)) => Outcome::Agent(*line),
    }
}

/// Why the steps are not run to their end.
enum Stop {
    Report(CheckReport),
    Agent(Box<AgentLine>),
}

impl From<CheckReport> for Stop {
    fn from(report: CheckReport) -> Self {
        Self::Report(report)
    }
}

struct Check<'a> {
    subject: Subject<'a>,
    connection: Option<Connection>,
    /// The response, in checks over HTTP.
    response: Option<Received>,
    /// What came, in all others.
    input: Vec<u8>,
    /// Whether an expectation looks at nothing before something new has come.
    must_read: bool,
    /// Whether the server has closed, or failed after it had answered.
    ended: bool,
    progress: Option<CheckReport>,
    variables: RefCell<Vec<(VariableName, Value<'static>)>>,
    deadline: Instant,
    method: Method,
}

/// What became of an expectation.
enum Expected {
    Met,
    Wait,
}

fn report(status: CheckStatus, code: u16, info: impl Into<String>) -> CheckReport {
    CheckReport { status, code, info: info.into() }
}

impl<'a> Check<'a> {
    /// The report of a success, or as an error the one of a failure.
    async fn run(&mut self, steps: &'a [CheckStep]) -> Result<CheckReport, Stop> {
        if !steps.iter().any(|step| step.action.is_exchange()) {
            // A connection that nobody asks for is all there is to check.
            let connect = CheckConnect { default: true, implicit: true, ..CheckConnect::default() };
            let step = CheckStep { action: CheckAction::Connect(connect.clone()), comment: None, number: 0 };
            self.connect(&connect, &step, false).await?;
        }
        let mut last = None;
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            match &step.action {
                CheckAction::Connect(connect) => {
                    let next = steps.iter().skip(at + 1).find(|step| step.action.is_exchange());
                    let listens = next.is_some_and(|next| matches!(next.action, CheckAction::Expect(_)));
                    self.connect(connect, step, listens).await?;
                }
                CheckAction::Send(send) => self.send(send, step).await?,
                CheckAction::SendHttp { method, uri, version, headers, body } => {
                    let request = RequestStep { method, uri, version, headers, body: body.as_ref() };
                    self.send_http(&request, step).await?;
                }
                CheckAction::Expect(expect) => {
                    let is_last = !steps.iter().skip(at + 1).any(|step| step.action.is_exchange());
                    let expected = if self.is_http() {
                        self.expect_http(expect, step).await?
                    } else {
                        self.expect_tcp(expect, step, is_last).await?
                    };
                    if matches!(expected, Expected::Wait) {
                        self.must_read = true;
                        at = first_to_repeat(steps, at);
                        continue;
                    }
                }
                CheckAction::SetVar(set) => variables::set(&self.context(), set, OPTIONS),
                CheckAction::UnsetVar(name) => {
                    self.context().unset_variable(name);
                }
            }
            if step.action.is_exchange() {
                last = Some(step);
            }
            at += 1;
        }
        Ok(self.success(last))
    }

    fn is_http(&self) -> bool {
        self.subject.protocol == CheckProtocol::Http
    }

    fn bytes_max(&self) -> usize {
        self.subject.proxy.config.global.tune.bufsize
    }

    fn context(&self) -> CheckContext<'_> {
        CheckContext {
            proxy: self.subject.proxy,
            server: self.subject.server,
            connection: self.connection.as_ref(),
            received: self.response.as_ref(),
            input: &self.input,
            is_http: self.is_http(),
            variables: &self.variables,
        }
    }

    /// What failed on the way, and where that was.
    fn failure(&self, status: CheckStatus, info: &str, step: &CheckStep) -> CheckReport {
        report(status, 0, format!("{info}{}", words::place(self.subject.protocol, step)))
    }

    fn io_failure(&self, error: &io::Error, step: &CheckStep) -> CheckReport {
        self.failure(CheckStatus::SocketError, &connect::words(error), step)
    }

    fn forget_input(&mut self) {
        self.response = None;
        self.input.clear();
        self.must_read = true;
    }

    /// `timeout check` bounds what follows the connection. Without it, connection and all that follows share `inter`.
    async fn connect(&mut self, wanted: &CheckConnect, step: &CheckStep, listens: bool) -> Result<(), Stop> {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        self.forget_input();
        self.ended = false;
        let timeouts = &self.subject.proxy.settings().timeouts;
        let (check, connection) = (timeouts.check, timeouts.connect);
        let interval = self.subject.interval;
        let limit = match (check, connection) {
            (Some(_), Some(connect)) => interval.min(connect),
            _ => interval,
        };
        let wanted = connect::ConnectOrder::of(&self.subject, wanted, listens, &self.context());
        self.deadline = Instant::now() + limit.max(Duration::from_millis(1));
        match timeout_at(self.deadline, connect(&self.subject, &wanted)).await {
            Err(_) => Err(self.failure(CheckStatus::Layer4Timeout, "", step).into()),
            Ok(Err(connect::Refusal { status, info })) => Err(self.failure(status, &info, step).into()),
            Ok(Ok(connection)) => {
                let negotiated = match wanted.tls {
                    false => Ok(Ok(connection)),
                    true => timeout_at(self.deadline, negotiate(&self.subject, connection)).await,
                };
                let connection = match negotiated {
                    Err(_) => return Err(self.failure(CheckStatus::Layer6Timeout, "", step).into()),
                    Ok(Err(connect::Refusal { status, info })) => {
                        return Err(self.failure(status, &info, step).into());
                    }
                    Ok(Ok(connection)) => connection,
                };
                if let Some(check) = check {
                    self.deadline = Instant::now() + check;
                }
                let protocol = self.is_http().then(|| wanted.protocol(&self.subject, &connection));
                let app = &self.subject.proxy.settings().fcgi_app;
                self.connection = Some(match (protocol, app) {
                    (Some(ServerProtocol::Http2), _) => connection.over_http2(self.bytes_max()),
                    (Some(ServerProtocol::Fcgi), Some(app)) => connection.over_fastcgi(app, self.bytes_max()),
                    _ => connection,
                });
                Ok(())
            }
        }
    }

    async fn send(&mut self, send: &CheckSend, step: &CheckStep) -> Result<(), Stop> {
        self.forget_input();
        let rendered;
        let bytes = match send {
            CheckSend::Bytes(bytes) => bytes.as_slice(),
            CheckSend::Format(format) => {
                rendered = self.context().render(format);
                &rendered
            }
            CheckSend::HexFormat(format) => {
                let text = self.context().render(format);
                let Some(bytes) = basics::hex::bytes(&text) else {
                    let words = "tcp-check send : failed to build log-format string at step";
                    return Err(report(CheckStatus::Layer7Response, 0, format!("{words} {}", step.number)).into());
                };
                rendered = bytes;
                &rendered
            }
        };
        if bytes.len() >= self.bytes_max() {
            let words = format!(
                "tcp-check send : string too large ({}) for buffer size ({}) at step {}",
                bytes.len(),
                self.bytes_max(),
                step.number
            );
            return Err(report(CheckStatus::Layer7Response, 0, words).into());
        }
        self.write(bytes, step).await
    }

    async fn send_http(&mut self, request: &RequestStep<'_>, step: &CheckStep) -> Result<(), Stop> {
        self.forget_input();
        self.method = Method::of(request.method.as_bytes());
        let now_ms = self.subject.proxy.process.milliseconds(Instant::now().into_std());
        let send_state = self.subject.proxy.settings().check.send_state;
        let bytes = request::write(request, send_state, &self.context(), now_ms);
        if bytes.len() > self.bytes_max() {
            let text = format!("tcp-check send : failed to build HTTP request at step {}", step.number);
            return Err(report(CheckStatus::Layer7Response, 0, text).into());
        }
        self.write(&bytes, step).await
    }

    async fn write(&mut self, bytes: &[u8], step: &CheckStep) -> Result<(), Stop> {
        let Some(connection) = &self.connection else { return Err(lost().into()) };
        match timeout_at(self.deadline, connection.write(bytes)).await {
            Err(_) => Err(self.failure(CheckStatus::Layer7Timeout, "", step).into()),
            Ok(Err(error)) => Err(self.io_failure(&error, step).into()),
            Ok(Ok(())) => Ok(()),
        }
    }

    /// The report when an expectation's time is over.
    fn timed_out(&self, expect: &CheckExpect, step: &CheckStep) -> CheckReport {
        let status = status_named(expect.timeout_status.as_deref()).unwrap_or(CheckStatus::Layer7Timeout);
        self.failure(status, "", step)
    }

    /// Reads until there is something new to look at.
    async fn read_http(&mut self, expect: &CheckExpect, step: &CheckStep) -> Result<(), Stop> {
        let bytes_max = self.bytes_max();
        let method = self.method;
        let received = self.response.get_or_insert_with(|| Received::new(method, bytes_max));
        let Some(connection) = &self.connection else { return Err(lost().into()) };
        loop {
            let mut room = [0; READ_BYTES];
            let most = received.room().min(READ_BYTES);
            let room = room.get_mut(..most).unwrap_or_default();
            match timeout_at(self.deadline, connection.read(room)).await {
                Err(_) => return Err(self.timed_out(expect, step).into()),
                // A reset behind a response is no reason to doubt the response.
                Ok(Err(_)) if received.has_head() => self.ended = true,
                Ok(Err(error)) => return Err(self.io_failure(&error, step).into()),
                Ok(Ok(0)) => self.ended = true,
                Ok(Ok(count)) => received.take(room.get(..count).unwrap_or_default()),
            }
            if self.ended || received.has_head() || received.is_complete() {
                return Ok(());
            }
        }
    }

    async fn expect_http(&mut self, expect: &CheckExpect, step: &CheckStep) -> Result<Expected, Stop> {
        if self.must_read {
            self.read_http(expect, step).await?;
            self.must_read = false;
        }
        let Some(received) = &self.response else { return Err(lost().into()) };
        if self.asks_for_no_visitors(received) {
            return Ok(Expected::Met);
        }
        let context = self.context();
        match expect::evaluate(expect, received, self.ended, &context) {
            expect::Verdict::Met => Ok(Expected::Met),
            expect::Verdict::Wait => Ok(Expected::Wait),
            expect::Verdict::Failed { status, reason } => {
                let text = expect::failure_text(expect, reason, step.comment.as_deref(), &context);
                Err(report(status, self.code(expect), text).into())
            }
        }
    }

    /// Reads until there is something new to look at, or the end.
    async fn read_tcp(&mut self, expect: &CheckExpect, step: &CheckStep) -> Result<(), Stop> {
        if self.ended {
            return self.unless_empty(expect, step);
        }
        let bytes_max = self.bytes_max();
        for read in 0..READS_MAX {
            let Some(connection) = &self.connection else { return Err(lost().into()) };
            let most = bytes_max.saturating_sub(self.input.len()).min(READ_BYTES);
            if most == 0 {
                return Ok(());
            }
            let mut room = [0; READ_BYTES];
            let room = room.get_mut(..most).unwrap_or_default();
            // Only the first one waits.
            let result = if read == 0 {
                match timeout_at(self.deadline, connection.read(room)).await {
                    Ok(result) => result,
                    Err(_) => return Err(self.timed_out(expect, step).into()),
                }
            } else {
                match connection.try_read(room) {
                    Some(result) => result,
                    None => return Ok(()),
                }
            };
            match result {
                // A reset behind what came is no reason to doubt it.
                Err(error) if self.input.is_empty() => return Err(self.io_failure(&error, step).into()),
                Err(_) => self.ended = true,
                Ok(0) => self.ended = true,
                Ok(count) => self.input.extend_from_slice(room.get(..count).unwrap_or_default()),
            }
            if self.ended {
                return self.unless_empty(expect, step);
            }
        }
        Ok(())
    }

    /// A server that closes without a word is told from one that says something wrong.
    fn unless_empty(&self, expect: &CheckExpect, step: &CheckStep) -> Result<(), Stop> {
        if !self.input.is_empty() {
            return Ok(());
        }
        let mut text = format!("TCPCHK got an empty response at step {}", step.number);
        if let Some(comment) = &step.comment {
            text += &format!(" comment: '{comment}'");
        }
        let status = status_named(expect.error_status.as_deref()).unwrap_or(CheckStatus::Layer7Response);
        Err(report(status, 0, text).into())
    }

    async fn expect_tcp(&mut self, expect: &CheckExpect, step: &CheckStep, is_last: bool) -> Result<Expected, Stop> {
        if self.must_read {
            self.read_tcp(expect, step).await?;
            self.must_read = false;
        }
        let ended = self.ended || self.input.len() >= self.bytes_max();
        let context = self.context();
        match expect_tcp::evaluate(expect, &self.input, ended, is_last, &context) {
            expect_tcp::Verdict::Wait => Ok(Expected::Wait),
            expect_tcp::Verdict::Met(words) => {
                if let Some(words) = words {
                    let status = status_named(expect.ok_status.as_deref()).unwrap_or(CheckStatus::Layer7Ok);
                    self.progress = Some(report(status, 0, words));
                }
                Ok(Expected::Met)
            }
            expect_tcp::Verdict::Agent(line) => Err(Stop::Agent(Box::new(line))),
            expect_tcp::Verdict::Failed { status, code, text, matched } => {
                let text = expect_tcp::failure_text(self.subject.protocol, step, expect, text, matched, &context);
                Err(report(status, code.unwrap_or_else(|| self.code(expect)), text).into())
            }
        }
    }

    /// The code that `status-code` gives, or the response's status.
    fn code(&self, expect: &CheckExpect) -> u16 {
        let context = self.context();
        if let Some(received) = &self.response {
            return expect::code(expect, received, &context);
        }
        expect::code_of_expression(expect, &context).unwrap_or(0)
    }

    /// `http-check disable-on-404`, which counts only while the server is up.
    fn asks_for_no_visitors(&self, received: &Received) -> bool {
        let Some(server) = self.subject.server else { return false };
        let proxy = self.subject.proxy;
        if !proxy.settings().check.disable_on_404
            || !received.has_head()
            || received.is_broken()
            || received.head.status() != 404
        {
            return false;
        }
        let farm = proxy.farm();
        let id = ServerId::new(server.index.0 as usize);
        let now_ms = proxy.process.milliseconds(Instant::now().into_std());
        farm.server_stats(id, now_ms).is_some_and(|stats| stats.state != OperationalState::Stopped)
    }

    fn success(&self, last: Option<&CheckStep>) -> CheckReport {
        let is_secure = self.connection.as_ref().is_some_and(Connection::is_secure);
        let connected = if is_secure { CheckStatus::Layer6Ok } else { CheckStatus::Layer4Ok };
        let expect = match last.map(|step| &step.action) {
            None => return report(connected, 0, ""),
            Some(CheckAction::Connect(connect)) => {
                return report(connected, 0, if connect.implicit { "" } else { "(tcp-check)" });
            }
            Some(CheckAction::Expect(expect)) => expect,
            Some(_) => return report(CheckStatus::Layer7Ok, 0, "(tcp-check)"),
        };
        if self.response.as_ref().is_some_and(|received| self.asks_for_no_visitors(received)) {
            return report(CheckStatus::Layer7Conditional, 404, "");
        }
        let context = self.context();
        let status = status_named(expect.ok_status.as_deref()).unwrap_or(CheckStatus::Layer7Ok);
        let text = match &expect.on_success {
            Some(format) => context.render(format),
            None if self.subject.protocol == CheckProtocol::Tcp => b"(tcp-check)".to_vec(),
            None => Vec::new(),
        };
        report(status, self.code(expect), String::from_utf8_lossy(&text))
    }
}

/// Where evaluation begins anew once more has come: at the first thing that must not be there, among the expectations that
/// stand in a row with the one at `at`, or at this one.
fn first_to_repeat(steps: &[CheckStep], at: usize) -> usize {
    let before = steps.iter().enumerate().take(at).rev();
    let row = before.take_while(|(_, step)| {
        matches!(step.action, CheckAction::Expect(_) | CheckAction::SetVar(_) | CheckAction::UnsetVar(_))
    });
    let forbidden = row.filter(|(_, step)| matches!(&step.action, CheckAction::Expect(expect) if expect.negate));
    forbidden.last().map_or(at, |(place, _)| place)
}

/// A step that needs a connection or a response without one: the configuration's order of steps rules it out.
fn lost() -> CheckReport {
    report(CheckStatus::SocketError, 0, "")
}
