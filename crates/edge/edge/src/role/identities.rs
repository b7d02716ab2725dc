//! Users and groups that a configuration names, which must be there when it is checked.

use haproxycfg::{
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{Bind, Config, Identity, Location},
};
use runtime::process::{group_id, user_id};

type Find = fn(&str) -> std::io::Result<Option<u32>>;

/// Who is named, if anybody is, and where.
type Named = Option<(Identity, Location)>;

/// The number of who is named, if there is anybody of that name.
pub fn number_of(identity: Option<&Identity>, find: Find) -> Option<u32> {
    match identity? {
        Identity::Number(number) => Some(*number),
        Identity::Name(name) => find(name).ok().flatten(),
    }
}

/// The number of a user.
pub fn user(identity: Option<&Identity>) -> Option<u32> {
    number_of(identity, user_id)
}

/// The number of a group.
pub fn group(identity: Option<&Identity>) -> Option<u32> {
    number_of(identity, group_id)
}

/// Who is named and is not there on this machine.
pub fn missing(config: &Config) -> Vec<Diagnostic> {
    let global = &config.global;
    let mut named: Vec<(Named, Named)> = vec![(global.user.clone(), global.group.clone())];
    named.extend(config.programs.iter().map(|program| (program.user.clone(), program.group.clone())));
    let of_bind = |bind: &Bind| {
        let placed = |identity: &Option<Identity>| Some((identity.clone()?, bind.location.clone()));
        (placed(&bind.unix.user), placed(&bind.unix.group))
    };
    named.extend(config.proxies.iter().flat_map(|proxy| &proxy.binds).map(of_bind));
    named.extend(global.stats_sockets.iter().map(|socket| of_bind(&socket.bind)));
    let mut said = Vec::new();
    for (user, group) in named {
        said.extend(user.and_then(|(identity, location)| problem("user", &identity, location, user_id)));
        said.extend(group.and_then(|(identity, location)| problem("group", &identity, location, group_id)));
    }
    said
}

fn problem(kind: &str, identity: &Identity, location: Location, find: Find) -> Option<Diagnostic> {
    let Identity::Name(name) = identity else { return None };
    let reason = match find(name) {
        Ok(Some(_)) => return None,
        Ok(None) => "0:Success".to_owned(),
        Err(error) => format!("{}:{error}", error.raw_os_error().unwrap_or(0)),
    };
    Some(Diagnostic {
        prefix: Prefix::Parsing,
        location: Some(location),
        ..Diagnostic::whole(
            Severity::Alert,
            format!("cannot find {kind} id for '{name}' ({reason}); create it or name another"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_must_be_there() {
        let said = |lines: &str| {
            let text = format!("global\n{lines}\n");
            let files = haproxycfg::source::Bundle::default().with("t.cfg", text.as_bytes());
            let parsed =
                haproxycfg::parse(&["t.cfg".to_owned()], &files, Default::default(), &haproxycfg::Options::default());
            let missing = missing(&parsed.config.unwrap());
            missing.iter().map(|said| said.render(1)).collect::<String>()
        };
        for lines in ["user root\ngroup root", "uid 12345", "stats socket /tmp/x user root"] {
            assert_eq!(said(lines), "", "{lines}");
        }
        for (lines, place) in [
            ("user no-such-user", "[t.cfg:2] : cannot find user id for 'no-such-user' (0:Success)"),
            ("user root\ngroup no-such-group", "[t.cfg:3] : cannot find group id for 'no-such-group'"),
            ("stats socket /tmp/x user no-such-user", "[t.cfg:2] : cannot find user id for 'no-such-user'"),
        ] {
            assert!(said(lines).contains(place), "{}", said(lines));
        }
    }
}
