//! Lists of certificates: a line each, with options in brackets and names that it is for.

use std::sync::Arc;

use super::{
    Listed, Side, TlsWords, common, lines,
    load::{self, Loaded},
};
use crate::{
    diagnostics::Problem,
    keywords::acme::AcmeWords,
    line::{Line, Word},
    model::LineOptions,
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

/// The certificates of a list, and how many lines it has; `at` is where its name stands.
pub fn read(scope: &mut Scope<'_>, at: usize, path: &str) -> Result<(Vec<Listed>, u32), Problem> {
    let bytes = scope
        .read(path)
        .map_err(|error| Problem::new(format!("'crt-list' : cannot open file '{path}' : {error}")).at(at))?;
    let (mut listed, mut count) = (Vec::new(), 0_u32);
    for (number, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let entry = entry(scope, path, number + 1, text).map_err(|problem| {
            let message =
                format!("'crt-list' : error processing line {} in file '{path}' : {}", number + 1, problem.message);
            Problem { message, ..problem }.at(at)
        })?;
        listed.extend(entry);
        count = count.saturating_add(1);
    }
    Ok((listed, count))
}

/// A line of a list.
#[derive(Debug)]
pub struct ReadLine {
    /// What it calls the certificate.
    pub certificate: String,
    /// Its options.
    pub options: Option<Arc<LineOptions>>,
    /// Whether and how the certificate comes by itself.
    acme: AcmeWords,
    /// Names that it is for.
    pub filters: Vec<String>,
}

impl ReadLine {
    /// Whether an authority is asked for its certificate.
    pub fn comes_by_itself(&self) -> bool {
        self.acme.is_any()
    }
}

/// One line; nothing for one without a certificate.
pub fn line(scope: &mut Scope<'_>, path: &str, number: usize, text: &str) -> Result<Option<(Line, ReadLine)>, Problem> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
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
    let options = match options.trim() {
        "" => None,
        _ => Some(Arc::new(lines::options_of(read_options(scope, &line, &mut acme)?, &line))),
    };
    let filters: Vec<String> =
        filters.split_whitespace().take_while(|name| !name.starts_with('#')).map(str::to_owned).collect();
    for name in &filters {
        let bare = name.strip_prefix('!').unwrap_or(name);
        let is_wildcard = bare.strip_prefix("*.").is_some_and(|rest| !rest.contains('*'));
        if bare.contains('*') && !is_wildcard {
            return Err(Problem::new(format!("'{name}' : a star stands for the first label of a name alone")));
        }
    }
    Ok(Some((line, ReadLine { certificate: before.to_owned(), options, acme, filters })))
}

/// The certificates of a line.
fn entry(scope: &mut Scope<'_>, path: &str, number: usize, text: &str) -> Result<Vec<Listed>, Problem> {
    let Some((line, read)) = line(scope, path, number, text)? else { return Ok(Vec::new()) };
    let identities = if read.acme.is_any() {
        vec![load::by_itself(scope, &line, &read.certificate, &read.acme)?]
    } else {
        load::certificates(scope, &line, 0, &read.certificate)?
    };
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let listed = |Loaded { name, identity }| Listed {
        name,
        identity,
        filters: read.filters.clone(),
        options: read.options.clone(),
        line: Some((path.into(), number)),
    };
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
        if word == "allow-0rtt" {
            let message =
                "'allow-0rtt' has no effect: early data is not accepted yet: clients send it after the handshake.";
            scope.warn(line, Problem::new(message).at(index));
        }
        if !super::bind::only_of_bind(scope, line, &mut index, &mut words)? {
            common(scope, line, &mut index, &mut words, Side::Bind)?;
        }
    }
    Ok(words)
}

/// Certificates of a `crt` word.
pub fn of_files(loaded: Vec<Loaded>) -> impl Iterator<Item = Listed> {
    loaded.into_iter().map(|Loaded { name, identity }| Listed {
        name,
        identity,
        filters: Vec::new(),
        options: None,
        line: None,
    })
}
