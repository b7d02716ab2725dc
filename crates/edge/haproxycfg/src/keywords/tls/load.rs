//! Files of certificates, keys and lists of what was revoked.

use std::sync::Arc;

use ::tls::{Identity, IdentityError, Pem, RevocationLists, TrustAnchors, TrustError};

use crate::{diagnostics::Problem, line::Line, scope::Scope};

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

/// A path below the base that holds for it.
fn below(base: Option<&str>, path: &str) -> String {
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
    if name == "@system-ca" {
        let found = SYSTEM_ANCHORS.iter().find_map(|path| scope.files.read(path).ok());
        let bytes = found.ok_or_else(|| {
            wrong(name, "none of the files of distributions is there")
                .expected("a file of certificates, or the package ca-certificates")
        })?;
        let pem = Pem::read(&bytes).map_err(|error| wrong(name, &error.to_string()))?;
        return TrustAnchors::new([&pem]).map_err(|error| wrong(name, &error.to_string()));
    }
    let path = below(scope.state.tls.ca_base.as_deref(), name);
    let mut files = Vec::new();
    for path in files_of(scope, &path).map_err(|error| wrong(&path, &error))? {
        let bytes = scope.read(&path).map_err(|error| wrong(&path, &error.0))?;
        files.push(Pem::read(&bytes).map_err(|error| wrong(&path, &error.to_string()))?);
    }
    TrustAnchors::new(&files).map_err(|error| match error {
        TrustError::Empty => wrong(&path, "no certificate or crl found")
            .expected("a file with '-----BEGIN CERTIFICATE-----': those of the authorities that are trusted"),
        other => wrong(&path, &other.to_string()),
    })
}

/// What was revoked, by the file that the argument of the word at `at` names.
pub fn revocation(scope: &mut Scope<'_>, line: &Line, name: &str, at: usize) -> Result<RevocationLists, Problem> {
    let path = below(scope.state.tls.ca_base.as_deref(), name);
    let word = line.word(at);
    let wrong = |why: &str| {
        Problem::new(format!("'{word}' : unable to load {path}: couldn't open the crl-file '{path}' ({why})"))
            .at(at + 1)
    };
    let bytes = scope.read(&path).map_err(|error| wrong(&error.0))?;
    let pem = Pem::read(&bytes).map_err(|error| wrong(&error.to_string()))?;
    RevocationLists::new(&pem)
        .map_err(|error| wrong(&error.to_string()).expected("a file with '-----BEGIN X509 CRL-----'"))
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

/// The certificates of a file, of the files beside it, or of a folder.
pub fn certificates(scope: &mut Scope<'_>, line: &Line, at: usize, name: &str) -> Result<Vec<Arc<Identity>>, Problem> {
    const BESIDE: &[&str] = &[".issuer", ".ocsp", ".sctl", ".key", ".dh"];
    let path = below(scope.state.tls.crt_base.as_deref(), name);
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
                let path = format!("{path}/{name}");
                // Folders within are left alone.
                if matches!(scope.files.list(&scope.resolve_path(&path)), Ok(None)) {
                    found.push(certificate(scope, line, at, &path)?);
                }
            }
            Ok(found)
        }
        Ok(None) => certificate(scope, line, at, &path).map(|identity| vec![identity]),
        Err(error) => {
            let mut found = Vec::new();
            if scope.state.tls.extra.bundle {
                for kind in [".rsa", ".ecdsa", ".dsa"] {
                    let path = format!("{path}{kind}");
                    if matches!(scope.files.list(&scope.resolve_path(&path)), Ok(None)) {
                        found.push(certificate(scope, line, at, &path)?);
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

/// The certificate of a file, with what stands beside it.
pub fn certificate(scope: &mut Scope<'_>, line: &Line, at: usize, path: &str) -> Result<Arc<Identity>, Problem> {
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
    if !pem.has_key()
        && extra.key
        && let Ok(bytes) = scope.read(&beside("key"))
    {
        let wrong =
            |error| Problem::new(format!("unable to load private key from file '{}' : {error}.", beside("key")));
        pem.add_key(Pem::read(&bytes).map_err(|error| wrong(error).at(at))?);
    }
    if extra.issuer
        && pem.len() == 1
        && let Ok(bytes) = scope.read(&beside("issuer"))
    {
        let wrong = |error| Problem::new(format!("unable to load issuer from file '{}' : {error}.", beside("issuer")));
        pem.add_chain(Pem::read(&bytes).map_err(|error| wrong(error).at(at))?);
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
    if extra.ocsp
        && let Ok(response) = scope.read(&beside("ocsp"))
        && !response.is_empty()
    {
        identity = identity.with_ocsp_response(response.to_vec());
    }
    Ok(Arc::new(identity))
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
        other @ (IdentityError::Malformed | IdentityError::Key(_)) => Problem::new(format!("{unable} : {other}.")),
    }
}
