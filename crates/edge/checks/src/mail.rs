//! `email-alert`: mails about servers that come and go.
//!
//! A mail is a conversation with each mail server in turn, run by the engine of checks on the background thread. Mails of a
//! proxy to a mail server go one after the other.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use haproxycfg::model::{
    CheckAction, CheckConnect, CheckExpect, CheckExpectation, CheckProtocol, CheckSend, CheckStep, MailAlert,
    MailerAddress,
};
use live::{CheckPlace, LiveProxy};
use net::Target;
use runtime::log::Level;

use super::{run::run, subject::Subject};

/// Mails that wait for one mail server of one proxy; more are not sent.
const WAITING_MAX: usize = 1_000;
/// The longest text; HAProxy does not send longer ones.
const TEXT_LEN_MAX: usize = 1_023;

/// A proxy, by name, and a mail server of it, by place.
type Queue = (Arc<str>, usize);

struct Letter {
    proxy: Arc<LiveProxy>,
    text: String,
}

thread_local! {
    /// Mails that wait, of the background thread.
    static WAITING: RefCell<HashMap<Queue, VecDeque<Letter>>> = RefCell::default();
}

/// Mails `text` to everyone whom the proxy tells about events of this level.
pub(super) fn send(proxy: &Arc<LiveProxy>, level: u8, text: &str) {
    let Some(alert) = proxy.settings().mail.as_ref().filter(|alert| level <= alert.level.0) else { return };
    let name = Arc::clone(&proxy.settings().name);
    if text.len() > TEXT_LEN_MAX {
        runtime::log::write(Level::Alert, format_args!("Email alert [{name}] could not format message"));
        return;
    }
    for mailer in 0..alert.mailers.len() {
        let queue = (Arc::clone(&name), mailer);
        let letter = Letter { proxy: Arc::clone(proxy), text: text.to_owned() };
        proxy.process.background.run(move || enqueue(queue, letter));
    }
}

fn enqueue(queue: Queue, letter: Letter) {
    let is_first = WAITING.with_borrow_mut(|waiting| {
        let is_first = !waiting.contains_key(&queue);
        let letters = waiting.entry(queue.clone()).or_default();
        if letters.len() >= WAITING_MAX {
            let name = &queue.0;
            runtime::log::write(
                Level::Alert,
                format_args!("Email alert [{name}] could not be enqueued: out of memory"),
            );
        } else {
            letters.push_back(letter);
        }
        is_first
    });
    if is_first {
        tokio::task::spawn_local(deliver(queue));
    }
}

/// Sends what waits, until there is nothing more.
async fn deliver(queue: Queue) {
    loop {
        let next = WAITING.with_borrow_mut(|waiting| {
            let letter = waiting.get_mut(&queue).and_then(VecDeque::pop_front);
            if letter.is_none() {
                waiting.remove(&queue);
            }
            letter
        });
        let Some(Letter { proxy, text }) = next else { return };
        let Some(alert) = &proxy.settings().mail else { continue };
        let Some(MailerAddress::Inet(address)) = alert.mailers.get(queue.1).map(|mailer| &mailer.address) else {
            continue;
        };
        let hostname = alert.hostname.as_deref().unwrap_or(&proxy.process.hostname);
        let now = basics::clock::since_1970().as_secs();
        let steps = conversation(alert, hostname, &text, i64::try_from(now).unwrap_or(0));
        let subject = Subject {
            proxy: &proxy,
            server: None,
            protocol: CheckProtocol::Tcp,
            steps: &steps,
            target: Target::Inet(*address),
            place: CheckPlace { address: None, port: None },
            interval: alert.timeout,
        };
        // As in HAProxy, nobody is told whether it arrived.
        let _ = run(subject).await;
    }
}

/// What is said, and what is expected in answer.
fn conversation(alert: &MailAlert, hostname: &str, text: &str, now: i64) -> Vec<CheckStep> {
    let MailAlert { from, to, .. } = alert;
    let date = logs::mail_date(now);
    let letter = format!(
        "From: {from}\r\nTo: {to}\r\nDate: {date}\r\nSubject: [HAProxy Alert] {text}\r\n\r\n{text}\r\n\r\n.\r\n"
    );
    let mut steps = Vec::new();
    let mut push = |action| {
        let number = u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1);
        steps.push(CheckStep { action, comment: None, number });
    };
    push(CheckAction::Connect(CheckConnect::default()));
    for (expected, sent) in [
        ("220 ", format!("HELO {hostname}\r\n")),
        ("250 ", format!("MAIL FROM:<{from}>\r\n")),
        ("250 ", format!("RCPT TO:<{to}>\r\n")),
        ("250 ", "DATA\r\n".to_owned()),
        ("354 ", letter),
        ("250 ", "QUIT\r\n".to_owned()),
        ("221 ", String::new()),
    ] {
        let expect = CheckExpect::plain(CheckExpectation::Text(expected.into()));
        push(CheckAction::Expect(Box::new(CheckExpect { min_recv: Some(0), ..expect })));
        if !sent.is_empty() {
            push(CheckAction::Send(CheckSend::Bytes(sent.into_bytes())));
        }
    }
    steps
}
