//! `option X`.

use std::net::IpAddr;

use crate::{
    args,
    diagnostics::Problem,
    line::{Line, Modifier},
    model::{ConnectionMode, ForwardFor, Options, RestrictNames},
    scope::Scope,
    table::Group,
};

/// `option`.
pub fn option(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.dispatch(line, 1, Group::Option)
}

/// Options that are on or off.
pub fn switch(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    if let Some(field) = field(&mut scope.proxy().proxy.options, line.word(1)) {
        *field = line.modifier() == Modifier::Set;
    }
    Ok(())
}

fn field<'a>(options: &'a mut Options, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "abortonclose" => &mut options.abortonclose,
        "accept-invalid-http-request" => &mut options.accept_invalid_http_request,
        "accept-invalid-http-response" => &mut options.accept_invalid_http_response,
        "allbackups" => &mut options.allbackups,
        "checkcache" => &mut options.checkcache,
        "clitcpka" => &mut options.clitcpka,
        "disable-h2-upgrade" => &mut options.disable_h2_upgrade,
        "dontlog-normal" => &mut options.dontlog_normal,
        "dontlognull" => &mut options.dontlognull,
        "h1-case-adjust-bogus-client" => &mut options.h1_case_adjust_bogus_client,
        "h1-case-adjust-bogus-server" => &mut options.h1_case_adjust_bogus_server,
        "http-buffer-request" => &mut options.http_buffer_request,
        "http-ignore-probes" => &mut options.http_ignore_probes,
        "http-no-delay" => &mut options.http_no_delay,
        "http-pretend-keepalive" => &mut options.http_pretend_keepalive,
        "http-use-proxy-header" => &mut options.http_use_proxy_header,
        "idle-close-on-response" => &mut options.idle_close_on_response,
        "independent-streams" => &mut options.independent_streams,
        "log-health-checks" => &mut options.log_health_checks,
        "log-separate-errors" => &mut options.log_separate_errors,
        "logasap" => &mut options.logasap,
        "nolinger" => &mut options.nolinger,
        "persist" => &mut options.persist,
        "prefer-last-server" => &mut options.prefer_last_server,
        "socket-stats" => &mut options.socket_stats,
        "srvtcpka" => &mut options.srvtcpka,
        "transparent" => &mut options.transparent,
        _ => return None,
    })
}

/// The options on or off that need HTTP mode, with those that are on.
pub fn http_only(options: &mut Options) -> Vec<(&'static str, &mut bool)> {
    vec![
        ("checkcache", &mut options.checkcache),
        ("http-buffer-request", &mut options.http_buffer_request),
        ("http-ignore-probes", &mut options.http_ignore_probes),
        ("idle-close-on-response", &mut options.idle_close_on_response),
        ("prefer-last-server", &mut options.prefer_last_server),
        ("accept-invalid-http-request", &mut options.accept_invalid_http_request),
        ("accept-invalid-http-response", &mut options.accept_invalid_http_response),
        ("http-use-proxy-header", &mut options.http_use_proxy_header),
        ("http-pretend-keepalive", &mut options.http_pretend_keepalive),
        ("http-no-delay", &mut options.http_no_delay),
        ("h1-case-adjust-bogus-client", &mut options.h1_case_adjust_bogus_client),
        ("h1-case-adjust-bogus-server", &mut options.h1_case_adjust_bogus_server),
        ("disable-h2-upgrade", &mut options.disable_h2_upgrade),
    ]
}

/// `option tcpka`: both sides that the section has.
pub fn tcpka(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let (client, server) = (scope.has_frontend(), scope.has_backend());
    let options = &mut scope.proxy().proxy.options;
    options.clitcpka |= client;
    options.srvtcpka |= server;
    Ok(())
}

/// `option httpclose`, `http-server-close`, `http-keep-alive`: the last one counts.
pub fn connection_mode(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let name = line.word(1);
    let mode = match name {
        "httpclose" => ConnectionMode::Close,
        "http-server-close" => ConnectionMode::ServerClose,
        _ => ConnectionMode::KeepAlive,
    };
    let current = &mut scope.proxy().proxy.connection_mode;
    match line.modifier() {
        Modifier::Set => *current = mode,
        Modifier::No if *current == mode => *current = ConnectionMode::default(),
        Modifier::No => {}
        Modifier::Default => {
            let message = format!("negation/default is not supported for option '{name}'.");
            return Err(Problem::new(message).at(1));
        }
    }
    Ok(())
}

/// `option redispatch`.
pub fn redispatch(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let interval = match line.modifier() {
        Modifier::Set if line.word(2).is_empty() => -1,
        Modifier::Set => args::lenient(scope, line, 2, i32::MIN..=i32::MAX)?,
        Modifier::No | Modifier::Default => 0,
    };
    scope.proxy().proxy.options.redispatch = interval;
    Ok(())
}

/// `option forwardfor` and `originalto`.
pub fn forwarded(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    let is_forwardfor = name == "forwardfor";
    let header = if is_forwardfor { "x-forwarded-for" } else { "x-original-to" };
    let mut forwarded = ForwardFor { except: None, header: header.to_owned(), if_none: false };
    let mut index = 2;
    while !line.word(index).is_empty() {
        let value = line.word(index + 1);
        match line.word(index) {
            "except" => {
                let Some(network) = network(value) else {
                    let message = format!("'option {name} except' expects <address>[/mask] as argument.");
                    return Err(Problem::new(message).at(index + 1));
                };
                forwarded.except = Some(network);
                index += 2;
            }
            "header" if value.is_empty() => {
                let message = format!("'option {name} header' expects <header_name> as argument.");
                return Err(Problem::new(message).at(index + 1));
            }
            "header" => {
                // HAProxy writes names in lower case.
                forwarded.header = value.to_ascii_lowercase();
                index += 2;
            }
            "if-none" if is_forwardfor => {
                forwarded.if_none = true;
                index += 1;
            }
            word => {
                let known: &[&str] =
                    if is_forwardfor { &["except", "header", "if-none"] } else { &["except", "header"] };
                let values = if is_forwardfor { "'except', 'header' and 'if-none'" } else { "'except' and 'header'" };
                let message = format!("'option {name}' only supports optional values: {values}.");
                return Err(Problem::new(message).at(index).nearest(word, known.iter().copied()));
            }
        }
    }
    let options = &mut scope.proxy().proxy.options;
    if is_forwardfor {
        options.forwardfor = Some(forwarded);
    } else {
        options.originalto = Some(forwarded);
    }
    Ok(())
}

/// An address and the length of its mask: `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `::1`.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    let address: IpAddr = address.parse().ok()?;
    let most: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match mask {
        None => most,
        Some(mask) => match mask.parse::<u8>() {
            Ok(length) => length,
            Err(_) => {
                let IpAddr::V4(mask) = mask.parse().ok()? else { return None };
                let bits = mask.to_bits();
                // The model keeps lengths, so that a mask with holes has no place in it.
                let length = bits.leading_ones();
                (bits.count_ones() == length).then(|| u8::try_from(length).unwrap_or(32))?
            }
        },
    };
    if length > most {
        return None;
    }
    let address = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    };
    Some((address, length))
}

/// `option http-restrict-req-hdr-names`.
pub fn restrict_names(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 1, 1)?;
    let expected = "option 'http-restrict-req-hdr-names' expects 'preserve', 'reject' or 'delete' option.";
    let restrict = match line.word(2) {
        "preserve" => RestrictNames::Preserve,
        "reject" => RestrictNames::Reject,
        "delete" => RestrictNames::Delete,
        "" => return Err(Problem::new(format!("missing parameter. {expected}")).at(2)),
        word => {
            let problem = Problem::new(format!("invalid parameter '{word}'. {expected}")).at(2);
            return Err(problem.nearest(word, ["preserve", "reject", "delete"]));
        }
    };
    scope.proxy().proxy.options.restrict_request_header_names = Some(restrict);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let check = |text: &str, expected: Option<(&str, u8)>| {
            let expected = expected.map(|(address, length)| (address.parse().unwrap(), length));
            assert_eq!(network(text), expected, "{text}");
        };
        check("127.0.0.1", Some(("127.0.0.1", 32)));
        check("10.1.2.3/8", Some(("10.0.0.0", 8)));
        check("10.1.2.3/255.255.0.0", Some(("10.1.0.0", 16)));
        check("10.1.2.3/0", Some(("0.0.0.0", 0)));
        check("2001:db8::1/32", Some(("2001:db8::", 32)));
        check("::1", Some(("::1", 128)));
        check("10.0.0.0/33", None);
        check("10.0.0.0/255.0.255.0", None);
        check("x", None);
        check("", None);
    }
}
