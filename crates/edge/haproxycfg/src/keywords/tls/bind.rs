//! TLS of `bind` lines.

use std::sync::Arc;

use super::{Defaults, Listed, Side, TlsWords, argument, common, crt_list, ignored, load};
use crate::{diagnostics::Problem, keywords::bind::BindDraft, line::Line, model::BindTls, scope::Scope};
use ::tls::{CipherList, ClientVerification, Curves, Entry, ServerOptions, Suites, TicketKey, TrustAnchors, Verify};

/// A word of a `bind` line.
pub fn word(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    if !scope.in_proxy() {
        let message =
            format!("'{}' is not supported here yet: only 'bind' lines of proxies speak TLS.", line.word(*index));
        return Err(Problem::new(message).at(*index));
    }
    if !only_of_bind(scope, line, index, &mut draft.tls)? {
        common(scope, line, index, &mut draft.tls, Side::Bind)?;
    }
    Ok(())
}

/// A word that servers have not; `false` for another one.
pub fn only_of_bind(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    words: &mut TlsWords,
) -> Result<bool, Problem> {
    let at = *index;
    words.place.get_or_insert(at);
    match line.word(at) {
        "crt" => {
            let name = argument(line, index, "missing certificate location")?;
            let found = load::certificates(scope, line, at + 1, name)?;
            words.certificates.extend(crt_list::of_files(found));
            return Ok(true);
        }
        "crt-list" => {
            let name = argument(line, index, "missing certificate location")?;
            words.certificates.extend(crt_list::read(scope, at + 1, name)?);
            return Ok(true);
        }
        "ca-verify-file" => {
            let name = argument(line, index, "missing CAfile path")?;
            words.anchors_unannounced = Some(load::anchors(scope, line, name, at)?);
            return Ok(true);
        }
        "crt-ignore-err" => {
            words.ignored = ignored(line, index)?;
            return Ok(true);
        }
        "ca-ignore-err" => {
            words.ignored_of_issuers = ignored(line, index)?;
            return Ok(true);
        }
        "tls-ticket-keys" => {
            let name = argument(line, index, "missing TLS ticket keys file path")?;
            words.ticket_keys = ticket_keys(scope, name, at)?;
            return Ok(true);
        }
        "no-ca-names" => words.no_ca_names = true,
        "prefer-client-ciphers" => words.prefers_client_order = true,
        "strict-sni" => words.strict_sni = true,
        _ => return Ok(false),
    }
    *index += 1;
    Ok(true)
}

/// Keys of tickets: lines of 48 or 80 bytes in base64, three of them at least.
fn ticket_keys(scope: &Scope<'_>, name: &str, at: usize) -> Result<Vec<TicketKey>, Problem> {
    /// As many as HAProxy keeps.
    const KEYS: usize = 3;
    let wrong = |message: String| Problem::new(message).at(at + 1);
    let bytes = scope.read(name).map_err(|_| wrong(format!("'{name}' : unable to load ssl tickets keys file")))?;
    let mut keys = Vec::new();
    for (number, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let key = TicketKey::from_base64(text.trim());
        let message = || format!("'{name}' : unable to decode base64 key line {}", number + 1);
        let expected = "48 or 80 random bytes in base64, as of 'openssl rand -base64 80'";
        keys.push(key.ok_or_else(|| wrong(message()).expected(expected))?);
    }
    if keys.len() < KEYS {
        let message = format!("'{name}' : please supply at least {KEYS} keys in the tls-tickets-file");
        return Err(wrong(message));
    }
    Ok(keys.split_off(keys.len() - KEYS))
}

/// What the words of a line lead to; `None` without `ssl`.
pub fn finish(scope: &mut Scope<'_>, line: &Line, words: &TlsWords) -> Result<Option<Arc<BindTls>>, Problem> {
    let place = words.place.unwrap_or(1);
    if !words.is_on {
        if !words.certificates.is_empty() {
            let message = "A certificate was specified but SSL was not enabled on the line (use 'ssl').";
            scope.warn(line, Problem::new(message).at(place).expected("'ssl' before it"));
        }
        return Ok(None);
    }
    if words.certificates.is_empty() {
        if !words.strict_sni {
            let expected = "'crt' and the path of a file with certificate and key";
            return Err(Problem::new("no SSL certificate specified (use 'crt')").at(place).expected(expected));
        }
        let message = "no SSL certificate specified, ssl connections will fail (use 'crt').";
        scope.warn(line, Problem::new(message).at(place));
    }
    let shared = Arc::new(options(words, &scope.state.tls).map_err(|problem| problem.at(place))?);
    let mut entries = Vec::with_capacity(words.certificates.len());
    for Listed { name, identity, filters, words: own } in &words.certificates {
        let options = match own {
            None => Arc::clone(&shared),
            Some(own) => Arc::new(options(&own.over(words), &scope.state.tls).map_err(|problem| problem.at(place))?),
        };
        let (name, identity) = (Arc::clone(name), Arc::clone(identity));
        entries.push(Entry { name, identity, options, filters: filters.clone() });
    }
    Ok(Some(Arc::new(BindTls { entries, strict_sni: words.strict_sni })))
}

impl TlsWords {
    /// These words of a list's line, with those of the `bind` line for what they do not say.
    fn over(&self, line: &Self) -> Self {
        let own = self.clone();
        Self {
            min: own.min.or(line.min),
            max: own.max.or(line.max),
            ciphers: own.ciphers.or_else(|| line.ciphers.clone()),
            suites: own.suites.or_else(|| line.suites.clone()),
            curves: own.curves.or_else(|| line.curves.clone()),
            protocols: own.protocols.or_else(|| line.protocols.clone()),
            verify: own.verify.or(line.verify),
            anchors: own.anchors.or_else(|| line.anchors.clone()),
            anchors_unannounced: own.anchors_unannounced.or_else(|| line.anchors_unannounced.clone()),
            revocation: own.revocation.or_else(|| line.revocation.clone()),
            no_ca_names: own.no_ca_names || line.no_ca_names,
            ..line.clone()
        }
    }
}

fn options(words: &TlsWords, defaults: &Defaults) -> Result<ServerOptions, Problem> {
    let base = &defaults.bind;
    let versions = words.versions(base).ok_or_else(|| words.no_version())?;
    let verify = words.verify.unwrap_or(Verify::None);
    let announced = words.anchors.clone().unwrap_or_default();
    let anchors = words.anchors_unannounced.clone().or_else(|| words.anchors.clone());
    if verify != Verify::None && anchors.is_none() {
        let problem = Problem::new("verify is enabled but no CA file specified");
        return Err(problem.expected("'ca-file' with the certificates of those who make certificates for clients"));
    }
    let options = ServerOptions {
        versions,
        ciphers: words.ciphers.clone().or_else(|| base.ciphers.clone()).unwrap_or_else(CipherList::all),
        suites: words.suites.clone().or_else(|| base.suites.clone()).unwrap_or_else(Suites::all),
        curves: words.curves.clone().or_else(|| base.curves.clone()).unwrap_or_else(Curves::all),
        protocols: words.protocols.clone().unwrap_or_default(),
        clients: ClientVerification {
            verify,
            anchors: anchors.unwrap_or_default(),
            announced: if words.no_ca_names { TrustAnchors::default() } else { announced },
            revocation: words.revocation.clone().unwrap_or_default(),
            ignored: words.ignored.clone(),
            ignored_of_issuers: words.ignored_of_issuers.clone(),
        },
        resumes: true,
        tickets: words.tickets.or(base.tickets).unwrap_or(true),
        ticket_keys: words.ticket_keys.clone(),
        prefers_client_order: words.prefers_client_order || base.prefers_client_order,
    };
    options.check().map_err(|error| Problem::new(error.to_string()))?;
    Ok(options)
}
