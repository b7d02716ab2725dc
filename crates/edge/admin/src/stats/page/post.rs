//! Actions of the statistics page: HAProxy's form, so that its scripts keep working.

use crate::stats::{
    control::{Control, Health, ServerChange, find_proxy},
    text::decode_url,
};

/// Bytes that a key and its value may have together.
const PARAMETER_LEN_MAX: usize = 2_048;

/// How an action went; the code comes back in the URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was done.
    Done,
    /// There was nothing to do.
    Nothing,
    /// Some of it was done.
    Partly,
    /// The form made no sense.
    Invalid,
    /// The form was too long.
    TooLong,
    /// Not allowed.
    Denied,
    /// Neither GET nor POST.
    BadMethod,
    /// A code that nobody knows.
    Unknown,
}

impl Outcome {
    const CODES: [(Self, &'static str); 7] = [
        (Self::Done, "DONE"),
        (Self::Nothing, "NONE"),
        (Self::Partly, "PART"),
        (Self::Invalid, "ERRP"),
        (Self::TooLong, "EXCD"),
        (Self::Denied, "DENY"),
        (Self::BadMethod, "IVAL"),
    ];

    /// HAProxy's code.
    #[must_use]
    pub fn code(self) -> &'static str {
        Self::CODES.iter().find(|(outcome, _)| *outcome == self).map_or("UNKN", |(_, code)| code)
    }

    /// The outcome of a code.
    #[must_use]
    pub fn coded(code: &str) -> Self {
        Self::CODES.iter().find(|(_, known)| *known == code).map_or(Self::Unknown, |(outcome, _)| *outcome)
    }

    /// What the page says.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Done => "Done.",
            Self::Nothing => "Nothing was changed.",
            Self::Partly => "Done for some of the servers only: others do not exist or cannot be changed like that.",
            Self::Invalid => "Nothing was done: the action, the backend or the servers are not known.",
            Self::TooLong => "Nothing was done: too many servers at a time.",
            Self::Denied => "Nothing was done: you are not allowed to change anything here.",
            Self::BadMethod => "Nothing was done: this page only knows GET and POST.",
            Self::Unknown => "Nobody knows how that went.",
        }
    }

    /// Whether it is good news.
    #[must_use]
    pub fn good(self) -> bool {
        self == Self::Done
    }
}

/// The actions by HAProxy's names, and what they do.
fn action(name: &str) -> Option<ServerChange> {
    Some(match name {
        "ready" | "enable" | "start" => ServerChange::Ready,
        "drain" | "stop" => ServerChange::Drain,
        "maint" | "disable" => ServerChange::Maintain,
        "dhlth" => ServerChange::Checks(false),
        "ehlth" => ServerChange::Checks(true),
        "hrunn" => ServerChange::Health(Health::Up),
        "hnolb" => ServerChange::Health(Health::Stopping),
        "hdown" => ServerChange::Health(Health::Down),
        "shutdown" => ServerChange::ShutSessions,
        "dagent" => ServerChange::AgentChecks(false),
        "eagent" => ServerChange::AgentChecks(true),
        "arunn" => ServerChange::Agent(true),
        "adown" => ServerChange::Agent(false),
        _ => return None,
    })
}

/// Does what a form asks for: `b` is the backend (`#` and its number, or its name), `action` what is to be done, and each
/// `s` the name of a server. Where `b` or `action` come more than once, the last one counts.
#[must_use]
pub fn act(control: &dyn Control, body: &[u8]) -> Outcome {
    let (mut backend, mut wanted, mut servers) = (None, None, Vec::new());
    for parameter in body.split(|byte| *byte == b'&') {
        if parameter.len() > PARAMETER_LEN_MAX {
            return Outcome::Invalid;
        }
        let mut parts = parameter.splitn(2, |byte| *byte == b'=');
        let mut next = || {
            let decoded = decode_url(parts.next().unwrap_or_default(), true)?;
            String::from_utf8(decoded).ok()
        };
        let (Some(key), Some(value)) = (next(), next()) else { return Outcome::Invalid };
        match key.as_str() {
            "b" => backend = Some(value),
            "action" => wanted = Some(value),
            "s" => servers.push(value),
            _ => {}
        }
    }
    if servers.is_empty() {
        return Outcome::Nothing;
    }
    let (Some(backend), Some(wanted)) = (backend, wanted) else { return Outcome::Nothing };
    let Some(proxy) = find_proxy(control, &backend, |proxy| proxy.backend) else { return Outcome::Invalid };
    let Some(change) = action(&wanted) else { return Outcome::Invalid };
    // HAProxy reads the form from its end, and servers come back into the balance in the order in which they are set up.
    let known: Vec<_> = servers.iter().rev().filter_map(|name| control.server_named(proxy.index, name)).collect();
    let altered = known.iter().filter(|server| control.change_server(**server, change.clone()).is_ok()).count();
    match altered {
        0 if known.is_empty() => Outcome::Invalid,
        // A server that is not asked about has nothing to be changed: there is no agent, or no check.
        0 => Outcome::Nothing,
        all if all == servers.len() => Outcome::Done,
        _ => Outcome::Partly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::samples::FakeControl;

    #[test]
    fn form() {
        for (body, expected, changes) in [
            ("s=s1&action=drain&b=%233", Outcome::Done, "app/s1 Drain"),
            ("s=s1&s=s2&action=maint&b=app", Outcome::Done, "app/s2 Maintain, app/s1 Maintain"),
            ("s=s1&s=nope&action=ready&b=app", Outcome::Partly, "app/s1 Ready"),
            ("b=app&action=hdown&s=s2", Outcome::Done, "app/s2 Health(Down)"),
            ("b=app&action=maint&action=shutdown&s=s2", Outcome::Done, "app/s2 ShutSessions"),
            ("s=nope&action=ready&b=app", Outcome::Invalid, ""),
            ("s=s1&action=explode&b=app", Outcome::Invalid, ""),
            ("s=s1&action=&b=app", Outcome::Invalid, ""),
            ("s=s1&action=ready&b=nope", Outcome::Invalid, ""),
            ("s=s1&action=ready&b=web", Outcome::Invalid, ""),
            ("s=s1&action=arunn&b=app", Outcome::Done, "app/s1 Agent(true)"),
            ("s=s1&action=dagent&b=app", Outcome::Done, "app/s1 AgentChecks(false)"),
            ("s=s1&action=eagent&b=app", Outcome::Nothing, ""),
            ("s=s1&b=app", Outcome::Nothing, ""),
            ("action=ready&b=app", Outcome::Nothing, ""),
            ("s=%zz&action=ready&b=app", Outcome::Invalid, ""),
        ] {
            let control = FakeControl::default();
            assert_eq!(act(&control, body.as_bytes()), expected, "{body}");
            assert_eq!(control.changes(), changes, "{body}");
        }
    }

    #[test]
    fn a_form_without_bounds_is_refused() {
        let body = format!("b=app&action=ready&s={}", "x".repeat(PARAMETER_LEN_MAX));
        assert_eq!(act(&FakeControl::default(), body.as_bytes()), Outcome::Invalid);
    }

    #[test]
    fn codes_go_both_ways() {
        for (outcome, code) in Outcome::CODES {
            assert_eq!((outcome.code(), Outcome::coded(code)), (code, outcome));
        }
        assert_eq!(Outcome::Unknown.code(), "UNKN");
    }
}
