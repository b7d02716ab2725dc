//! `crt-store` sections: certificates that other sections name.

use std::{collections::HashMap, sync::Arc};

use ::tls::Identity;

use super::load::{self, Loaded};
use crate::{
    args,
    diagnostics::Problem,
    keywords::acme::{self, AcmeWords},
    lexer::is_name_character,
    line::Line,
    scope::{Scope, Section},
    table::Group,
};

/// What `crt-store` sections have so far.
#[derive(Debug, Default)]
pub struct Stores {
    /// The section that is being read.
    name: String,
    crt_base: Option<String>,
    key_base: Option<String>,
    certificates: HashMap<String, Loaded>,
}

impl Stores {
    /// The certificate that is named like this.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Loaded> {
        self.certificates.get(name)
    }

    /// Names of certificates, for suggestions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.certificates.keys().map(String::as_str)
    }
}

/// `crt-store`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let name = line.word(1);
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        return Err(
            Problem::new(format!("character '{character}' is not permitted in 'crt-store' name '{name}'.")).at(1)
        );
    }
    let stores = &mut scope.state.tls.stores;
    (stores.name, stores.crt_base, stores.key_base) = (name.to_owned(), None, None);
    scope.section = Section::Other(Group::CrtStore);
    Ok(())
}

/// `crt-base`, `key-base`.
pub fn base(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let path = args::required(line, 1, "a directory path as an argument.")?.to_owned();
    let stores = &mut scope.state.tls.stores;
    let base = if line.word(0) == "crt-base" { &mut stores.crt_base } else { &mut stores.key_base };
    *base = Some(path);
    Ok(())
}

/// What a `load` line says.
#[derive(Debug, Default)]
struct Load<'a> {
    crt: &'a str,
    key: Option<&'a str>,
    ocsp: Option<&'a str>,
    issuer: Option<&'a str>,
    alias: Option<&'a str>,
    acme: AcmeWords,
}

fn read<'a>(line: &'a Line) -> Result<Load<'a>, Problem> {
    const WORDS: &[&str] = &["crt", "key", "ocsp", "issuer", "alias", "acme", "domains", "ips", "sctl", "ocsp-update"];
    let (mut load, mut index) = (Load::default(), 1);
    while !line.word(index).is_empty() {
        if load.acme.word(line, &mut index)? {
            continue;
        }
        let (word, value) = (line.word(index), line.word(index + 1));
        if !WORDS.contains(&word) {
            let message = format!("'load' : unknown keyword '{word}'.");
            return Err(Problem::new(message).at(index).nearest(word, WORDS.iter().copied()));
        }
        if value.is_empty() {
            return Err(Problem::new(format!("'load' : '{word}' expects an argument.")).at(index + 1));
        }
        match word {
            "crt" => load.crt = value,
            "key" => load.key = Some(value),
            "ocsp" => load.ocsp = Some(value),
            "issuer" => load.issuer = Some(value),
            "alias" => load.alias = Some(value),
            _ => {
                let message = format!("'load' : '{word}' is not supported yet.");
                return Err(Problem::new(message).at(index).expected("the line without it"));
            }
        }
        index += 2;
    }
    match load.crt {
        "" => Err(Problem::new("'load' : 'crt' and the path of a certificate are missing.").at(line.len())),
        _ => Ok(load),
    }
}

/// `load`.
pub fn load(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let load = read(line)?;
    let stores = &scope.state.tls.stores;
    // Those of a section without a name are called as they stand there, so that other sections need not be changed.
    let (prefix, store) = match &*stores.name {
        "" => (String::new(), "@".to_owned()),
        name => (format!("@{name}/"), format!("@{name}")),
    };
    let path = load::below(stores.crt_base.as_deref().or(scope.state.tls.crt_base.as_deref()), load.crt);
    let name = format!("{prefix}{}", load.crt);
    let identity = identity(scope, line, &path, &load)?;
    let identity = match (load.acme.is_any(), identity) {
        (true, identity) => {
            acme::certificate(scope, line, (&name, &path), &load.acme, identity).map_err(|it| it.at(1))?
        }
        (false, Some(identity)) => identity,
        (false, None) => load::certificate(scope, line, 2, &path)?,
    };
    let loaded = Loaded { name: name.as_str().into(), identity };
    let names = [Some(name.clone()), load.alias.map(|alias| format!("{store}/{alias}"))];
    for name in names.into_iter().flatten() {
        if scope.state.tls.stores.certificates.insert(name.clone(), loaded.clone()).is_some() {
            return Err(Problem::new(format!("'load' : certificate '{name}' is already there.")).at(1));
        }
    }
    Ok(())
}

/// What stands in its files; nothing for one that comes by itself and is not there.
fn identity(scope: &mut Scope<'_>, line: &Line, path: &str, load: &Load<'_>) -> Result<Option<Arc<Identity>>, Problem> {
    let is_missing = scope.files.list(&scope.resolve_path(path)).is_err();
    if is_missing && load.acme.is_any() {
        return Ok(None);
    }
    let base = scope.state.tls.stores.key_base.clone();
    let key = load.key.map(|key| load::below(base.as_deref(), key));
    let beside = load::Beside { key, ocsp: load.ocsp.map(str::to_owned), issuer: load.issuer.map(str::to_owned) };
    load::with_files(scope, line, (2, path), &beside).map(Some)
}
