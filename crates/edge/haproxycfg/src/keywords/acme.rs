//! `acme` sections, and what else is said of certificates that come by themselves.

use std::{net::IpAddr, sync::Arc};

use ::tls::{Curve, Identity, KeyType, PrivateKey, TrustAnchors};

use crate::{
    args,
    diagnostics::Problem,
    lexer::is_name_character,
    line::Line,
    model::{Acme, AcmeCertificate, ChallengeKind, ExternalAccount, MacAlgorithm},
    scope::{Scope, Section},
    table::Group,
};

/// A section while it is read.
#[derive(Clone, Debug)]
pub struct AcmeDraft {
    section: Acme,
    line: Line,
    is_rsa: Option<bool>,
    curve: Option<Curve>,
    bits: Option<u32>,
    key_id: Option<String>,
    mac_key: Option<Vec<u8>>,
    algorithm: MacAlgorithm,
}

/// `acme`, `domains` and `ips` beside a certificate.
#[derive(Clone, Debug, Default)]
pub struct AcmeWords {
    /// The section.
    pub section: Option<String>,
    /// The names.
    pub domains: Vec<String>,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

/// A certificate that comes by itself, while sections are read.
#[derive(Clone, Debug)]
pub struct CertificateDraft {
    name: Arc<str>,
    file: String,
    line: Line,
    words: AcmeWords,
    identity: Option<Arc<Identity>>,
    shown: Arc<Identity>,
}

/// What is known so far.
#[derive(Debug, Default)]
pub struct Pending {
    sections: Vec<AcmeDraft>,
    certificates: Vec<CertificateDraft>,
    /// `httpclient.ssl.ca-file`
    pub anchors: Option<TrustAnchors>,
    /// `httpclient.ssl.verify none`
    pub is_unverified: bool,
    /// What is handed over to the model.
    pub finished: (Vec<Arc<Acme>>, Vec<AcmeCertificate>),
}

/// `acme`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = args::required(line, 1, "a name as argument.")?;
    args::no_more(line, 1)?;
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        return Err(Problem::new(format!("character '{character}' is not permitted in 'acme' name '{name}'.")).at(1));
    }
    if let Some(same) = scope.state.acme.sections.iter().find(|known| *known.section.name == *name) {
        let place = &same.section.location;
        let message = format!("acme section '{name}' already exists, at {}:{}.", place.file, place.line);
        return Err(Problem::new(message).at(1));
    }
    scope.state.acme.sections.push(AcmeDraft {
        section: Acme {
            location: line.location(),
            name: name.into(),
            directory: String::new(),
            account_key: format!("{name}.account.key"),
            account_pem: None,
            contact: None,
            challenge: ChallengeKind::default(),
            key: KeyType::default(),
            map: None,
            profile: None,
            reuse_key: false,
            external_account: None,
            program: None,
            anchors: None,
        },
        line: line.clone(),
        is_rsa: None,
        curve: None,
        bits: None,
        key_id: None,
        mac_key: None,
        algorithm: MacAlgorithm::default(),
    });
    scope.section = Section::Other(Group::Acme);
    Ok(())
}

/// The one argument of a line of the section that is being read, and the section.
fn only<'a>(scope: &'a mut Scope<'_>, line: &'a Line, what: &str) -> Result<(&'a str, &'a mut AcmeDraft), Problem> {
    args::no_more(line, 1)?;
    let word = args::required(line, 1, what)?;
    let Some(draft) = scope.state.acme.sections.last_mut() else {
        return Err(Problem::new("there is no acme section").at(0));
    };
    Ok((word, draft))
}

/// One of some words.
fn one_of<T: Copy>(line: &Line, word: &str, known: &[(&'static str, T)]) -> Result<T, Problem> {
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let message = format!("'{}' : '{word}' is not supported.", line.word(0));
        Problem::new(message).at(1).expected(names.join(", ")).nearest(word, names.iter().copied())
    })
}

/// `directory`.
pub fn directory(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (url, draft) = only(scope, line, "a URL.")?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\<>".contains(letter);
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(is_plain) => {
            draft.section.directory = url.to_owned();
            Ok(())
        }
        _ => Err(Problem::new(format!("'directory' : '{url}' is no URL of an authority."))
            .at(1)
            .expected("as https://acme-v02.api.letsencrypt.org/directory")),
    }
}

/// `account-key`.
pub fn account_key(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (file, draft) = only(scope, line, "a filename.")?;
    draft.section.account_key = file.to_owned();
    Ok(())
}

/// `contact`, `map`, `profile`, `challenge-program`.
pub fn text(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (text, draft) = only(scope, line, "an argument.")?;
    let section = &mut draft.section;
    let setting = match line.word(0) {
        "contact" => &mut section.contact,
        "map" => &mut section.map,
        "profile" => &mut section.profile,
        _ => &mut section.program,
    };
    *setting = Some(text.to_owned());
    Ok(())
}

/// `challenge`.
pub fn challenge(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "a challenge type.")?;
    draft.section.challenge = one_of(line, word, &ChallengeKind::ALL.map(|kind| (kind.name(), kind)))?;
    Ok(())
}

/// `keytype`.
pub fn key_type(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "RSA or ECDSA.")?;
    draft.is_rsa = Some(one_of(line, word, &[("RSA", true), ("ECDSA", false)])?);
    Ok(())
}

/// `curves`.
pub fn curves(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "a curve.")?;
    let names = Curve::ALL.map(|curve| (curve.name(), curve));
    let openssl = [("prime256v1", Curve::P256), ("secp384r1", Curve::P384), ("secp521r1", Curve::P521)];
    draft.curve = Some(one_of(line, word, &[names, openssl].concat())?);
    Ok(())
}

/// `bits`.
pub fn bits(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "a number of bits.")?;
    draft.bits = Some(one_of(line, word, &[("2048", 2048), ("3072", 3072), ("4096", 4096)])?);
    Ok(())
}

/// `reuse-key`.
pub fn reuse_key(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "on or off.")?;
    draft.section.reuse_key = one_of(line, word, &[("on", true), ("off", false)])?;
    Ok(())
}

/// `eab-key-id`, `eab-mac-key`. An empty file says nothing, as in HAProxy.
pub fn external_account(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    args::no_more(line, 1)?;
    args::required(line, 1, "a filename.")?;
    let contents = scope.read_file(line, 1)?;
    let contents = String::from_utf8_lossy(&contents).trim_end_matches(['\r', '\n']).to_owned();
    let Some(draft) = scope.state.acme.sections.last_mut() else { return Ok(()) };
    if contents.is_empty() {
        return Ok(());
    }
    if line.word(0) == "eab-key-id" {
        if !contents.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(
                Problem::new(format!("'eab-key-id' : '{}' has blanks or other characters.", line.word(1))).at(1)
            );
        }
        draft.key_id = Some(contents);
        return Ok(());
    }
    let key = URL_SAFE_NO_PAD
        .decode(contents.trim_end_matches('='))
        .map_err(|_| Problem::new(format!("'eab-mac-key' : '{}' has no key in base64url.", line.word(1))).at(1))?;
    draft.mac_key = Some(key);
    Ok(())
}

/// `eab-mac-alg`.
pub fn mac_algorithm(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (word, draft) = only(scope, line, "HS256, HS384 or HS512.")?;
    draft.algorithm = one_of(line, word, &MacAlgorithm::ALL.map(|algorithm| (algorithm.name(), algorithm)))?;
    Ok(())
}

/// `acme.scheduler`.
pub fn scheduler(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let word = args::required(line, 1, "auto or off.")?;
    scope.state.global.acme_scheduler_off = !one_of(line, word, &[("auto", true), ("off", false)])?;
    Ok(())
}

impl AcmeWords {
    /// Reads a word of these; `false` for another one.
    pub fn word(&mut self, line: &Line, index: &mut usize) -> Result<bool, Problem> {
        let at = *index;
        let word = line.word(at);
        if !matches!(word, "acme" | "domains" | "ips") {
            return Ok(false);
        }
        let value = line.word(at + 1);
        if value.is_empty() {
            return Err(Problem::new(format!("'{word}' expects an argument.")).at(at + 1));
        }
        *index += 2;
        match word {
            "acme" => self.section = Some(value.to_owned()),
            "domains" => {
                for name in value.split(',') {
                    let name = checked_name(name).map_err(|problem| problem.at(at + 1))?;
                    if !self.domains.contains(&name) {
                        self.domains.push(name);
                    }
                }
            }
            _ => {
                for text in value.split(',') {
                    let address = text
                        .parse()
                        .map_err(|_| Problem::new(format!("'ips' : '{text}' is no IP address.")).at(at + 1))?;
                    if !self.addresses.contains(&address) {
                        self.addresses.push(address);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether any of them was there.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.section.is_some() || !self.domains.is_empty() || !self.addresses.is_empty()
    }
}

/// A name as certificates have it, in lower case.
fn checked_name(name: &str) -> Result<String, Problem> {
    let bare = name.strip_prefix("*.").unwrap_or(name);
    let wrong = |expected: &str| Problem::new(format!("'domains' : '{name}' is no host name.")).expected(expected);
    if bare.parse::<IpAddr>().is_ok() {
        return Err(wrong("addresses after 'ips'"));
    }
    if !bare.is_ascii() {
        return Err(wrong("names in the form that DNS has ('xn--...')"));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if bare.len() > 253 || !bare.split('.').all(is_label) {
        return Err(wrong("names as www.example.com or *.example.com, with ',' between them"));
    }
    Ok(name.to_ascii_lowercase())
}

/// The certificate that is shown for one that comes by itself: what stands in its file, or a temporary one.
pub fn certificate(
    scope: &mut Scope<'_>,
    line: &Line,
    (name, file): (&str, &str),
    words: &AcmeWords,
    identity: Option<Arc<Identity>>,
) -> Result<Arc<Identity>, Problem> {
    let Some(section) = &words.section else {
        let message = format!("'domains' and 'ips' of '{name}' need 'acme' and the name of an acme section.");
        return Err(Problem::new(message));
    };
    if words.domains.is_empty() && words.addresses.is_empty() {
        let message = format!("'acme {section}' of '{name}' needs to know what the certificate is for.");
        return Err(Problem::new(message).expected("'domains' and names with ',' between them, or 'ips'"));
    }
    if let Some(known) = scope.state.acme.certificates.iter().find(|known| *known.name == *name) {
        let is_same = known.words.section == words.section
            && known.words.domains == words.domains
            && known.words.addresses == words.addresses;
        if is_same {
            return Ok(Arc::clone(&known.shown));
        }
        let place = known.line.location();
        let message =
            format!("certificate '{name}' has other 'acme', 'domains' or 'ips' at {}:{}.", place.file, place.line);
        return Err(Problem::new(message));
    }
    let shown = match &identity {
        Some(identity) => Arc::clone(identity),
        None => ::tls::temporary(&words.domains, &words.addresses)
            .map_err(|error| Problem::new(format!("cannot make a temporary certificate for '{name}': {error}.")))?,
    };
    scope.state.acme.certificates.push(CertificateDraft {
        name: name.into(),
        file: scope.resolve_path(file),
        line: line.clone(),
        words: words.clone(),
        identity,
        shown: Arc::clone(&shown),
    });
    Ok(shown)
}

/// Checks sections, and finds that of each certificate.
pub fn finish(scope: &mut Scope<'_>) {
    let Pending { sections, certificates, anchors, is_unverified, .. } = std::mem::take(&mut scope.state.acme);
    let mut finished: Vec<Arc<Acme>> = Vec::new();
    for draft in sections {
        let line = draft.line.clone();
        match finished_section(scope, draft, (anchors.as_ref(), is_unverified)) {
            Ok(section) => finished.push(Arc::new(section)),
            Err(problem) => scope.alert(&line, problem),
        }
    }
    let mut wanted = Vec::new();
    for certificate in certificates {
        let name = certificate.words.section.clone().unwrap_or_default();
        let Some(section) = finished.iter().find(|section| *section.name == *name) else {
            let known: Vec<&str> = finished.iter().map(|section| &*section.name).collect();
            let message = format!("couldn't find the acme section '{name}' referenced by '{}'.", certificate.name);
            scope.alert(&certificate.line, Problem::new(message).nearest(&name, known));
            continue;
        };
        match unprovable(section, &certificate.words) {
            Some(problem) => scope.alert(&certificate.line, problem),
            None => wanted.push(AcmeCertificate {
                location: certificate.line.location(),
                name: certificate.name,
                file: certificate.file,
                section: Arc::clone(section),
                domains: certificate.words.domains,
                addresses: certificate.words.addresses,
                identity: certificate.identity,
            }),
        }
    }
    scope.state.acme.finished = (finished, wanted);
}

fn finished_section(
    scope: &mut Scope<'_>,
    draft: AcmeDraft,
    (anchors, is_unverified): (Option<&TrustAnchors>, bool),
) -> Result<Acme, Problem> {
    let AcmeDraft { mut section, line, is_rsa, curve, bits, key_id, mac_key, algorithm } = draft;
    if section.directory.is_empty() {
        let message = format!("acme section '{}' has no 'directory'.", section.name);
        return Err(Problem::new(message)
            .at(1)
            .expected("'directory https://acme-v02.api.letsencrypt.org/directory' for Let's Encrypt"));
    }
    let is_rsa = is_rsa.unwrap_or(false);
    section.key = if is_rsa { KeyType::Rsa(bits.unwrap_or(2048)) } else { KeyType::Ecdsa(curve.unwrap_or_default()) };
    if is_rsa && curve.is_some() || !is_rsa && bits.is_some() {
        let (word, kind) = if is_rsa { ("curves", "RSA") } else { ("bits", "ECDSA") };
        let message = format!("acme section '{}' : '{word}' has no effect on keys of {kind}.", section.name);
        let expected = "'keytype RSA' and 'bits', or 'keytype ECDSA' and 'curves'";
        scope.warn(&line, Problem::new(message).at(1).expected(expected));
    }
    section.external_account = match (key_id, mac_key) {
        (Some(key_id), Some(mac_key)) => Some(ExternalAccount { key_id, mac_key, algorithm }),
        (None, None) => None,
        _ => {
            let message = format!("acme section '{}' : 'eab-key-id' and 'eab-mac-key' go together.", section.name);
            return Err(Problem::new(message).at(1));
        }
    };
    if section.challenge == ChallengeKind::Dns01 && section.program.is_none() {
        let message =
            format!("acme section '{}' : 'challenge dns-01' needs a program that sets records.", section.name);
        return Err(Problem::new(message).at(1).expected("'challenge-program' and its path"));
    }
    section.account_key = scope.resolve_path(&section.account_key);
    if let Ok(bytes) = scope.files.read(&section.account_key) {
        PrivateKey::from_pem(&bytes).map_err(|error| {
            Problem::new(format!(
                "acme section '{}' : unable to load '{}': {error}.",
                section.name, section.account_key
            ))
            .at(1)
            .expected("a key of RSA or of the curves P-256, P-384, P-521, as of 'openssl genrsa -out account.key 2048'")
        })?;
        section.account_pem = Some(bytes);
    }
    section.anchors = match (is_unverified, anchors) {
        (true, _) => None,
        (false, Some(anchors)) => Some(anchors.clone()),
        (false, None) if section.directory.starts_with("http://") => None,
        (false, None) => Some(super::tls::system_anchors(scope, &line)?),
    };
    Ok(section)
}

/// What cannot be proven in the way of the section.
fn unprovable(section: &Acme, words: &AcmeWords) -> Option<Problem> {
    let kind = section.challenge.name();
    if let Some(name) = words.domains.iter().find(|name| name.starts_with('*'))
        && !section.challenge.is_record()
    {
        let message = format!("'domains' : no authority gives a wildcard as '{name}' for a proof by {kind}.");
        return Some(Problem::new(message).expected("'challenge dns-01' or 'dns-persist-01' in the acme section"));
    }
    if section.challenge.is_record() && !words.addresses.is_empty() {
        let message = format!("'ips' : addresses are not proven by {kind}.");
        return Some(Problem::new(message).expected("'challenge http-01' or 'tls-alpn-01' in the acme section"));
    }
    None
}
