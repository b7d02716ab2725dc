//! `show`, `add` and `del ssl crt-list`: lists of certificates, and folders, which are lists too.

use std::{fmt::Write as _, sync::Arc};

use haproxycfg::model::{CertificateLine, CertificateList};
use tls::Entry;

use super::{TlsStore, listeners};
use crate::refusal::Refusal;

/// A list as it is now.
#[derive(Debug)]
pub(super) struct List {
    is_folder: bool,
    /// The number of the last line that it got.
    last: u32,
    lines: Vec<CertificateLine>,
}

impl List {
    pub(super) fn new(described: &CertificateList) -> Self {
        Self { is_folder: described.is_folder, last: described.line_count, lines: described.lines.clone() }
    }
}

/// Lines that a list may have.
const LINES_MAX: usize = 1_000_000;

impl TlsStore {
    /// The names of all lists, in order.
    #[must_use]
    pub fn list_names(&self) -> Vec<Arc<str>> {
        self.lock().lists.keys().cloned().collect()
    }

    /// A list's lines, with their numbers if they are wanted.
    #[must_use]
    pub fn list_text(&self, name: &str, with_numbers: bool) -> Option<String> {
        let name = bare(name);
        let state = self.lock();
        let mut text = format!("# {name}\n");
        for CertificateLine { number, certificate, options, filters } in &state.lists.get(name)?.lines {
            text += certificate;
            if with_numbers {
                let _ = write!(text, ":{number}");
            }
            if let Some(options) = options {
                let _ = write!(text, " [{}]", options.shown);
            }
            for filter in filters {
                let _ = write!(text, " {filter}");
            }
            text.push('\n');
        }
        Some(text)
    }

    /// Adds a line to a list: a certificate that is there, or a line as a list has it. Its certificate, the name of the list, and
    /// on how many listeners it is served now.
    ///
    /// # Errors
    /// Why not: then nothing has changed.
    pub fn add_line(&self, name: &str, certificate: &str, line: Option<&str>) -> Result<(Arc<str>, usize), Refusal> {
        let name = bare(name);
        let mut state = self.lock();
        let (name, list) =
            state.lists.get_key_value(name).ok_or_else(|| Refusal(format!("crt-list '{name}' does not exist!")))?;
        let name = Arc::clone(name);
        let users: Vec<_> = listeners(&self.proxies).filter(|tls| tls.uses(&name)).collect();
        let reader = users.first().map(|tls| &tls.described().reader);
        let reader = reader.ok_or_else(|| Refusal(format!("crt-list '{name}' does not exist!")))?;
        let mut line = match line {
            None => CertificateLine {
                number: 0,
                certificate: reader.certificate_path(certificate).into(),
                options: None,
                filters: Vec::new(),
            },
            Some(text) if text.contains('\n') => return Err("only one line of payload is supported!".into()),
            Some(text) => reader.line(state.files.clone(), text).map_err(|error| Refusal(error.0))?,
        };
        let path = Arc::clone(&line.certificate);
        if list.is_folder && path.rsplit_once('/').is_none_or(|(folder, _)| *folder != *name) {
            return Err(Refusal(format!(
                "'{name}' is a directory, certificate path '{path}' must contain the directory path"
            )));
        }
        let Some((path, identity)) = state.certificates.get_key_value(&path) else {
            return Err(Refusal(format!("certificate '{path}' does not exist!")));
        };
        let Some(identity) = identity.as_ref().map(Arc::clone) else {
            return Err(Refusal(format!("certificate '{path}' is empty!")));
        };
        line.certificate = Arc::clone(path);
        if list.is_folder && list.lines.iter().any(|known| known.certificate == *path) {
            return Err("file already exists in this directory!".into());
        }
        if list.is_folder && (line.options.is_some() || !line.filters.is_empty()) {
            return Err("this is a directory, SSL configuration and filters are not allowed".into());
        }
        if list.lines.len() >= LINES_MAX {
            return Err(Refusal(format!("it has {LINES_MAX} lines already!")));
        }
        line.number = list.last.saturating_add(1);
        // All of them are made before the first one is served.
        let mut entries = Vec::with_capacity(users.len());
        for tls in &users {
            let options = tls.described().reader.options(line.options.as_deref());
            let options = state.current(options.map_err(|error| Refusal(error.0))?);
            entries.push(Entry {
                name: Arc::clone(&line.certificate),
                identity: Arc::clone(&identity),
                options: Arc::new(options),
                filters: line.filters.clone(),
                line: Some((Arc::clone(&name), line.number)),
            });
        }
        let served = users.len();
        for (tls, entry) in users.into_iter().zip(entries) {
            tls.edit(|all| {
                all.push(entry);
                true
            });
        }
        let certificate = Arc::clone(&line.certificate);
        if let Some(list) = state.lists.get_mut(&name) {
            list.last = line.number;
            list.lines.push(line);
        }
        Ok((certificate, served))
    }

    /// Takes a line from a list: that of a certificate, with `:` and its number behind it if there are several.
    ///
    /// # Errors
    /// Why not.
    pub fn delete_line(&self, name: &str, wanted: &str) -> Result<Arc<str>, Refusal> {
        let name = bare(name);
        let mut state = self.lock();
        let (certificate, number) = match wanted.rsplit_once(':') {
            None => (wanted, None),
            Some((certificate, number)) => match number.parse::<u32>() {
                Ok(number) => (certificate, Some(number)),
                Err(_) => return Err(Refusal(format!("wrong line number after colons in '{wanted}'!"))),
            },
        };
        let list = state.lists.get(name).ok_or_else(|| Refusal(format!("crt-list '{name}' does not exist!")))?;
        let users: Vec<_> = listeners(&self.proxies).filter(|tls| tls.uses(name)).collect();
        let path = users
            .first()
            .map_or_else(|| certificate.to_owned(), |tls| tls.described().reader.certificate_path(certificate));
        match state.certificates.get(&*path) {
            None => return Err(Refusal(format!("certificate '{path}' does not exist!"))),
            Some(None) => return Err(Refusal(format!("certificate '{path}' is empty!"))),
            Some(Some(_)) => {}
        }
        let number = list.number_of(name, &path, number)?;
        let defaults: Vec<_> = users.iter().filter(|tls| tls.has_as_default(name, number, &path)).collect();
        if !defaults.is_empty() {
            let mut text = format!(
                "certificate '{path}' cannot be deleted, it is used as default certificate by the following frontends:\n"
            );
            for tls in defaults {
                let _ = writeln!(text, "\t- {}", tls.place());
            }
            return Err(Refusal(text));
        }
        let is_it = |line: &CertificateLine| line.number == number && *line.certificate == *path;
        for tls in &users {
            tls.edit(|entries| {
                let place = entries.iter().position(|entry| is_of_line(entry, name, number) && *entry.name == *path);
                place.map(|place| entries.remove(place)).is_some()
            });
        }
        let list = state.lists.get_mut(name);
        let removed = list.and_then(|list| {
            let place = list.lines.iter().position(is_it)?;
            Some(list.lines.remove(place).certificate)
        });
        Ok(removed.unwrap_or_else(|| path.into()))
    }
}

impl List {
    /// The number of a certificate's only line, or of that one if a number is wanted.
    fn number_of(&self, name: &str, certificate: &str, wanted: Option<u32>) -> Result<u32, Refusal> {
        let lines: Vec<_> = self.lines.iter().filter(|line| *line.certificate == *certificate).collect();
        let all = || lines.iter().map(|line| line.number.to_string()).collect::<Vec<_>>().join(", ");
        match (lines.as_slice(), wanted) {
            ([], _) => Err(Refusal(format!("certificate '{certificate}' can't be found in crt-list '{name}'!"))),
            ([only], None) => Ok(only.number),
            (_, None) => Err(Refusal(format!(
                "found the certificate '{certificate}' in several entries, please specify a line number preceded by colons ({})!",
                all()
            ))),
            (lines, Some(number)) if lines.iter().any(|line| line.number == number) => Ok(number),
            (_, Some(_)) => Err(Refusal(format!(
                "found a certificate '{certificate}' but the line number is incorrect, please specify a correct line number \
                 preceded by colons ({})!",
                all()
            ))),
        }
    }
}

/// Whether an entry comes of this line.
pub(crate) fn is_of_line(entry: &Entry, list: &str, number: u32) -> bool {
    entry.line.as_ref().is_some_and(|(name, line)| **name == *list && *line == number)
}

/// A name without the slashes at its end.
fn bare(name: &str) -> &str {
    match name.trim_end_matches('/') {
        "" => name,
        bare => bare,
    }
}
