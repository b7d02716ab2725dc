//! TLS of `bind` lines.

use std::sync::Arc;

use super::{
    Listed, Side, TlsWords, argument, common, crt_list, ignored,
    lines::{self, BindWords},
    load,
};
use crate::{diagnostics::Problem, keywords::bind::BindDraft, line::Line, model::BindTls, scope::Scope};
use ::tls::{Entry, TicketKeys};

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
            let folder = load::folder(scope, name);
            words.take(folder.map(|name| (name, true, 0)), crt_list::of_files(found));
            return Ok(true);
        }
        "crt-list" => {
            let name = argument(line, index, "missing certificate location")?;
            let (listed, count) = crt_list::read(scope, at + 1, name)?;
            words.take(Some((name.into(), false, count)), listed);
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
            words.ticket_keys = Some(ticket_keys(scope, name, at)?);
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

/// Keys of tickets: lines of 48 or 80 bytes in base64, three of them at least, of which the last three count.
fn ticket_keys(scope: &mut Scope<'_>, name: &str, at: usize) -> Result<Arc<TicketKeys>, Problem> {
    let wrong = |message: String| Problem::new(message).at(at + 1);
    if let Some(known) = scope.state.tls.files.ticket_keys.iter().find(|keys| **keys.name() == *name) {
        return Ok(Arc::clone(known));
    }
    let bytes = scope.read(name).map_err(|_| wrong(format!("'{name}' : unable to load ssl tickets keys file")))?;
    let undecodable = |number: usize| {
        wrong(format!("'{name}' : unable to decode base64 key line {}", number + 1))
            .expected("48 or 80 random bytes in base64, as many on each line, as of 'openssl rand -base64 80'")
    };
    let (mut keys, mut length) = (Vec::new(), None);
    for (number, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let key = ::tls::from_base64(text).filter(|key| matches!(key.len(), 48 | 80));
        let key = key.filter(|key| *length.get_or_insert(key.len()) == key.len());
        keys.push(key.ok_or_else(|| undecodable(number))?);
    }
    let last = keys.last_chunk::<3>().cloned();
    let last = last.and_then(|keys| TicketKeys::new(name.into(), keys));
    let keys =
        last.ok_or_else(|| wrong(format!("'{name}' : please supply at least 3 keys in the tls-tickets-file")))?;
    scope.state.tls.files.ticket_keys.push(Arc::clone(&keys));
    Ok(keys)
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
    let bind = BindWords::new(words, &scope.state.tls);
    let shared = Arc::new(bind.of(None).map_err(|problem| problem.at(place))?);
    let mut entries = Vec::with_capacity(words.certificates.len());
    for Listed { name, identity, filters, options, line } in &words.certificates {
        let options = match options {
            None => Arc::clone(&shared),
            Some(own) => Arc::new(bind.of(Some(own)).map_err(|problem| problem.at(place))?),
        };
        let (name, identity) = (Arc::clone(name), Arc::clone(identity));
        entries.push(Entry { name, identity, options, filters: filters.clone(), line: line.clone() });
    }
    let lists = words.lists.clone();
    Ok(Some(Arc::new(BindTls { entries, strict_sni: words.strict_sni, lists, reader: Arc::new(bind) })))
}

impl TlsWords {
    /// Takes certificates, of a list or folder of this name (with its number of lines) or of none.
    fn take(&mut self, list: Option<(Arc<str>, bool, u32)>, listed: impl IntoIterator<Item = Listed>) {
        let from = self.certificates.len();
        self.certificates.extend(listed);
        let Some((name, is_folder, count)) = list else { return };
        self.lists.push(lines::list(name, is_folder, count, self.certificates.get_mut(from..).unwrap_or_default()));
    }
}
