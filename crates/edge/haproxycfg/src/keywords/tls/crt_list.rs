//! Lists of certificates: a line each, with options in brackets and names that it is for.

use super::{
    Listed, Side, TlsWords, common,
    load::{self, Loaded},
};
use crate::{
    diagnostics::Problem,
    keywords::acme::AcmeWords,
    line::{Line, Word},
    scope::Scope,
};

/// Words that a line's brackets may hold.
const OPTIONS: &[&str] = &[
    "acme",
    "allow-0rtt",
    "alpn",
    "ca-file",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "crl-file",
    "curves",
    "domains",
    "ecdhe",
    "ips",
    "no-ca-names",
    "npn",
    "ssl-max-ver",
    "ssl-min-ver",
    "verify",
];

/// The certificates of a list; `at` is where its name stands.
pub fn read(scope: &mut Scope<'_>, at: usize, path: &str) -> Result<Vec<Listed>, Problem> {
    let bytes = scope
        .read(path)
        .map_err(|error| Problem::new(format!("'crt-list' : cannot open file '{path}' : {error}")).at(at))?;
    let mut listed = Vec::new();
    for (number, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let entry = entry(scope, path, number + 1, text).map_err(|problem| {
            let message =
                format!("'crt-list' : error processing line {} in file '{path}' : {}", number + 1, problem.message);
            Problem { message, ..problem }.at(at)
        })?;
        listed.extend(entry);
    }
    Ok(listed)
}

/// One line; nothing for one without a certificate.
fn entry(scope: &mut Scope<'_>, path: &str, number: usize, text: &str) -> Result<Vec<Listed>, Problem> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(Vec::new());
    }
    let (before, options, filters) = match text.split_once('[') {
        None => {
            let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            (name, "", rest)
        }
        Some((name, rest)) => {
            let (options, filters) = rest.split_once(']').ok_or_else(|| Problem::new("missing ']'"))?;
            (name.trim(), options, filters)
        }
    };
    if before.is_empty() || before.contains(char::is_whitespace) {
        return Err(Problem::new("expects a certificate, options in brackets, and names, in this order"));
    }
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let words: Vec<Word> = options.split_whitespace().map(|word| Word::new(word.as_bytes().to_vec(), 0..0)).collect();
    let line = Line::new(path.into(), number, text, words);
    let mut acme = AcmeWords::default();
    let words = if options.trim().is_empty() { None } else { Some(Box::new(read_options(scope, &line, &mut acme)?)) };
    let filters: Vec<String> =
        filters.split_whitespace().take_while(|name| !name.starts_with('#')).map(str::to_owned).collect();
    for name in &filters {
        let bare = name.strip_prefix('!').unwrap_or(name);
        let is_wildcard = bare.strip_prefix("*.").is_some_and(|rest| !rest.contains('*'));
        if bare.contains('*') && !is_wildcard {
            return Err(Problem::new(format!("'{name}' : a star stands for the first label of a name alone")));
        }
    }
    let identities = if acme.is_any() {
        vec![load::by_itself(scope, &line, before, &acme)?]
    } else {
        load::certificates(scope, &line, 0, before)?
    };
    let listed = |Loaded { name, identity }| Listed { name, identity, filters: filters.clone(), words: words.clone() };
    Ok(identities.into_iter().map(listed).collect::<Vec<_>>())
}

fn read_options(scope: &mut Scope<'_>, line: &Line, acme: &mut AcmeWords) -> Result<TlsWords, Problem> {
    let (mut words, mut index) = (TlsWords::default(), 0);
    while !line.word(index).is_empty() {
        if acme.word(line, &mut index)? {
            continue;
        }
        let word = line.word(index);
        if !OPTIONS.contains(&word) {
            let message = format!("unknown ssl keyword {word}");
            return Err(Problem::new(message).nearest(word, OPTIONS.iter().copied()));
        }
        if !super::bind::only_of_bind(scope, line, &mut index, &mut words)? {
            common(scope, line, &mut index, &mut words, Side::Bind)?;
        }
    }
    Ok(words)
}

/// Certificates of a `crt` word.
pub fn of_files(loaded: Vec<Loaded>) -> impl Iterator<Item = Listed> {
    loaded.into_iter().map(|Loaded { name, identity }| Listed { name, identity, filters: Vec::new(), words: None })
}
