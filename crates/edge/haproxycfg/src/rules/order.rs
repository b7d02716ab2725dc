//! Warnings about rules that stand after others which are run later all the same.
//!
//! HAProxy runs rules in this order, whatever the order of their lines: `tcp-request connection`, `tcp-request session`,
//! `tcp-request content`, `monitor fail`, `http-request`, `redirect`, `use_backend`, `use-server`.

use super::{ruleset::Ruleset, words::wrong};
use crate::{line::Line, scope::Scope};

/// Which kinds of rules the section itself has. Those that it inherits do not count.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of rule of its own")]
pub(super) struct Own {
    pub(super) session: bool,
    pub(super) content: bool,
    pub(super) monitor: bool,
    pub(super) http_request: bool,
    pub(super) redirect: bool,
    pub(super) use_backend: bool,
    pub(super) use_server: bool,
    request_ended: bool,
    response_ended: bool,
    after_response_ended: bool,
    pub(super) stats_ended: bool,
}

impl Own {
    /// Whether the last rule of a set ends it unconditionally.
    pub(super) fn is_ended(&self, ruleset: Ruleset) -> bool {
        match ruleset {
            Ruleset::HttpRequest => self.request_ended,
            Ruleset::HttpResponse => self.response_ended,
            Ruleset::HttpAfterResponse => self.after_response_ended,
            _ => false,
        }
    }

    /// A rule was added to a set; `ends` when nothing after it is ever run.
    pub(super) fn note(&mut self, ruleset: Ruleset, ends: bool) {
        match ruleset {
            Ruleset::HttpRequest => {
                self.http_request = true;
                self.request_ended = ends;
            }
            Ruleset::HttpResponse => self.response_ended = ends,
            Ruleset::HttpAfterResponse => self.after_response_ended = ends,
            Ruleset::TcpRequestSession => self.session = true,
            Ruleset::TcpRequestContent => self.content = true,
            _ => {}
        }
    }

    /// The kinds of rules in the order in which they are run, and whether the section has any.
    fn in_order(self) -> [(&'static str, bool); 7] {
        [
            ("a 'tcp-request session'", self.session),
            ("a 'tcp-request content'", self.content),
            ("a 'monitor fail'", self.monitor),
            ("an 'http-request'", self.http_request),
            ("a 'redirect'", self.redirect),
            ("a 'use_backend'", self.use_backend),
            ("a 'use-server'", self.use_server),
        ]
    }
}

/// Warns if the section already has a rule of a kind that is run later, which are those from `first` on.
fn warn_after(scope: &mut Scope<'_>, line: &Line, keyword: &str, first: usize) {
    let own = scope.proxy().rules.own;
    if let Some((kind, _)) = own.in_order().into_iter().skip(first).find(|(_, present)| *present) {
        let message = format!("a '{keyword}' rule placed after {kind} rule will still be processed before.");
        scope.warn(line, wrong(message, 0));
    }
}

/// For a `tcp-request` line.
pub(super) fn warn_tcp_request(scope: &mut Scope<'_>, line: &Line, ruleset: Ruleset) {
    let first = match ruleset {
        Ruleset::TcpRequestConnection => 0,
        Ruleset::TcpRequestSession => 1,
        _ => 2,
    };
    warn_after(scope, line, line.word(0), first);
}

/// For a `monitor fail` line.
pub(super) fn warn_monitor(scope: &mut Scope<'_>, line: &Line) {
    warn_after(scope, line, "monitor fail", 3);
}

/// For an `http-request` line.
pub(super) fn warn_http_request(scope: &mut Scope<'_>, line: &Line) {
    warn_after(scope, line, line.word(0), 4);
}

/// For a `redirect` line.
pub(super) fn warn_redirect(scope: &mut Scope<'_>, line: &Line, keyword: &str) {
    warn_after(scope, line, keyword, 5);
}
