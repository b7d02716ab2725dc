//! The master's command socket: `-S`.

use edge::role::control_name;
use haproxycfg::model::CliLevel;
use runtime::process::{group_id, user_id};

/// An address of `-S`: a path, `ip:port`, or HAProxy's prefixes, then options of `bind` lines after commas.
pub fn control_listener(text: &str) -> Result<runtime::ListenSpec, String> {
    let mut words = text.split(',').filter(|word| !word.is_empty());
    let address = words.next().unwrap_or_default();
    let number = |number: &str, prefix: &str| {
        number.parse().map_err(|_| format!("-S: '{address}': {prefix} takes the number of a descriptor"))
    };
    let parsed = if let Some(path) = address.strip_prefix("unix@") {
        runtime::Address::Unix(path.into())
    } else if let Some(name) = address.strip_prefix("abns@") {
        runtime::Address::Abstract(name.to_owned())
    } else if let Some(descriptor) = address.strip_prefix("fd@") {
        runtime::Address::Inherited(number(descriptor, "fd@")?)
    } else if let Some(descriptor) = address.strip_prefix("sockpair@") {
        runtime::Address::SocketPair(number(descriptor, "sockpair@")?)
    } else if let Ok(address) = address.parse() {
        runtime::Address::Ip(address)
    } else {
        runtime::Address::Unix(address.into())
    };
    let mut spec = runtime::ListenSpec::new(control_name(CliLevel::Admin), parsed);
    let words: Vec<&str> = words.collect();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        let first = words.first().copied().unwrap_or_default();
        let wrong = |what: &str| format!("'{address} {first}' : '{word}' {what}");
        let value = rest.next().ok_or_else(|| wrong("expects a value"));
        let id = |value: &str| value.parse().map_err(|_| wrong("expects a number"));
        match word {
            "level" => {
                let level = match value? {
                    "user" => CliLevel::User,
                    "operator" => CliLevel::Operator,
                    "admin" => CliLevel::Admin,
                    _ => return Err(wrong("only supports 'user', 'operator', and 'admin'")),
                };
                control_name(level).clone_into(&mut spec.name);
            }
            "mode" => {
                let bits = u32::from_str_radix(value?, 8).map_err(|_| wrong("expects an octal number"))?;
                spec.unix.mode = Some(bits);
            }
            "uid" => spec.unix.uid = Some(id(value?)?),
            "gid" => spec.unix.gid = Some(id(value?)?),
            "user" => spec.unix.uid = Some(user_id(value?).ok().flatten().ok_or_else(|| wrong("names nobody"))?),
            "group" => spec.unix.gid = Some(group_id(value?).ok().flatten().ok_or_else(|| wrong("names no group"))?),
            _ => return Err(format!("'{address} {first}' : unknown keyword '{word}'.")),
        }
    }
    Ok(spec)
}

/// An address as HAProxy lists it.
pub fn listed(address: &runtime::Address) -> String {
    match address {
        runtime::Address::Ip(address) if address.is_ipv4() => format!("ipv4@{address}"),
        runtime::Address::Ip(address) => format!("ipv6@{address}"),
        runtime::Address::Datagrams(address) => format!("udp@{address}"),
        quic @ runtime::Address::SharedDatagrams(_) => quic.to_string(),
        runtime::Address::Unix(path) => format!("unix@{}", path.display()),
        runtime::Address::Abstract(name) => format!("abns@{name}"),
        runtime::Address::Inherited(number) => format!("fd@{number}"),
        runtime::Address::SocketPair(number) => format!("sockpair@{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_control_sockets_are_read() {
        let spec = control_listener("/run/m,level,operator,mode,600,uid,5").unwrap();
        assert_eq!(
            (spec.unix.mode, spec.unix.uid, spec.name.as_str()),
            (Some(0o600), Some(5), "master-socket operator")
        );
        for (text, expected) in [
            ("/run/m,level,king", "'/run/m level' : 'level' only supports 'user', 'operator', and 'admin'"),
            ("/run/m,level", "'/run/m level' : 'level' expects a value"),
            ("/run/m,levle,user", "'/run/m levle' : unknown keyword 'levle'."),
            ("/run/m,mode,9", "'/run/m mode' : 'mode' expects an octal number"),
        ] {
            assert_eq!(control_listener(text).unwrap_err(), expected);
        }
    }
}
