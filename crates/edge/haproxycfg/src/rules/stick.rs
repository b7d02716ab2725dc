//! Stickiness (`stick`), and what rules of all sets do with tables: `track-sc*`, `sc-inc-gpc*`, `sc-set-gpt*`.

use std::sync::Arc;

use sample::{Expression as Expr, Place, Places, Source, Sources, stick_key_type};
use stick::{DataType, Gpc};

use super::{
    ruleset::Ruleset,
    words::{around, is_condition, leading_integer, wrong},
};
use crate::{
    diagnostics::{Prefix, Problem, Severity},
    line::Line,
    model::{
        HttpAction, Mode, Rule, STICK_COUNTERS, StickAction, StickRule, StreamAction, TableIndex, TagValue, TcpAction,
        Track,
    },
    scope::Scope,
    table::{Group, Keyword, Sections},
};

const CHAPTER: &str = "4.2";

/// Keywords of stickiness.
pub(super) const KEYWORDS: &[Keyword] = &[Keyword::new(
    Group::Proxy,
    "stick",
    "{ match | on | store-request | store-response } <expr> [table <table>] [ { if | unless } <condition> ]",
    CHAPTER,
)
.sections(Sections::BACKEND)
.doc("Remembers in a stick table which server a client belongs to.", "stick on src table limits")
.line(stick)];

/// A `stick` line until its table is known.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    line: Line,
    rule: StickRule,
    table: Option<String>,
    on_response: bool,
}

fn stick(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (matches, stores, on_response) = match line.word(1) {
        "store" | "store-request" => (false, true, false),
        "store-response" => (false, true, true),
        "match" => (true, false, false),
        "on" => (true, true, false),
        word => {
            return Err(wrong("'stick' expects 'on', 'match', or 'store'.", 1)
                .nearest(word, ["on", "match", "store-request", "store-response"]));
        }
    };
    if line.word(2).is_empty() {
        return Err(wrong("'stick' expects a fetch method.", 2).expected("a sample expression, as in src"));
    }
    let place = if on_response { Place::StickStore } else { Place::UseServer };
    let mut index = 2;
    let expr = scope
        .expr(line, &mut index, Places::NONE)
        .map_err(|problem| around(problem, |error| format!("'stick': {error}")))?;
    if !expr.places().contains(place) {
        let when = if on_response { "for 'store-response'" } else { "during request" };
        let message = format!(
            "'stick': fetch method '{}' extracts information from '{}', none of which is available {when}.",
            expr.fetch().name,
            expr.sources().names()
        );
        return Err(wrong(message, 2));
    }
    let mut table = None;
    if line.word(index) == "table" {
        table = Some(line.word(index + 1).to_owned());
        index += 2;
    }
    let word = line.word(index);
    if !word.is_empty() && !is_condition(word) {
        return Err(wrong(format!("'stick': unknown keyword '{word}'."), index).expected("table, if or unless"));
    }
    let condition = scope.condition(line, index, Places::only(place)).map_err(|problem| {
        around(problem, |error| format!("'stick': error detected while parsing sticking condition : {error}."))
    })?;
    let rule = StickRule { matches, stores, expr, table: TableIndex::UNKNOWN, condition };
    scope.proxy().rules.sticks.push(Waiting { line: line.clone(), rule, table, on_response });
    Ok(())
}

/// The number of a tracked counter at the end of `text`, which must be all of it.
fn counter(text: &str) -> Option<usize> {
    let (number, rest) = leading_integer(text, false);
    usize::try_from(number).ok().filter(|_| rest.is_empty())
}

/// `track-sc<number> <key> [table <table>]`.
pub(super) fn track(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<StickAction, Problem> {
    let at = *index;
    let ruleset = Ruleset::of(line, at);
    let number = line.word(at).strip_prefix("track-sc").unwrap_or_default();
    let most = STICK_COUNTERS - 1;
    let expected = format!("track-sc0 to track-sc{most}");
    let Some(counter) = counter(number) else {
        return Err(wrong(format!("Wrong track-sc number '{number}'"), at).expected(expected));
    };
    if counter > most {
        let message = format!("{counter} track-sc number exceeding {most} (MAX_SESS_STKCTR-1) value");
        return Err(wrong(message, at).expected(expected));
    }
    *index += 1;
    let places = ruleset.places(scope);
    let expr = super::common::expression(scope, line, index, places)?;
    let mut table_name = None;
    if line.word(*index) == "table" {
        *index += 1;
        let name = line.word(*index);
        if name.is_empty() {
            return Err(wrong("missing table name", *index).expected("the name of a section with a stick-table"));
        }
        table_name = Some(Arc::from(name));
        *index += 1;
    }
    Ok(StickAction::Track(Track { counter, expr, table: TableIndex::UNKNOWN, table_name }))
}

/// What stands in the parentheses of `word` behind `stem`, if anything does.
fn parenthesized(rest: &str) -> Option<&str> {
    rest.strip_prefix('(')?.strip_suffix(')')
}

/// What is behind the name of `sc-inc-gpc0(<counter>)`, `sc-set-gpt(<index>,<counter>)` and their like, for their errors: HAProxy
/// shows the whole word in most of them.
#[derive(Clone, Copy)]
struct Behind<'a> {
    word: &'a str,
    at: usize,
    rest: &'a str,
    /// `gpc` or `gpt`.
    what: &'a str,
}

impl Behind<'_> {
    /// The counter in parentheses: the first one where nothing is given.
    fn single(self, expected: &str) -> Result<usize, Problem> {
        if self.rest.is_empty() {
            return Ok(0);
        }
        let shown = if self.what == "gpt" { format!(" '{}'", self.word) } else { String::new() };
        let invalid = || wrong(format!("invalid stick table track ID{shown}. Expects {expected}(<Track ID>)"), self.at);
        let counter = parenthesized(self.rest).and_then(counter).ok_or_else(invalid)?;
        self.in_range(counter, &shown)
    }

    fn in_range(self, counter: usize, shown: &str) -> Result<usize, Problem> {
        let most = STICK_COUNTERS - 1;
        if counter > most {
            let message = format!("invalid stick table track ID{shown}. The max allowed ID is {most}");
            return Err(wrong(message, self.at).expected(format!("0 to {most}")));
        }
        Ok(counter)
    }

    /// Index and counter.
    fn pair(self, usage: &str) -> Result<(u32, usize), Problem> {
        let Self { word, at, rest, what } = self;
        let missing = || wrong(format!("Missing {what} ID '{word}'. Expects {usage}"), at);
        let (index, behind) = rest.strip_prefix('(').and_then(|inside| inside.split_once(',')).ok_or_else(missing)?;
        let index = counter(index).and_then(|index| u32::try_from(index).ok()).ok_or_else(missing)?;
        let counter = behind
            .strip_suffix(')')
            .and_then(counter)
            .ok_or_else(|| wrong(format!("invalid stick table track ID '{word}'. Expects {usage}"), at))?;
        Ok((index, self.in_range(counter, &format!(" '{word}'"))?))
    }
}

/// `sc-inc-gpc(<index>,<counter>)`, `sc-inc-gpc0[(<counter>)]`, `sc-inc-gpc1[(<counter>)]`.
pub(super) fn increment(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<StickAction, Problem> {
    let at = *index;
    let word = line.word(at);
    let rest = word.strip_prefix("sc-inc-gpc").unwrap_or_default();
    let behind = |rest| Behind { word, at, rest, what: "gpc" };
    *index += 1;
    let (counter, gpc) = match rest.as_bytes().first() {
        Some(b'(') => {
            let (element, counter) = behind(rest).pair("sc-inc-gpc(<GPC ID>,<Track ID>)")?;
            (counter, Gpc::Element(element))
        }
        Some(b'0') => (behind(rest.get(1..).unwrap_or_default()).single(word)?, Gpc::First),
        Some(b'1') => (behind(rest.get(1..).unwrap_or_default()).single(word)?, Gpc::Second),
        _ => {
            return Err(wrong(format!("invalid gpc ID '{word}'. Expects sc-set-gpc(<GPC ID>,<Track ID>)"), at));
        }
    };
    Ok(StickAction::Increment(counter, gpc))
}

/// `sc-set-gpt(<index>,<counter>) <value>`, `sc-set-gpt0[(<counter>)] <value>`.
pub(super) fn set_tag(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<StickAction, Problem> {
    let at = *index;
    let ruleset = Ruleset::of(line, at);
    let word = line.word(at);
    let rest = word.strip_prefix("sc-set-gpt").unwrap_or_default();
    let behind = |rest| Behind { word, at, rest, what: "gpt" };
    *index += 1;
    let (counter, tag) = match rest.as_bytes().first() {
        Some(b'(') => {
            let (element, counter) = behind(rest).pair("sc-set-gpt(<GPT ID>,<Track ID>)")?;
            (counter, (DataType::Gpt, element))
        }
        Some(b'0') => (behind(rest.get(1..).unwrap_or_default()).single("sc-set-gpt0")?, (DataType::Gpt0, 0)),
        _ => {
            return Err(wrong(format!("invalid gpt ID '{word}'. Expects sc-set-gpt(<GPT ID>,<Track ID>)"), at));
        }
    };
    let (number, behind) = leading_integer(line.word(*index), false);
    let value = if line.word(*index).is_empty() {
        // As in HAProxy, no value is 0.
        TagValue::Fixed(0)
    } else if behind.is_empty() {
        *index += 1;
        // As in HAProxy, the lower half of it.
        TagValue::Fixed(number as u32)
    } else if ruleset == Ruleset::TcpRequestConnection {
        return Err(
            wrong("expressions cannot be used in 'tcp-request connection' rules", *index).expected("an integer")
        );
    } else {
        let places = ruleset.places(scope);
        TagValue::Expr(super::common::expression(scope, line, index, places)?)
    };
    Ok(StickAction::SetTag { counter, tag, value })
}

/// Finds the tables, once all sections are known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    check_peers(scope);
    finish_sticks(scope);
    finish_tracks(scope);
}

/// Tables are shared with peers that there are.
fn check_peers(scope: &mut Scope<'_>) {
    let proxy = &scope.proxy().proxy;
    let (Some(index), name) = (proxy.stick_table, Arc::clone(&proxy.name)) else { return };
    let peers = scope.stick_table(index).and_then(|table| table.peers.clone());
    let Some(peers) = peers else { return };
    match scope.peers_named(&peers) {
        None => scope.whole(Severity::Alert, format!("Proxy '{name}': unable to find sync peers '{peers}'.")),
        Some(section) if !section.disabled && !section.is_complete => {
            let local = scope.state.global.localpeer.clone().unwrap_or_default();
            let message = format!("Proxy '{name}': unable to find local peer '{local}' in peers section '{peers}'.");
            scope.whole(Severity::Alert, message);
        }
        Some(_) => {}
    }
}

/// The table of that name, or the section's own.
pub(super) fn resolve(scope: &mut Scope<'_>, name: Option<&str>) -> Option<TableIndex> {
    match name {
        Some(name) => scope.stick_table_named(name),
        None => scope.proxy().proxy.stick_table,
    }
}

/// Whether what an expression gives can be a key of a table.
pub(super) fn fits(scope: &Scope<'_>, expr: &Expr, table: TableIndex) -> bool {
    scope.stick_table(table).is_some_and(|table| expr.output().casts_to(stick_key_type(table.definition.key)))
}

fn finish_sticks(scope: &mut Scope<'_>) {
    let own = Arc::clone(&scope.proxy().proxy.name);
    for waiting in std::mem::take(&mut scope.proxy().rules.sticks) {
        let Waiting { line, mut rule, table, on_response } = waiting;
        let shown = table.as_deref().unwrap_or(&own);
        let problem = match resolve(scope, table.as_deref()) {
            Some(index) if fits(scope, &rule.expr, index) => {
                rule.table = index;
                if let Some(table) = scope.state.stick_tables.get_mut(index.0 as usize) {
                    // They may be there already.
                    let layout = &mut table.definition.layout;
                    let _ = layout.store(DataType::ServerId, None, None);
                    let _ = layout.store(DataType::ServerKey, None, None);
                }
                let proxy = &mut scope.proxy().proxy;
                let rules = if on_response { &mut proxy.store_response_rules } else { &mut proxy.sticking_rules };
                rules.push(rule);
                continue;
            }
            Some(_) => format!("Proxy '{own}': type of fetch not usable with type of stick-table '{shown}'."),
            None if on_response => format!("Proxy '{own}': unable to find store table '{shown}'."),
            None => format!("Proxy '{own}': unable to find stick-table '{shown}'."),
        };
        let expected = "the name of a section with a 'stick-table'";
        scope.alert(&line, wrong(problem, 2).prefix(Prefix::Nothing).expected(expected));
    }
}

fn http_track(rule: &mut Rule<HttpAction>) -> Option<&mut Track> {
    match &mut rule.action {
        HttpAction::Stream(StreamAction::Stick(StickAction::Track(track))) => Some(track),
        _ => None,
    }
}

fn tcp_track(rule: &mut Rule<TcpAction>) -> Option<&mut Track> {
    match &mut rule.action {
        TcpAction::Stream(StreamAction::Stick(StickAction::Track(track))) => Some(track),
        _ => None,
    }
}

fn finish_tracks(scope: &mut Scope<'_>) {
    warn_of_content(scope);
    let own = Arc::clone(&scope.proxy().proxy.name);
    let mut proxy = std::mem::take(&mut scope.proxy().proxy);
    let stick_table = proxy.stick_table;
    let tcp = proxy
        .tcp_request_connection
        .iter_mut()
        .chain(&mut proxy.tcp_request_session)
        .chain(&mut proxy.tcp_request_content)
        .chain(&mut proxy.tcp_response_content)
        .filter_map(tcp_track);
    let http = proxy.http_request.iter_mut().chain(&mut proxy.http_response).filter_map(http_track);
    let mut problems = Vec::new();
    for track in tcp.chain(http) {
        let shown = track.table_name.as_deref().unwrap_or(&own);
        let table = track.table_name.as_deref().map_or(stick_table, |name| scope.stick_table_named(name));
        match table {
            None => problems.push(format!("unable to find table '{shown}' referenced by track-sc{}", track.counter)),
            Some(table) if !fits(scope, &track.expr, table) => problems.push(format!(
                "stick-table '{shown}' uses a type incompatible with the 'track-sc{}' rule",
                track.counter
            )),
            Some(table) => track.table = table,
        }
    }
    scope.proxy().proxy = proxy;
    for problem in problems {
        scope.whole(Severity::Alert, format!("Proxy '{own}': {problem}."));
    }
}

/// Rules of `defaults` have no section whose table could be meant.
pub(super) fn finish_defaults(scope: &mut Scope<'_>) {
    let mut problems = Vec::new();
    let is_used = |usage: &crate::keywords::sections::Usage| usage.by_name || usage.by_place;
    for (index, _) in scope.state.simple.usage.iter().enumerate().filter(|(_, usage)| is_used(usage)) {
        let Some(proxy) = scope.state.defaults.get(index).map(|draft| &draft.proxy) else { continue };
        let of_http = proxy.http_request.iter().chain(&proxy.http_response).map(|rule| match &rule.action {
            HttpAction::Stream(StreamAction::Stick(action)) => Some(action),
            _ => None,
        });
        let tcp = [
            &proxy.tcp_request_connection,
            &proxy.tcp_request_session,
            &proxy.tcp_request_content,
            &proxy.tcp_response_content,
        ];
        let of_tcp = tcp.into_iter().flatten().map(|rule| match &rule.action {
            TcpAction::Stream(StreamAction::Stick(action)) => Some(action),
            _ => None,
        });
        for action in of_http.chain(of_tcp).flatten() {
            if let StickAction::Track(Track { counter, table_name: None, .. }) = action {
                let name = &proxy.name;
                problems
                    .push(format!("Proxy '{name}': unable to find table '{name}' referenced by track-sc{counter}."));
            }
        }
    }
    for problem in problems {
        scope.whole(Severity::Alert, problem);
    }
}

/// What only the content of a request can tell should be waited for, and what it cannot tell should not wait for it.
fn warn_of_content(scope: &mut Scope<'_>) {
    const CONTENT: Sources =
        Sources::of(&[Source::RequestBuffer, Source::RequestHeaders, Source::Request, Source::RequestBody]);
    let kind = scope.kind_word();
    let proxy = &mut scope.proxy().proxy;
    if !proxy.kind.has_frontend() {
        return;
    }
    let name = Arc::clone(&proxy.name);
    let waits = proxy.tcp_request_inspect_delay.is_some_and(|delay| !delay.is_zero());
    let mut warnings = Vec::new();
    for rule in &proxy.tcp_request_content {
        let TcpAction::Stream(StreamAction::Stick(StickAction::Track(track))) = &rule.action else { continue };
        if !waits && !track.expr.places().contains(Place::FrontendSession) {
            warnings.push(format!(
                "{kind} '{name}' : a 'tcp-request content track-sc*' rule explicitly depending on request contents \
                 without any 'tcp-request inspect-delay' setting. This means that this rule will randomly find its \
                 contents. This can be fixed by setting the tcp-request inspect-delay."
            ));
        }
        let asks = track.expr.sources().intersects(CONTENT)
            || rule.condition.as_ref().is_some_and(|condition| condition.sources().intersects(CONTENT));
        if proxy.mode == Mode::Http && !asks {
            warnings.push(format!(
                "{kind} '{name}' : a 'tcp-request content track-sc*' rule not depending on request contents for an \
                 HTTP frontend should be executed at the session level, using a 'tcp-request session' rule (mandatory \
                 to track invalid HTTP requests)."
            ));
        }
    }
    for warning in warnings {
        scope.whole(Severity::Warning, warning);
    }
}
