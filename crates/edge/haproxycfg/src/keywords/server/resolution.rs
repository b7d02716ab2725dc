//! The words of a `server` line that say how its name becomes an address.

use std::net::{IpAddr, Ipv4Addr};

use super::argument;
use crate::{
    diagnostics::Problem,
    line::Line,
    model::InitAddr,
    scope::{Scope, ServerDraft},
};

/// `init-addr`.
pub fn init_addr(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    let mut methods: Vec<InitAddr> = Vec::new();
    for text in line.word(at).split(',').filter(|text| !text.is_empty()) {
        let method = match text {
            "libc" => InitAddr::Libc,
            "last" => InitAddr::Last,
            "none" => InitAddr::None,
            _ => match text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
                Ok(ip) => InitAddr::Ip(ip),
                Err(_) => {
                    let message = format!(
                        "'init-addr' : unknown init-addr method '{text}', supported methods are 'libc', 'last', 'none'."
                    );
                    return Err(Problem::new(message).at(at).nearest(text, ["libc", "last", "none"]));
                }
            },
        };
        if matches!(method, InitAddr::Ip(_)) && methods.iter().any(|method| matches!(method, InitAddr::Ip(_))) {
            let message = format!("'init-addr' : initial address already specified, cannot add '{text}'.");
            return Err(Problem::new(message).at(at));
        }
        methods.push(method);
    }
    draft.server.init_addr = methods;
    Ok(())
}

/// `resolve-prefer`.
pub fn resolve_prefer(
    _: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut ServerDraft,
) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    draft.server.prefer_ipv4 = match line.word(at) {
        "ipv4" => true,
        "ipv6" => false,
        _ => return Err(Problem::new("'resolve-prefer' expects either ipv4 or ipv6 as argument.").at(at)),
    };
    Ok(())
}

/// `resolvers`. The section may come later.
pub fn resolvers(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    draft.pending.resolvers = Some(argument(line, index, "<id> as argument.")?.to_owned());
    Ok(())
}

/// Most networks of `resolve-net`, as in HAProxy.
const NETWORKS_MAX: usize = 5;

/// `resolve-net`.
pub fn resolve_net(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    let text = argument(line, index, "a list of networks.")?;
    let networks = &mut draft.server.resolve.networks;
    for text in text.split(',').filter(|text| !text.is_empty()) {
        if networks.len() >= NETWORKS_MAX {
            return Err(Problem::new(format!("'resolve-net' exceed {NETWORKS_MAX} networks.")).at(at));
        }
        let problem = || Problem::new(format!("'resolve-net' invalid network '{text}'.")).at(at);
        networks.push(network(text).ok_or_else(|| problem().expected("a network as 10.0.0.0/8 or 2001:db8::/32"))?);
    }
    Ok(())
}

/// A network: an address with a length, or in IPv4 a mask.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match mask {
        None => most,
        Some(mask) if address.is_ipv4() && mask.contains('.') => {
            let mask = mask.parse::<Ipv4Addr>().ok()?.to_bits();
            // A mask that is none leaves a hole.
            u8::try_from(mask.leading_ones()).ok().filter(|_| mask.leading_ones() == mask.count_ones())?
        }
        Some(mask) => mask.parse().ok().filter(|bits| *bits <= most)?,
    };
    Some((address, bits))
}

/// `resolve-opts`.
pub fn resolve_opts(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    for text in line.word(at).split(',').filter(|text| !text.is_empty()) {
        match text {
            "allow-dup-ip" => draft.server.resolve.allow_duplicates = true,
            "prevent-dup-ip" => draft.server.resolve.allow_duplicates = false,
            "ignore-weight" => draft.server.resolve.ignore_weight = true,
            _ => {
                let message = format!(
                    "'resolve-opts' : unknown resolve-opts option '{text}', supported methods are 'allow-dup-ip', \
                     'ignore-weight', and 'prevent-dup-ip'."
                );
                let known = ["allow-dup-ip", "ignore-weight", "prevent-dup-ip"];
                return Err(Problem::new(message).at(at).nearest(text, known));
            }
        }
    }
    Ok(())
}
