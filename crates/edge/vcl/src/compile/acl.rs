//! `acl name { "192.0.2.0"/24; ! "192.0.2.23"; }`

use std::net::IpAddr;

use super::{Compiler, Outcome, symbols::Symbol};
use crate::{
    diagnostic::Diagnostic,
    program::{Acl, AclEntry},
    source::Span,
    token::{Kind, Sign},
};

/// How a list is to be taken.
#[derive(Clone, Copy, Debug)]
struct Flags {
    logs: bool,
    pedantic: bool,
}

impl Compiler<'_> {
    pub(super) fn acl(&mut self) -> Outcome<()> {
        self.next();
        let (name, span) = self.declared_name("ACL")?;
        let Some(symbol @ Symbol::Acl(_)) = self.symbols.get(&name).copied() else {
            return Err(Diagnostic::at(format!("Name {name} must have type 'acl'."), span));
        };
        self.declare(symbol, "ACL", &name, span)?;
        let mut flags = Flags { logs: false, pedantic: true };
        while self.is(Sign::Plus) || self.is(Sign::Minus) {
            let sign = self.next();
            let on = sign.kind == Kind::Sign(Sign::Plus);
            let token = self.peek();
            if token.kind != Kind::Identifier || token.span.start != sign.span.end {
                return Err(Diagnostic::at("Expected a flag at:", token.span));
            }
            match self.next_text() {
                "log" => flags.logs = on,
                "pedantic" => flags.pedantic = on,
                // How a list is kept is no matter of the text here.
                "table" => {}
                _ => return Err(Diagnostic::at("Unknown ACL flag:", token.span)),
            }
        }
        self.expect(Sign::BraceOpen)?;
        let mut entries = Vec::new();
        while !self.is(Sign::BraceClose) {
            self.acl_entry(flags, &mut entries)?;
        }
        self.next();
        // NOTE: the narrowest network decides; the order among those of equal width is that of the text.
        entries.sort_by_key(|(entry, _): &(AclEntry, Span)| std::cmp::Reverse((entry.address.is_some(), entry.mask)));
        self.conflicting(&entries)?;
        let entries = entries.into_iter().map(|(entry, _)| entry).collect();
        self.program.acls.push(Acl { name, logs: flags.logs, entries });
        Ok(())
    }

    fn acl_entry(&mut self, flags: Flags, entries: &mut Vec<(AclEntry, Span)>) -> Outcome<()> {
        let begin = self.peek().span;
        let mut negated = self.take(Sign::Not);
        let may_be_unknown = self.take(Sign::ParenthesisOpen);
        negated |= may_be_unknown && self.take(Sign::Not);
        let token = self.expect_kind(Kind::String)?;
        let written = self.string_text(token.span).to_owned();
        let (host, inside) =
            written.split_once('/').map_or((written.as_str(), None), |(host, mask)| (host, Some(mask)));
        let host = host.to_owned();
        let mut mask = None;
        if let Some(inside) = inside {
            let not_numeric = || Diagnostic::at("'/mask' is not numeric.", token.span).say(".../mask is not numeric.");
            mask = Some(inside.parse().map_err(|_| not_numeric())?);
            if self.is(Sign::Slash) {
                return Err(Diagnostic::at("/mask only allowed once", self.peek().span));
            }
        }
        if self.take(Sign::Slash) {
            mask = Some(self.mask()?);
        }
        if may_be_unknown {
            self.expect(Sign::ParenthesisClose)?;
            if self.take(Sign::Slash) {
                if mask.is_some() {
                    return Err(Diagnostic::at("/mask only allowed once", self.last_span()));
                }
                mask = Some(self.mask()?);
            }
        }
        let end = self.expect(Sign::Semicolon)?;
        let text = self.sources.text(crate::source::Span { end: end.span.start, ..begin }).to_owned();
        // `"10.1"`, `"10.1.2"`: the front of an address, with the mask that it stands for.
        let short = host.split('.').count() < 4 && host.split('.').all(|part| part.parse::<u8>().is_ok());
        let (looked_up, implied) = if short {
            let parts = host.split('.').count();
            (format!("{host}{}", ".0".repeat(4 - parts)), Some(u8::try_from(parts * 8).unwrap_or(32)))
        } else {
            (host.clone(), None)
        };
        let addresses = match self.options.resolver.resolve(&looked_up) {
            Ok(addresses) => addresses,
            Err(_) if may_be_unknown => return Ok(()),
            Err(why) => {
                return Err(Diagnostic::at(format!("DNS lookup({host}): {why}"), token.span)
                    .say(format!("\"{host}\" could not be resolved to an IP address.")));
            }
        };
        for address in addresses {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let mask = mask.or(implied).unwrap_or(bits);
            if mask > bits {
                let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                return Err(Diagnostic::at(format!("Too wide mask (/{mask}) for {family} address"), token.span));
            }
            if flags.pedantic && has_host_bits(address, mask) {
                return Err(Diagnostic::at(format!("Address {host}: Non-zero bits in masked part"), token.span)
                    .say(format!("Write the network's own address, or 'acl {} -pedantic'.", "NAME")));
            }
            entries.push((AclEntry { negated, address: Some(address), mask, text: text.clone() }, token.span));
        }
        Ok(())
    }

    fn mask(&mut self) -> Outcome<u8> {
        let token = self.peek();
        if token.kind != Kind::Integer {
            return Err(Diagnostic::at("'/mask' is not numeric.", token.span).say(".../mask is not numeric."));
        }
        let token = self.next();
        Ok(self.text(token).parse().unwrap_or(u8::MAX))
    }

    /// Two entries of the same network, of which one takes out what the other puts in.
    fn conflicting(&self, entries: &[(AclEntry, Span)]) -> Outcome<()> {
        for pair in entries.windows(2) {
            let [(first, first_span), (second, second_span)] = pair else { continue };
            if first.address == second.address && first.mask == second.mask && first.negated != second.negated {
                return Err(Diagnostic::at("Conflicting ACL entries:", *first_span).say("vs:").show(*second_span));
            }
        }
        Ok(())
    }
}

fn has_host_bits(address: IpAddr, mask: u8) -> bool {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_shl(u32::from(mask)).unwrap_or(0) != 0,
        IpAddr::V6(address) => u128::from(address).checked_shl(u32::from(mask)).unwrap_or(0) != 0,
    }
}
