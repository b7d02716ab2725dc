//! Files of certificates, keys and lists of what was revoked.

use std::sync::Arc;

use ::tls::{Identity, IdentityError, OcspError, Pem, RevocationLists, TrustAnchors, TrustError};

use crate::{
    diagnostics::Problem,
    keywords::acme::{self, AcmeWords},
    line::Line,
    scope::Scope,
};

/// Most files of a folder of certificates.
const FILES_MAX: usize = 100_000;

/// Where distributions keep the certificates of those whom they trust.
const SYSTEM_ANCHORS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Which files beside a certificate are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    /// `.rsa`, `.ecdsa`.
    pub bundle: bool,
    /// `.sctl`.
    pub sctl: bool,
    /// `.ocsp`.
    pub ocsp: bool,
    /// `.issuer`.
    pub issuer: bool,
    /// `.key`.
    pub key: bool,
}

impl Default for Extra {
    fn default() -> Self {
        Self { bundle: true, sctl: true, ocsp: true, issuer: true, key: true }
    }
}

/// A certificate, and what configurations call it: its file, or as a `crt-store` section names it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name.
    pub name: Arc<str>,
    /// The certificate.
    pub identity: Arc<Identity>,
}

/// Files that hold what belongs to a certificate, where they are named.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Its key.
    pub key: Option<String>,
    /// Its OCSP response.
    pub ocsp: Option<String>,
    /// Its issuer's certificate.
    pub issuer: Option<String>,
}

/// A path below the base that holds for it.
pub fn below(base: Option<&str>, path: &str) -> String {
    match base {
        Some(base) if !path.starts_with('/') && !path.starts_with('@') => format!("{base}/{path}"),
        _ => path.to_owned(),
    }
}

/// The certificates to trust of the file that the argument of the word at `at` names.
pub fn anchors(scope: &mut Scope<'_>, line: &Line, name: &str, at: usize) -> Result<TrustAnchors, Problem> {
    let word = line.word(at);
    let wrong = |path: &str, why: &str| {
        Problem::new(format!("'{word}' : unable to load {path}: couldn't open the ca-file '{path}' ({why})")).at(at + 1)
    };
    let is_system = name == SYSTEM;
    let path = if is_system { name.to_owned() } else { below(scope.state.tls.ca_base.as_deref(), name) };
    if let Some(known) = scope.state.tls.files.anchors.get(&*path) {
        return Ok(known.clone());
    }
    if scope.state.tls.is_running {
        return Err(not_loaded(word, &path, at));
    }
    let read = match is_system {
        true => system_anchors(scope, line).map_err(|problem| problem.at(at + 1))?,
        false => anchors_of(scope, &path, wrong)?,
    };
    let path: Arc<str> = path.into();
    let read = read.named(Arc::clone(&path));
    scope.state.tls.files.anchors.insert(path, read.clone());
    Ok(read)
}

/// As in HAProxy, no file is read for a command: it names one of those that are known.
fn not_loaded(word: &str, path: &str, at: usize) -> Problem {
    Problem::new(format!("'{word}' : unable to load {path}")).at(at + 1)
}

/// The certificates of a file, or of the files of a folder.
fn anchors_of(scope: &Scope<'_>, path: &str, wrong: impl Fn(&str, &str) -> Problem) -> Result<TrustAnchors, Problem> {
    let mut files = Vec::new();
    for path in files_of(scope, path).map_err(|error| wrong(path, &error))? {
        let bytes = scope.read(&path).map_err(|error| wrong(&path, &error.0))?;
        files.push(Pem::read(&bytes).map_err(|error| wrong(&path, &error.to_string()))?);
    }
    TrustAnchors::new(&files).map_err(|error| match error {
        TrustError::Empty => wrong(path, "no certificate or crl found")
            .expected("a file with '-----BEGIN CERTIFICATE-----': those of the authorities that are trusted"),
        other => wrong(path, &other.to_string()),
    })
}

/// What a `ca-file` calls those whom the distribution trusts.
const SYSTEM: &str = "@system-ca";

/// Those whom the distribution trusts.
pub fn system_anchors(scope: &mut Scope<'_>, line: &Line) -> Result<TrustAnchors, Problem> {
    let wrong = |why: &str| {
        let word = line.word(0);
        Problem::new(format!("'{word}' : unable to load {SYSTEM}: couldn't open the ca-file '{SYSTEM}' ({why})"))
    };
    let found = SYSTEM_ANCHORS.iter().find_map(|path| scope.files.read(path).ok());
    let bytes = found.ok_or_else(|| {
        wrong("none of the files of distributions is there")
            .expected("a file of certificates, or the package ca-certificates")
    })?;
    let pem = Pem::read(&bytes).map_err(|error| wrong(&error.to_string()))?;
    TrustAnchors::new([&pem]).map_err(|error| wrong(&error.to_string()))
}

/// What was revoked, by the file that the argument of the word at `at` names.
pub fn revocation(scope: &mut Scope<'_>, line: &Line, name: &str, at: usize) -> Result<RevocationLists, Problem> {
    let path = below(scope.state.tls.ca_base.as_deref(), name);
    let word = line.word(at);
    let wrong = |why: &str| {
        Problem::new(format!("'{word}' : unable to load {path}: couldn't open the crl-file '{path}' ({why})"))
            .at(at + 1)
    };
    if let Some(known) = scope.state.tls.files.revocation.get(&*path) {
        return Ok(known.clone());
    }
    if scope.state.tls.is_running {
        return Err(not_loaded(word, &path, at));
    }
    let bytes = scope.read(&path).map_err(|error| wrong(&error.0))?;
    let pem = Pem::read(&bytes).map_err(|error| wrong(&error.to_string()))?;
    let lists = RevocationLists::new(&pem)
        .map_err(|error| wrong(&error.to_string()).expected("a file with '-----BEGIN X509 CRL-----'"))?;
    let path: Arc<str> = path.into();
    let lists = lists.named(Arc::clone(&path));
    scope.state.tls.files.revocation.insert(path, lists.clone());
    Ok(lists)
}

/// A file, or those of a folder.
fn files_of(scope: &Scope<'_>, path: &str) -> Result<Vec<String>, String> {
    match scope.files.list(&scope.resolve_path(path)) {
        Ok(Some(mut names)) => {
            names.sort_unstable();
            names.retain(|name| !name.starts_with('.'));
            Ok(names.into_iter().map(|name| format!("{path}/{name}")).collect())
        }
        Ok(None) => Ok(vec![path.to_owned()]),
        Err(error) => Err(error.0),
    }
}

/// The path of a folder of certificates, as lists at run time are called; nothing for what is no folder.
pub fn folder(scope: &Scope<'_>, name: &str) -> Option<Arc<str>> {
    if scope.state.tls.stores.named(name).is_some() || name.starts_with('@') {
        return None;
    }
    let path = below(scope.state.tls.crt_base.as_deref(), name);
    let is_folder = matches!(scope.files.list(&scope.resolve_path(&path)), Ok(Some(_)));
    is_folder.then(|| without_slash(&path).into())
}

/// A path without the slashes at its end.
fn without_slash(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        path => path,
    }
}

/// The certificates of a file, of the files beside it, or of a folder.
pub fn certificates(scope: &mut Scope<'_>, line: &Line, at: usize, name: &str) -> Result<Vec<Loaded>, Problem> {
    const BESIDE: &[&str] = &[".issuer", ".ocsp", ".sctl", ".key", ".dh"];
    if let Some(loaded) = scope.state.tls.stores.named(name) {
        return Ok(vec![loaded.clone()]);
    }
    if name.starts_with('@') {
        let problem = Problem::new(format!("unable to find certificate '{name}' in any crt-store section.")).at(at);
        return Err(problem.nearest(name, scope.state.tls.stores.names()));
    }
    let path = below(scope.state.tls.crt_base.as_deref(), name);
    let loaded = |path: &str, identity| Loaded { name: path.into(), identity };
    let listed = scope.files.list(&scope.resolve_path(&path));
    match listed {
        Ok(Some(mut names)) => {
            names.sort_unstable();
            names.retain(|name| !name.starts_with('.') && !BESIDE.iter().any(|end| name.ends_with(end)));
            if names.len() > FILES_MAX {
                let message = format!("'{path}' has {} files (maximum is {FILES_MAX})", names.len());
                return Err(Problem::new(message).at(at));
            }
            let mut found = Vec::new();
            for name in names {
                let path = format!("{}/{name}", without_slash(&path));
                // Folders within are left alone.
                if matches!(scope.files.list(&scope.resolve_path(&path)), Ok(None)) {
                    found.push(loaded(&path, certificate(scope, line, at, &path)?));
                }
            }
            Ok(found)
        }
        Ok(None) => certificate(scope, line, at, &path).map(|identity| vec![loaded(&path, identity)]),
        Err(error) => {
            let mut found = Vec::new();
            if scope.state.tls.extra.bundle {
                for kind in [".rsa", ".ecdsa", ".dsa"] {
                    let path = format!("{path}{kind}");
                    if matches!(scope.files.list(&scope.resolve_path(&path)), Ok(None)) {
                        found.push(loaded(&path, certificate(scope, line, at, &path)?));
                    }
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
            let message = format!("unable to stat SSL certificate from file '{path}' : {}.", error.0);
            let expected = "the path of a file with certificate and key in PEM form, or of a folder of such files";
            Err(Problem::new(message).at(at).expected(expected))
        }
    }
}

/// A certificate of a list that comes by itself.
pub fn by_itself(scope: &mut Scope<'_>, line: &Line, name: &str, words: &AcmeWords) -> Result<Loaded, Problem> {
    if scope.state.tls.stores.named(name).is_some() || name.starts_with('@') {
        return Err(Problem::new(format!("'acme' of '{name}' stands in the crt-store section that has it.")).at(0));
    }
    let path = below(scope.state.tls.crt_base.as_deref(), name);
    let identity = match scope.files.list(&scope.resolve_path(&path)) {
        Err(_) => None,
        Ok(_) => Some(certificate(scope, line, 0, &path)?),
    };
    let identity = acme::certificate(scope, line, (&path, &path), words, identity)?;
    Ok(Loaded { name: path.as_str().into(), identity })
}

/// The certificate of a file, with what stands beside it.
pub fn certificate(scope: &mut Scope<'_>, line: &Line, at: usize, path: &str) -> Result<Arc<Identity>, Problem> {
    with_files(scope, line, (at, path), &Beside::default())
}

/// The same, with files that are named beside it.
pub fn with_files(
    scope: &mut Scope<'_>,
    line: &Line,
    (at, path): (usize, &str),
    named: &Beside,
) -> Result<Arc<Identity>, Problem> {
    let unable = format!("unable to load certificate from file '{path}'");
    let bytes = scope.read(path).map_err(|error| Problem::new(format!("{unable} : {error}.")).at(at))?;
    let mut pem = Pem::read(&bytes).map_err(|error| Problem::new(format!("{unable} : {error}.")).at(at))?;
    let extra = scope.state.tls.extra;
    // `site.pem` has its key in `site.pem.key`, or in `site.key` with `ssl-load-extra-del-ext`.
    let stem = match path.rsplit_once('.') {
        Some((stem, end)) if scope.state.tls.removes_extension && !end.contains('/') => stem.to_owned(),
        _ => path.to_owned(),
    };
    let beside = |end: &str| format!("{stem}.{end}");
    let missing = |what: &str, path: &str, why: String| {
        Problem::new(format!("unable to load {what} from file '{path}' : {why}.")).at(at)
    };
    if let Some(key) = &named.key {
        // One that is named counts before one in the file.
        let bytes = scope.read(key).map_err(|error| missing("private key", key, error.0))?;
        let read = Pem::read(&bytes).map_err(|error| missing("private key", key, error.to_string()))?;
        pem.replace_key(read);
    } else if !pem.has_key()
        && extra.key
        && let Ok(bytes) = scope.read(&beside("key"))
    {
        let wrong = |error: ::tls::PemError| missing("private key", &beside("key"), error.to_string());
        pem.add_key(Pem::read(&bytes).map_err(wrong)?);
    }
    let mut issuer = None;
    if let Some(path) = &named.issuer {
        let bytes = scope.read(path).map_err(|error| missing("issuer", path, error.0))?;
        issuer = Some(Pem::read(&bytes).map_err(|error| missing("issuer", path, error.to_string()))?);
    } else if extra.issuer
        && pem.len() == 1
        && let Ok(bytes) = scope.read(&beside("issuer"))
    {
        let wrong = |error: ::tls::PemError| missing("issuer", &beside("issuer"), error.to_string());
        issuer = Some(Pem::read(&bytes).map_err(wrong)?);
    }
    if pem.has_dh_parameters {
        let message = format!(
            "'{path}' : its Diffie-Hellman parameters are left out: keys are exchanged by elliptic curves alone."
        );
        scope.warn(line, Problem::new(message).at(at));
    }
    if extra.sctl && scope.read(&beside("sctl")).is_ok() {
        let message = format!(
            "'{}' : signed certificate timestamps are not sent: authorities have put them into certificates since 2018.",
            beside("sctl")
        );
        scope.warn(line, Problem::new(message).at(at));
    }
    let mut identity = Identity::new(&pem).map_err(|error| refused(error, path, &beside("key"), &unable).at(at))?;
    if let Some(issuer) = &issuer {
        identity = identity.with_issuer(issuer);
    }
    if let Some(file) = named.ocsp.clone().or_else(|| extra.ocsp.then(|| beside("ocsp"))) {
        let is_named = named.ocsp.is_some();
        identity =
            with_response(scope, line, identity, &Response { file, is_named, path, issuer: beside("issuer"), at })?;
    }
    Ok(Arc::new(identity))
}

/// Where a certificate's OCSP response is looked for.
struct Response<'a> {
    file: String,
    /// A line names the file, so it has to be there.
    is_named: bool,
    /// The certificate's file.
    path: &'a str,
    /// Where its issuer's certificate could stand.
    issuer: String,
    at: usize,
}

/// A certificate with the OCSP response of a file, if there is one.
fn with_response(
    scope: &mut Scope<'_>,
    line: &Line,
    identity: Identity,
    Response { file, is_named, path, issuer, at }: &Response<'_>,
) -> Result<Identity, Problem> {
    let bytes = match scope.read(file) {
        Ok(bytes) if !bytes.is_empty() => bytes,
        Err(error) if *is_named => {
            let message = format!("unable to load OCSP response from file '{file}' : {}.", error.0);
            return Err(Problem::new(message).at(*at));
        }
        _ => return Ok(identity),
    };
    let (identity, outcome) = identity.with_ocsp_response(&bytes);
    match outcome {
        Ok(()) => {}
        Err(error @ OcspError::NoIssuer) => {
            let problem = Problem::new(format!("'{file}' is present and activates OCSP but {error}'.")).at(*at);
            return Err(problem.expected(format!(
                "the issuer's certificate behind the one in '{path}', or in '{issuer}', or '{file}' to be gone"
            )));
        }
        // As in HAProxy, the certificate is served without it.
        Err(error) => {
            let message = format!("'{file}' : Loading: {error}. Content will be ignored.");
            scope.warn(line, Problem::new(message).at(*at));
        }
    }
    Ok(identity)
}

fn refused(error: IdentityError, path: &str, key: &str, unable: &str) -> Problem {
    match error {
        IdentityError::NoCertificate => Problem::new(format!("{unable}."))
            .expected("a block '-----BEGIN CERTIFICATE-----' in it, before those of its issuers"),
        IdentityError::NoKey => Problem::new(format!("No Private Key found in '{key}'."))
            .expected(format!("a block '-----BEGIN PRIVATE KEY-----' in '{path}' or in '{key}'")),
        IdentityError::EncryptedKey => Problem::new(format!(
            "the private key of '{path}' is encrypted, and nobody could be asked."
        ))
        .expected("it without a passphrase ('openssl pkey -in old.key -out new.key'), readable by its owner alone"),
        IdentityError::Mismatch => {
            Problem::new(format!("inconsistencies between private key and certificate loaded '{path}'."))
                .expected("the key with which the first certificate of the file was requested")
        }
        other @ (IdentityError::Malformed | IdentityError::Key(_) | IdentityError::TooLong(_)) => {
            Problem::new(format!("{unable} : {other}."))
        }
    }
}
