//! One check from its connection to its report.

use std::{cell::RefCell, io, time::Duration};

use balance::{CheckReport, CheckStatus, OperationalState, ServerId};
use haproxycfg::model::{CheckConfig, CheckExpect, CheckStep};
use http::Method;
use sample::{Context as _, Value, VariableName};
use tokio::time::{Instant, timeout_at};

use super::{
    connect::{self, ConnectStep, Connection, connect},
    context::{CheckContext, OPTIONS},
    expect::{Verdict, code, evaluate, failure_text, status_named},
    request::{self, RequestStep},
    response::Received,
};
use crate::{
    live::{LiveProxy, LiveServer},
    variables,
};

/// Bytes read at a time.
const READ_BYTES: usize = 4 * 1024;

/// Checks a server once.
pub(super) async fn run(proxy: &LiveProxy, server: &LiveServer) -> CheckReport {
    let mut check = Check {
        proxy,
        server,
        config: &proxy.settings().check,
        connection: None,
        received: None,
        ended: false,
        variables: RefCell::default(),
        deadline: Instant::now(),
        method: Method::Options,
    };
    let report = check.run().await.unwrap_or_else(|report| report);
    if let Some(connection) = check.connection.take() {
        connection.close();
    }
    report
}

struct Check<'a> {
    proxy: &'a LiveProxy,
    server: &'a LiveServer,
    config: &'a CheckConfig,
    connection: Option<Connection>,
    received: Option<Received>,
    /// Whether the server has closed, or failed after it had answered.
    ended: bool,
    variables: RefCell<Vec<(VariableName, Value<'static>)>>,
    deadline: Instant,
    method: Method,
}

/// The last step that counts for the result.
#[derive(Clone, Copy)]
enum Last<'a> {
    /// A connection, and whether the configuration asks for it.
    Connect(bool),
    Send,
    Expect(&'a CheckExpect),
}

fn report(status: CheckStatus, code: u16, info: impl Into<String>) -> CheckReport {
    CheckReport { status, code, info: info.into() }
}

impl<'a> Check<'a> {
    /// The report of a success, or as an error the one of a failure.
    async fn run(&mut self) -> Result<CheckReport, CheckReport> {
        let steps = self.config.steps.as_slice();
        let first = steps
            .iter()
            .find(|step| !matches!(step, CheckStep::SetVar(_) | CheckStep::UnsetVar(_) | CheckStep::Comment(_)));
        let mut last = Last::Connect(false);
        if !matches!(first, Some(CheckStep::Connect { .. })) {
            self.connect(&ConnectStep { default: true, ..ConnectStep::default() }).await?;
        }
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            match step {
                CheckStep::Connect { port, address, send_proxy, linger, default } => {
                    let (port, address) = (*port, *address);
                    let step =
                        ConnectStep { port, address, send_proxy: *send_proxy, linger: *linger, default: *default };
                    self.connect(&step).await?;
                    last = Last::Connect(true);
                }
                CheckStep::SendHttp { method, uri, version, headers, body } => {
                    self.send(&RequestStep { method, uri, version, headers, body: body.as_ref() }).await?;
                    last = Last::Send;
                }
                CheckStep::ExpectHttp(expect) => {
                    let comment = match steps.get(at + 1) {
                        Some(CheckStep::Comment(text)) => Some(text.as_str()),
                        _ => None,
                    };
                    if self.expect(expect, comment).await? == Verdict::Wait {
                        self.read(expect).await?;
                        at = first_of_row(steps, at);
                        continue;
                    }
                    last = Last::Expect(expect);
                }
                CheckStep::SetVar(set) => variables::set(&self.context(), set, OPTIONS),
                CheckStep::UnsetVar(name) => {
                    self.context().unset_variable(name);
                }
                CheckStep::Comment(_) => {}
            }
            at += 1;
        }
        Ok(self.success(last))
    }

    fn context(&self) -> CheckContext<'_> {
        CheckContext {
            proxy: self.proxy,
            server: self.server,
            connection: self.connection.as_ref(),
            received: self.received.as_ref(),
            variables: &self.variables,
        }
    }

    /// `timeout check` bounds what follows the connection. Without it, connection and all that follows share `inter`.
    async fn connect(&mut self, step: &ConnectStep) -> Result<(), CheckReport> {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        self.received = None;
        self.ended = false;
        let timeouts = &self.proxy.settings().timeouts;
        let inter = self.server.config.inter;
        let limit = match (timeouts.check, timeouts.connect) {
            (Some(_), Some(connect)) => inter.min(connect),
            _ => inter,
        };
        self.deadline = Instant::now() + limit.max(Duration::from_millis(1));
        match timeout_at(self.deadline, connect(self.proxy, self.server, step)).await {
            Err(_) => Err(report(CheckStatus::Layer4Timeout, 0, "")),
            Ok(Err(connect::Refusal { status, info })) => Err(report(status, 0, info)),
            Ok(Ok(connection)) => {
                if let Some(check) = timeouts.check {
                    self.deadline = Instant::now() + check;
                }
                self.connection = Some(connection);
                Ok(())
            }
        }
    }

    async fn send(&mut self, step: &RequestStep<'_>) -> Result<(), CheckReport> {
        self.method = Method::of(step.method.as_bytes());
        self.received = None;
        let now_ms = self.proxy.process.milliseconds(Instant::now().into_std());
        let request = request::write(step, self.config.send_state, &self.context(), now_ms);
        if request.len() > self.proxy.config.global.tune.bufsize {
            let text = "tcp-check send : failed to build HTTP request";
            return Err(report(CheckStatus::Layer7Response, 0, text));
        }
        let Some(connection) = &self.connection else { return Err(lost()) };
        match timeout_at(self.deadline, connection.write(&request)).await {
            Err(_) => Err(report(CheckStatus::Layer7Timeout, 0, "")),
            Ok(Err(error)) => Err(socket_error(&error)),
            Ok(Ok(())) => Ok(()),
        }
    }

    /// Reads once, and more if that was only a part of a head.
    async fn read(&mut self, expect: &CheckExpect) -> Result<(), CheckReport> {
        let bytes_max = self.proxy.config.global.tune.bufsize;
        let received = self.received.get_or_insert_with(|| Received::new(self.method, bytes_max));
        let Some(connection) = &self.connection else { return Err(lost()) };
        loop {
            let mut room = [0; READ_BYTES];
            let most = received.room().min(READ_BYTES);
            let room = room.get_mut(..most).unwrap_or_default();
            match timeout_at(self.deadline, connection.read(room)).await {
                Err(_) => {
                    let status = status_named(expect.timeout_status.as_deref()).unwrap_or(CheckStatus::Layer7Timeout);
                    return Err(report(status, 0, ""));
                }
                // A reset behind a response is no reason to doubt the response.
                Ok(Err(_)) if received.has_head() => self.ended = true,
                Ok(Err(error)) => return Err(socket_error(&error)),
                Ok(Ok(0)) => self.ended = true,
                Ok(Ok(count)) => received.take(room.get(..count).unwrap_or_default()),
            }
            if self.ended || received.has_head() || received.is_complete() {
                return Ok(());
            }
        }
    }

    async fn expect(&mut self, expect: &CheckExpect, comment: Option<&str>) -> Result<Verdict, CheckReport> {
        if self.received.is_none() {
            self.read(expect).await?;
        }
        let Some(received) = &self.received else { return Err(lost()) };
        let context = self.context();
        if self.asks_for_no_visitors(received) {
            return Ok(Verdict::Met);
        }
        let verdict = evaluate(expect, received, self.ended, &context);
        let Verdict::Failed { status, reason } = verdict else { return Ok(verdict) };
        let text = failure_text(expect, reason, comment, &context);
        Err(report(status, code(expect, received, &context), text))
    }

    /// `http-check disable-on-404`, which counts only while the server is up.
    fn asks_for_no_visitors(&self, received: &Received) -> bool {
        if !self.config.disable_on_404 || !received.has_head() || received.is_broken() || received.head.status() != 404
        {
            return false;
        }
        let farm = self.proxy.farm();
        let id = ServerId::new(self.server.index.0 as usize);
        let now_ms = self.proxy.process.milliseconds(Instant::now().into_std());
        farm.server_stats(id, now_ms).is_some_and(|stats| stats.state != OperationalState::Stopped)
    }

    fn success(&self, last: Last<'_>) -> CheckReport {
        let expect = match last {
            Last::Connect(explicit) => {
                return report(CheckStatus::Layer4Ok, 0, if explicit { "(tcp-check)" } else { "" });
            }
            Last::Send => return report(CheckStatus::Layer7Ok, 0, "(tcp-check)"),
            Last::Expect(expect) => expect,
        };
        let Some(received) = &self.received else { return lost() };
        if self.asks_for_no_visitors(received) {
            return report(CheckStatus::Layer7Conditional, 404, "");
        }
        let context = self.context();
        let status = status_named(expect.ok_status.as_deref()).unwrap_or(CheckStatus::Layer7Ok);
        let text = expect.on_success.as_ref().map(|format| context.render(format)).unwrap_or_default();
        report(status, code(expect, received, &context), String::from_utf8_lossy(&text))
    }
}

/// The first of the expectations that stand in a row with the one at `at`: with more data, all of them are tried again.
fn first_of_row(steps: &[CheckStep], at: usize) -> usize {
    let before = steps.get(..at).unwrap_or_default();
    let row = before.iter().rev().take_while(|step| matches!(step, CheckStep::ExpectHttp(_) | CheckStep::Comment(_)));
    at - row.count()
}

fn socket_error(error: &io::Error) -> CheckReport {
    report(CheckStatus::SocketError, 0, connect::words(error))
}

/// A step that needs a connection or a response without one: the configuration's order of steps rules it out.
fn lost() -> CheckReport {
    report(CheckStatus::SocketError, 0, "")
}
