//! Running `http-request`, `http-response`, `http-after-response` and `redirect` rules.
//!
//! Rules run in order until one ends them. What a rule changes in the message it changes at once; what it means for the
//! rest of the transaction comes back as a [`Verdict`].

use std::{net::SocketAddr, sync::atomic::Ordering::Relaxed, time::Duration};

use haproxycfg::model::{
    ForwardFor, HeaderMatch, HttpAction, NormalizeUri, PatternChange, PatternChangeKind, Redirect, RedirectKind, Reply,
    Resolve, Rule, Service, StreamAction, TimeoutKind, TimeoutValue,
};
use http::{HeaderId, Headers};
use sample::{Condition, LogFormat, Options, expand};

use super::{caching, normalize, stream_actions, transaction::Transaction};
use crate::stick::{self, Level};

/// What a rule set came to.
#[derive(Debug)]
pub enum Verdict<'r> {
    /// No rule ended it.
    Continue,
    /// `allow`: this set is over.
    Allow,
    /// `deny`.
    Deny(&'r Reply),
    /// `tarpit`.
    Tarpit(&'r Reply),
    /// `reject`.
    Reject,
    /// `silent-drop`.
    SilentDrop,
    /// `return`.
    Return(&'r Reply),
    /// `redirect`.
    Redirect(&'r Redirect),
    /// `auth` without valid credentials.
    Auth(Option<&'r [u8]>),
    /// `wait-for-body`: go on with the rule at `resume` when the body is there.
    WaitForBody {
        /// How long at most.
        time: Duration,
        /// How many bytes are enough; 0 is all or a full buffer.
        at_least: usize,
        /// The next rule.
        resume: usize,
    },
    /// `do-resolve`: go on with the rule at `resume` when the name has been looked up.
    Resolve {
        /// What to look up.
        rule: &'r Resolve,
        /// The next rule.
        resume: usize,
    },
    /// `early-hint`: send these and go on with the rule at `resume`.
    EarlyHints {
        /// The fields.
        headers: Headers,
        /// The next rule.
        resume: usize,
    },
    /// `use-service`.
    UseService(&'r Service),
    /// A strict normalizer found the target malformed.
    Malformed,
    /// A rewrite failed, and `strict-mode` did not say that this is to be ignored.
    RewriteFailed,
}

/// Which message a rule set works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request.
    Request,
    /// The response.
    Response,
}

impl Phase {
    /// How expressions are evaluated in it.
    #[must_use]
    pub fn options(self) -> Options {
        match self {
            Self::Request => Options::REQUEST,
            Self::Response => Options::RESPONSE,
        }
    }
}

/// Whether a rule with this condition applies.
#[must_use]
pub fn applies(condition: Option<&Condition>, transaction: &Transaction, phase: Phase) -> bool {
    condition.is_none_or(|condition| condition.holds(transaction, phase.options()))
}

/// Runs the rules from `start` on. `strict-mode` counts until the set's end, and a set that waited goes on with it.
pub fn run<'r>(
    transaction: &mut Transaction,
    rules: &'r [Rule<HttpAction>],
    start: usize,
    phase: Phase,
) -> Verdict<'r> {
    if start == 0 {
        transaction.by_rules.soft_rewrites = false;
    }
    for (index, rule) in rules.iter().enumerate().skip(start) {
        if !applies(rule.condition.as_ref(), transaction, phase) {
            continue;
        }
        let verdict = match &rule.action {
            HttpAction::Allow => Verdict::Allow,
            HttpAction::Deny(reply) => Verdict::Deny(reply),
            HttpAction::Tarpit(reply) => Verdict::Tarpit(reply),
            HttpAction::Reject => Verdict::Reject,
            HttpAction::SilentDrop => Verdict::SilentDrop,
            HttpAction::Return(reply) => Verdict::Return(reply),
            HttpAction::Redirect(redirect) if redirect.ignore_empty && location(transaction, redirect).is_none() => {
                continue;
            }
            HttpAction::Redirect(redirect) => Verdict::Redirect(redirect),
            HttpAction::Auth { realm } => Verdict::Auth(realm.as_deref()),
            HttpAction::WaitForBody { time, at_least } => {
                Verdict::WaitForBody { time: *time, at_least: *at_least, resume: index + 1 }
            }
            HttpAction::Stream(StreamAction::Resolve(rule)) => return Verdict::Resolve { rule, resume: index + 1 },
            HttpAction::EarlyHint(..) => return early_hints(transaction, rules, index),
            HttpAction::UseService(service) => Verdict::UseService(service),
            HttpAction::NormalizeUri(how) => {
                transaction.client.frontend.process.acted_experimentally.store(true, Relaxed);
                if normalize_uri(transaction, *how) {
                    continue;
                }
                Verdict::Malformed
            }
            HttpAction::StrictMode(strict) => {
                transaction.by_rules.soft_rewrites = !strict;
                continue;
            }
            HttpAction::Stream(StreamAction::Stick(action)) => {
                let level = if phase == Phase::Request { Level::Request } else { Level::Response };
                stick::act(transaction, action, level, phase.options());
                continue;
            }
            action => {
                if change(transaction, action, phase).is_ok() {
                    continue;
                }
                count_failed_rewrite(transaction);
                if transaction.by_rules.soft_rewrites {
                    continue;
                }
                Verdict::RewriteFailed
            }
        };
        if !matches!(verdict, Verdict::WaitForBody { .. }) {
            *transaction.by_rules.last_rule.borrow_mut() = Some(rule.location.clone());
        }
        return verdict;
    }
    Verdict::Continue
}

/// Rules in a row that give early hints make one message; one with a condition begins another, as in HAProxy.
fn early_hints<'r>(transaction: &Transaction, rules: &'r [Rule<HttpAction>], start: usize) -> Verdict<'r> {
    let mut headers = Headers::new();
    let mut resume = start;
    for rule in rules.iter().skip(start) {
        let HttpAction::EarlyHint(name, format) = &rule.action else { break };
        if resume > start && rule.condition.is_some() {
            break;
        }
        resume += 1;
        if applies(rule.condition.as_ref(), transaction, Phase::Request) {
            headers.add(name.as_bytes(), &format.to_vec(transaction));
        }
    }
    Verdict::EarlyHints { headers, resume }
}

/// The first `redirect` line that applies.
pub fn redirect<'r>(transaction: &Transaction, rules: &'r [Rule<Redirect>]) -> Option<&'r Redirect> {
    let rule = rules.iter().find(|rule| applies(rule.condition.as_ref(), transaction, Phase::Request))?;
    *transaction.by_rules.last_rule.borrow_mut() = Some(rule.location.clone());
    Some(&rule.action)
}

/// A rewrite that would make a head larger than a buffer.
struct TooLarge;

/// What HAProxy's form of a message takes beside its text: for each field, and for the message.
const FIELD_BYTES: usize = 8;
const MESSAGE_BYTES: usize = 100;

/// Whether the head still fits a buffer (`tune.bufsize`) with `more` bytes.
fn room(transaction: &Transaction, phase: Phase, more: usize) -> Result<(), TooLarge> {
    let most = transaction.instance.config.global.tune.bufsize.saturating_sub(MESSAGE_BYTES);
    let (headers, start) = match phase {
        Phase::Request => (&transaction.request.headers, transaction.request.target().len()),
        Phase::Response => (&transaction.response.headers, transaction.response.reason().len()),
    };
    // NOTE: nearly every head is far below the limit by its memory alone.
    if headers.memory_bytes() + start + more <= most {
        return Ok(());
    }
    let text: usize = headers.iter().map(|(name, value)| name.len() + value.len() + FIELD_BYTES).sum();
    if text + start + more <= most { Ok(()) } else { Err(TooLarge) }
}

fn count_failed_rewrite(transaction: &Transaction) {
    let worker = transaction.worker;
    let client = &transaction.client;
    client.frontend.frontend.traffic.of(worker).failed_rewrites.increment();
    if let Some(listener) = client.frontend.listeners.get(client.listener) {
        listener.side.traffic.of(worker).failed_rewrites.increment();
    }
    if let Some(backend) = &transaction.route.backend {
        backend.backend.traffic.of(worker).failed_rewrites.increment();
    }
    if let Some(server) = &transaction.route.server {
        server.side.traffic.of(worker).failed_rewrites.increment();
    }
}

fn headers(transaction: &mut Transaction, phase: Phase) -> &mut Headers {
    match phase {
        Phase::Request => &mut transaction.request.headers,
        Phase::Response => &mut transaction.response.headers,
    }
}

/// The field that an action gives another value.
fn valued_field(action: &HttpAction) -> Option<&str> {
    match action {
        HttpAction::AddHeader(name, _)
        | HttpAction::SetHeader(name, _)
        | HttpAction::ReplaceHeader { name, .. }
        | HttpAction::ReplaceValue { name, .. } => Some(name),
        _ => None,
    }
}

/// Has a target that names a host name the one that rules have just put into Host, as in HAProxy: whoever reads the target
/// must not come to another one (RFC 9112 section 3.2.2).
fn follow_host(transaction: &mut Transaction) -> Result<(), TooLarge> {
    let old = transaction.request.authority().len();
    let host = transaction.request.headers.all_known(HeaderId::Host).next_back().map(<[u8]>::to_vec);
    let Some(host) = host.filter(|_| old > 0) else { return Ok(()) };
    room(transaction, Phase::Request, host.len().saturating_sub(old))?;
    transaction.request.set_authority(&host);
    Ok(())
}

/// Does what changes the message or the transaction and lets the rules go on.
fn change(transaction: &mut Transaction, action: &HttpAction, phase: Phase) -> Result<(), TooLarge> {
    let outcome = change_message(transaction, action, phase);
    if valued_field(action).is_some_and(|name| name.eq_ignore_ascii_case("connection")) {
        let closes = http::ConnectionOptions::of(headers(transaction, phase)).close;
        match phase {
            Phase::Request => transaction.by_rules.closes.server = closes,
            Phase::Response => transaction.by_rules.closes.client = closes,
        }
    }
    if phase == Phase::Request && valued_field(action).is_some_and(|name| name.eq_ignore_ascii_case("host")) {
        outcome?;
        return follow_host(transaction);
    }
    outcome
}

fn change_message(transaction: &mut Transaction, action: &HttpAction, phase: Phase) -> Result<(), TooLarge> {
    match action {
        HttpAction::AddHeader(name, format) => {
            let value = format.to_vec(transaction);
            room(transaction, phase, name.len() + value.len() + FIELD_BYTES)?;
            headers(transaction, phase).add(name.as_bytes(), &value);
        }
        HttpAction::SetHeader(name, format) => {
            let value = format.to_vec(transaction);
            // NOTE: the field that is to be replaced goes even if its successor does not fit.
            headers(transaction, phase).remove(name.as_bytes());
            room(transaction, phase, name.len() + value.len() + FIELD_BYTES)?;
            headers(transaction, phase).add(name.as_bytes(), &value);
        }
        HttpAction::DelHeader(matching) => delete_header(headers(transaction, phase), matching),
        HttpAction::ReplaceHeader { name, regex, format } => {
            let template = format.to_vec(transaction);
            rewrite(transaction, phase, name, |value| replace(regex, &template, value))?;
        }
        HttpAction::ReplaceValue { name, regex, format } => {
            let template = format.to_vec(transaction);
            rewrite(transaction, phase, name, |value| replace_each(regex, &template, value))?;
        }
        HttpAction::ReplacePath(..)
        | HttpAction::ReplacePathq(..)
        | HttpAction::ReplaceUri(..)
        | HttpAction::SetMethod(_)
        | HttpAction::SetPath(_)
        | HttpAction::SetPathq(_)
        | HttpAction::SetQuery(_)
        | HttpAction::SetUri(_) => return change_request_line(transaction, action),
        HttpAction::SetStatus { status, reason } => {
            transaction.response.set_status(*status);
            if let Some(reason) = reason {
                room(transaction, phase, reason.len())?;
                transaction.response.set_reason(reason.as_bytes());
            }
        }
        HttpAction::CacheUse(name) => caching::look_up(transaction, name),
        HttpAction::CacheStore(name) => caching::store(transaction, name),
        HttpAction::Stream(action) => stream_actions::change(transaction, action, phase.options()),
        HttpAction::SetTimeout(kind, value) => {
            let value = match value {
                TimeoutValue::Fixed(time) => Some(*time),
                TimeoutValue::Expr(expr) => expr
                    .integer(transaction, phase.options())
                    .and_then(|value| u64::try_from(value).ok())
                    .map(Duration::from_millis),
            };
            match kind {
                TimeoutKind::Server => transaction.by_rules.server_timeout.set(value),
                TimeoutKind::Tunnel => transaction.by_rules.tunnel_timeout.set(value),
            }
        }
        HttpAction::DisableL7Retry => transaction.by_rules.l7_retry_disabled.set(true),
        HttpAction::ChangePatterns(change) => change_patterns(transaction, change),
        HttpAction::StrictMode(_)
        | HttpAction::NormalizeUri(_)
        | HttpAction::Allow
        | HttpAction::Deny(_)
        | HttpAction::Tarpit(_)
        | HttpAction::Reject
        | HttpAction::SilentDrop
        | HttpAction::Return(_)
        | HttpAction::Redirect(_)
        | HttpAction::Auth { .. }
        | HttpAction::EarlyHint(..)
        | HttpAction::WaitForBody { .. }
        | HttpAction::UseService(_) => {}
    }
    Ok(())
}

/// Changes a list of patterns for everyone who uses it. One that nothing uses is left alone, as a warning has said.
fn change_patterns(transaction: &Transaction, change: &PatternChange) {
    let Some(list) = transaction.instance.config.patterns.of_file(&change.path) else { return };
    let key = change.key.to_vec(transaction);
    match &change.kind {
        PatternChangeKind::Set(value) => list.put(&key, &value.to_vec(transaction)),
        PatternChangeKind::Add => list.add_once(&key),
        PatternChangeKind::Delete => {
            list.delete(&key);
        }
    }
}

/// Gives the fields of a name the values that `new` makes of theirs; stops at the first that does not fit.
fn rewrite(
    transaction: &mut Transaction,
    phase: Phase,
    name: &str,
    new: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), TooLarge> {
    for index in 0..headers(transaction, phase).len() {
        let Some((found, value)) = headers(transaction, phase).at(index) else { break };
        if !found.eq_ignore_ascii_case(name.as_bytes()) {
            continue;
        }
        let old = value.len();
        if let Some(value) = new(value) {
            room(transaction, phase, value.len().saturating_sub(old))?;
            headers(transaction, phase).set_value_at(index, &value);
        }
    }
    Ok(())
}

/// Gives the target its one spelling; false when a strict normalizer finds it malformed.
fn normalize_uri(transaction: &mut Transaction, how: NormalizeUri) -> bool {
    use NormalizeUri::{PercentDecodeUnreserved, PercentToUppercase};
    let before = transaction.request.path_and_query().to_vec();
    // `*` and a target without path stay what they are.
    if !before.starts_with(b"/") {
        return true;
    }
    match normalize::normalize(&before, how) {
        Some(after) => {
            transaction.request.set_path_and_query(&after);
            true
        }
        None => !matches!(how, PercentDecodeUnreserved { strict: true } | PercentToUppercase { strict: true }),
    }
}

fn change_request_line(transaction: &mut Transaction, action: &HttpAction) -> Result<(), TooLarge> {
    let replaced = |transaction: &Transaction, regex: &sample::Regex, format: &LogFormat, subject: &[u8]| {
        let template = format.to_vec(transaction);
        // Nothing is found in nothing.
        if subject.is_empty() { None } else { replace(regex, &template, subject) }
    };
    let text = match action {
        HttpAction::SetMethod(format)
        | HttpAction::SetPath(format)
        | HttpAction::SetPathq(format)
        | HttpAction::SetQuery(format)
        | HttpAction::SetUri(format) => Some(format.to_vec(transaction)),
        HttpAction::ReplacePath(regex, format) => {
            let path = transaction.request.path().to_vec();
            replaced(transaction, regex, format, &path)
        }
        HttpAction::ReplacePathq(regex, format) => {
            let path = transaction.request.path_and_query().to_vec();
            replaced(transaction, regex, format, &path)
        }
        HttpAction::ReplaceUri(regex, format) => {
            let target = [&transaction.asked.url_prefix, transaction.request.target()].concat();
            replaced(transaction, regex, format, &target)
        }
        _ => None,
    };
    let Some(text) = text else { return Ok(()) };
    let request = &transaction.request;
    let old = match action {
        HttpAction::SetMethod(_) => request.method().len(),
        HttpAction::SetPath(_) | HttpAction::ReplacePath(..) => request.path().len(),
        HttpAction::SetPathq(_) | HttpAction::ReplacePathq(..) => request.path_and_query().len(),
        HttpAction::SetQuery(_) => request.query().map_or(0, <[u8]>::len),
        _ => request.target().len(),
    };
    room(transaction, Phase::Request, text.len().saturating_sub(old))?;
    let request = &mut transaction.request;
    match action {
        HttpAction::SetMethod(_) => request.set_method(&text),
        HttpAction::SetPath(_) | HttpAction::ReplacePath(..) => request.set_path(&text),
        HttpAction::SetPathq(_) | HttpAction::ReplacePathq(..) => request.set_path_and_query(&text),
        HttpAction::SetQuery(_) => request.set_query(text.strip_prefix(b"?").unwrap_or(&text)),
        _ => {
            transaction.asked.url_prefix.clear();
            request.set_target(&text);
            // As in HAProxy, an absolute target has the last word on the host.
            let authority = request.authority().to_vec();
            if !authority.is_empty() {
                request.headers.rewrite_known(HeaderId::Host, |_| Some(authority.clone()));
            }
        }
    }
    Ok(())
}

fn delete_header(headers: &mut Headers, matching: &HeaderMatch) {
    // HAProxy's rules see names in lower case.
    let lower = |name: &[u8]| name.to_ascii_lowercase();
    match matching {
        HeaderMatch::Name(name) => {
            headers.remove(name.as_bytes());
        }
        HeaderMatch::Prefix(text) => {
            headers.retain(|name, _| !lower(name).starts_with(&lower(text.as_bytes())));
        }
        HeaderMatch::Suffix(text) => {
            headers.retain(|name, _| !lower(name).ends_with(&lower(text.as_bytes())));
        }
        HeaderMatch::Contains(text) => {
            headers.retain(|name, _| memchr::memmem::find(&lower(name), &lower(text.as_bytes())).is_none());
        }
        HeaderMatch::Regex(regex) => {
            headers.retain(|name, _| !regex.is_match(&lower(name)));
        }
    }
}

/// The text with the part that matches replaced, if any part does.
fn replace(regex: &sample::Regex, template: &[u8], subject: &[u8]) -> Option<Vec<u8>> {
    let groups = regex.groups(subject)?;
    // As HAProxy does, the replacement stands for the whole value, matched or not.
    let mut out = Vec::with_capacity(subject.len() + template.len());
    expand(template, subject, &groups, &mut out);
    Some(out)
}

fn replace_each(regex: &sample::Regex, template: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut kept = 0;
    for part in http::elements(value) {
        let Some(new) = replace(regex, template, part) else { continue };
        // A part is a slice of the value. The spaces around it go with it, as in HAProxy; all else stays as it is.
        let start = part.as_ptr() as usize - value.as_ptr() as usize;
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let (before, after) = (value.get(..start)?, value.get(start + part.len()..)?);
        out.extend_from_slice(value.get(kept..start - before.iter().rev().take_while(blank).count())?);
        out.extend_from_slice(&new);
        kept = start + part.len() + after.iter().take_while(blank).count();
    }
    if kept == 0 {
        return None;
    }
    out.extend_from_slice(value.get(kept..)?);
    Some(out)
}

/// The value of `Location` that a redirect gives, or `None` for one that is to be ignored when empty.
#[must_use]
pub fn location(transaction: &Transaction, redirect: &Redirect) -> Option<Vec<u8>> {
    let format = |format: &LogFormat| format.to_vec(transaction);
    let request = &transaction.request;
    let path = || {
        let path = request.path();
        let path = if path.is_empty() { &b"/"[..] } else { path };
        if redirect.drop_query {
            path.to_vec()
        } else {
            match request.path_and_query() {
                b"" => b"/".to_vec(),
                whole => whole.to_vec(),
            }
        }
    };
    let mut out = match &redirect.kind {
        RedirectKind::Location(text) => format(text),
        RedirectKind::Prefix(text) => {
            let prefix = format(text);
            // A prefix of "/" would double the slash that the path begins with.
            if prefix == b"/" { path() } else { [prefix, path()].concat() }
        }
        RedirectKind::Scheme(text) => {
            let host = request.headers.first(b"host").unwrap_or(request.authority());
            [&format(text), &b"://"[..], host, &path()].concat()
        }
    };
    let ends_with_path = !matches!(redirect.kind, RedirectKind::Location(_));
    if redirect.append_slash && ends_with_path && !out.ends_with(b"/") {
        out.push(b'/');
    }
    if out.is_empty() && redirect.ignore_empty { None } else { Some(out) }
}

/// Adds the address of an end of a client's connection for `option forwardfor` and `originalto` of frontend and backend. The
/// backend says by which name if it says anything. Each may insist on it where the client has sent one already, and each may
/// name a network of which nothing is told.
pub fn add_address(
    headers: &mut Headers,
    front: Option<&ForwardFor>,
    back: Option<&ForwardFor>,
    address: impl FnOnce() -> Option<SocketAddr>,
) {
    let Some(named) = back.or(front) else { return };
    let said = || front.into_iter().chain(back);
    if said().all(|option| option.if_none) && headers.contains(named.header.as_bytes()) {
        return;
    }
    let Some(ip) = address().map(|address| address.ip()) else { return };
    if !said().filter_map(|option| option.except).any(|(network, bits)| in_network(ip, network, bits)) {
        headers.add(named.header.as_bytes(), ip.to_string().as_bytes());
    }
}

fn in_network(ip: std::net::IpAddr, network: std::net::IpAddr, bits: u8) -> bool {
    use std::net::IpAddr::{V4, V6};
    match (ip, network) {
        (V4(ip), V4(network)) => {
            let shift = 32_u32.saturating_sub(u32::from(bits));
            ip.to_bits().checked_shr(shift) == network.to_bits().checked_shr(shift)
        }
        (V6(ip), V6(network)) => {
            let shift = 128_u32.saturating_sub(u32::from(bits));
            ip.to_bits().checked_shr(shift) == network.to_bits().checked_shr(shift)
        }
        _ => false,
    }
}
