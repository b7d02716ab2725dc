//! VCL 3 in the words of VCL 4.
//!
//! A text without a version line is VCL 3, the language of Varnish 2.1 and 3.0. Its subroutines, variables and answers are put into
//! today's: `vcl_fetch` is `vcl_backend_response`, where the client's request is no longer at hand, so `req` means the copy of it that
//! went to the backend; `vcl_error` becomes both `vcl_synth` and `vcl_backend_error`. Where that changes what a text means, a note says so.

use super::{Compiler, Outcome};
use crate::{
    action::Action, diagnostic::Diagnostic, source::Span, subroutine::Subroutine, token::Token, variables::Version,
};

/// The subroutine of VCL 3 that makes responses.
pub const ERROR: &str = "vcl_error";
/// The subroutine of VCL 3 that gets a backend's response.
const FETCH: &str = "vcl_fetch";

/// What a name of VCL 3 has become.
pub(super) enum Renamed {
    /// It is what it was.
    Same,
    /// It has this name.
    To(String),
    /// Nothing does what it did; what to do instead.
    Gone(&'static str),
}

/// Names that have others wherever they stand.
const EVERYWHERE: &[(&str, &str)] = &[
    ("req.request", "req.method"),
    ("bereq.request", "bereq.method"),
    ("req.backend", "req.backend_hint"),
    ("beresp.response", "beresp.reason"),
    ("resp.response", "resp.reason"),
    ("obj.response", "obj.reason"),
];

/// What is asked of the client's request in `vcl_fetch` and is known of the backend's.
const OF_REQUEST_IN_FETCH: &[(&str, &str)] = &[
    ("req.request", "bereq.method"),
    ("req.url", "bereq.url"),
    ("req.proto", "bereq.proto"),
    ("req.backend", "bereq.backend"),
    ("req.xid", "bereq.xid"),
    ("req.restarts", "bereq.retries"),
];

/// What VCL 3 has and nothing stands for.
const GONE: &[(&str, &str)] = &[
    ("beresp.cacheable", "Say 'set beresp.uncacheable = true;' for what must not be cached."),
    ("beresp.saintmode", "Return 'restart' to try another backend; there is no saint mode since Varnish 4."),
    ("obj.lastuse", "There is obj.age, the time since the object was made."),
    ("obj.cacheable", "Say 'set beresp.uncacheable = true;' in vcl_fetch."),
];

/// What `name` has become in this subroutine.
pub(super) fn renamed(name: &str, place: Option<Subroutine>) -> Renamed {
    if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == name) {
        return Renamed::Gone(instead);
    }
    let find = |table: &[(&str, &str)]| table.iter().find(|(old, _)| *old == name).map(|(_, new)| (*new).to_owned());
    let in_fetch = matches!(place, Some(Subroutine::BackendResponse | Subroutine::BackendError));
    let made_here = match place {
        Some(Subroutine::Synth) => Some("resp"),
        Some(Subroutine::BackendError) => Some("beresp"),
        _ => None,
    };
    let new = if in_fetch && let Some(new) = find(OF_REQUEST_IN_FETCH) {
        Some(new)
    } else if in_fetch && let Some(header) = name.strip_prefix("req.http.") {
        Some(format!("bereq.http.{header}"))
    } else if let (Some(message), Some(rest)) = (made_here, name.strip_prefix("obj.")) {
        let rest = if rest == "response" { "reason" } else { rest };
        Some(format!("{message}.{rest}"))
    } else if matches!(place, Some(Subroutine::Miss | Subroutine::Pass)) && name.starts_with("bereq.") {
        // The backend's request is made of the client's when these have ended.
        let rest = name.strip_prefix("bereq.").unwrap_or_default();
        let rest = if rest == "request" { "method" } else { rest };
        Some(format!("req.{rest}"))
    } else {
        find(EVERYWHERE)
    };
    new.map_or(Renamed::Same, Renamed::To)
}

impl Compiler<'_> {
    /// The name that a subroutine has today.
    pub(super) fn modern_subroutine(&self, token: Token, name: &str) -> String {
        let is_old = self.version_of(token.span.source) <= Version::V3;
        match name {
            FETCH if is_old => Subroutine::BackendResponse.name().to_owned(),
            ERROR if is_old => Subroutine::Synth.name().to_owned(),
            _ => name.to_owned(),
        }
    }

    /// Says once where the meaning of a text moves.
    pub(super) fn note(&mut self, words: &str, span: Span) {
        if !self.notes.iter().any(|note| note.summary() == words) {
            self.notes.push(Diagnostic::at(words, span));
        }
    }

    /// What an answer of VCL 3 has become.
    pub(super) fn modern_action(&mut self, word: &str, span: Span) -> Option<Action> {
        let place = self.legacy_place;
        match (word, place) {
            ("lookup", Some(Subroutine::Recv)) => Some(Action::Hash),
            ("hash", Some(Subroutine::Hash)) => Some(Action::Lookup),
            ("pass", Some(Subroutine::Pass)) => Some(Action::Fetch),
            ("hit_for_pass", Some(Subroutine::BackendResponse)) => Some(Action::Pass),
            ("restart", Some(Subroutine::BackendResponse | Subroutine::BackendError)) => {
                self.note(
                    "'restart' in vcl_fetch asks the backend again: since Varnish 4 the client's request is elsewhere, so \
                     vcl_recv does not run again.",
                    span,
                );
                Some(Action::Retry)
            }
            ("error", Some(Subroutine::BackendResponse)) => Some(Action::Error),
            ("error", _) => Some(Action::Synth),
            _ => Action::of_name(word),
        }
    }

    /// Says what VCL 3 has and this program has not.
    pub(super) fn gone(name: &str, instead: &str, span: Span) -> Outcome<()> {
        Err(Diagnostic::new(format!("Symbol not found: '{name}' (Only available when VCL syntax <= 3)"))
            .show_range(span)
            .say(instead))
    }
}
