//! `show`, `new`, `set`, `commit`, `abort` and `del ssl cert`.

use std::sync::Arc;

use tls::{Identity, IdentityError, OcspError, Pem};

use super::{State, TlsStore, install, listeners, servers};
use crate::{proxy::LiveProxy, refusal::Refusal};

/// What a certificate is to become.
#[derive(Clone, Debug)]
pub(super) struct Change {
    name: Arc<str>,
    /// What it is now; nothing for one that is empty.
    before: Option<Arc<Identity>>,
    /// Certificate, chain and perhaps key.
    certificates: Option<Arc<Pem>>,
    key: Option<Arc<Pem>>,
    issuer: Option<Arc<Pem>>,
    ocsp: Option<Vec<u8>>,
}

/// Why a certificate does not become what it was to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// What was sent does not suffice: the transaction goes on.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// It cannot be put in place: the transaction is over.
    #[error("{0}")]
    Failed(String),
}

/// Whether a certificate is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// There is none in it yet.
    Empty,
    /// Nobody uses it.
    Unused,
    /// A listener or a server does.
    Used,
}

/// A certificate to be told of.
#[derive(Clone, Debug)]
pub struct ShownCertificate {
    /// Whether it is used.
    pub state: CertificateState,
    /// The certificate and its chain.
    pub chain: Vec<Vec<u8>>,
    /// What it is called in OCSP responses, in hexadecimal; empty for one without them.
    pub ocsp_key: String,
}

impl TlsStore {
    /// The names of all certificates, in order, and the name of the one that is being replaced.
    #[must_use]
    pub fn certificate_names(&self) -> (Vec<Arc<str>>, Option<Arc<str>>) {
        let state = self.lock();
        (state.certificates.keys().cloned().collect(), state.certificate_change.name().cloned())
    }

    /// A certificate; with `*` before its name, what it is to become.
    #[must_use]
    pub fn certificate(&self, name: &str) -> Option<ShownCertificate> {
        let state = self.lock();
        if let Some(name) = name.strip_prefix('*') {
            let change = state.certificate_change.wanted(name).ok()?;
            let chain: Vec<_> = change.pem().chain().map(<[u8]>::to_vec).collect();
            let ocsp_key = change.identity().ok().map(|identity| ocsp_key(&identity)).unwrap_or_default();
            let state = if chain.is_empty() { CertificateState::Empty } else { CertificateState::Unused };
            return Some(ShownCertificate { state, chain, ocsp_key });
        }
        let Some(identity) = state.certificates.get(name)? else {
            return Some(ShownCertificate {
                state: CertificateState::Empty,
                chain: Vec::new(),
                ocsp_key: String::new(),
            });
        };
        Some(ShownCertificate {
            state: if is_used(&self.proxies, name) { CertificateState::Used } else { CertificateState::Unused },
            chain: identity.chain().map(<[u8]>::to_vec).collect(),
            ocsp_key: ocsp_key(identity),
        })
    }

    /// Makes a name for a certificate that is to come.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn new_certificate(&self, name: &str) -> Result<(), Refusal> {
        /// Certificates that may be there: whoever may send commands shall not fill the memory by mistake.
        const CERTIFICATES_MAX: usize = 1_000_000;
        let mut state = self.lock();
        if state.certificates.contains_key(name) {
            return Err(Refusal(format!("Certificate '{name}' already exists!")));
        }
        if state.certificates.len() >= CERTIFICATES_MAX {
            return Err(Refusal(format!("there are {CERTIFICATES_MAX} certificates already!")));
        }
        state.certificates.insert(name.into(), None);
        Ok(())
    }

    /// Takes a part of what a certificate is to become: `file` names the certificate, or with `.key`, `.issuer` or `.ocsp` behind it
    /// that part. The name of the certificate, and whether the transaction has just begun.
    ///
    /// # Errors
    /// Why not.
    pub fn set_certificate(&self, file: &str, payload: &str) -> Result<(Arc<str>, bool), Refusal> {
        let unknown = || Refusal::from("Can't replace a certificate which is not referenced by the configuration!");
        let mut state = self.lock();
        let (name, part) = match state.certificates.contains_key(file) {
            true => (file, ""),
            false => file.rsplit_once('.').ok_or_else(unknown)?,
        };
        let (name, before) = state.certificates.get_key_value(name).ok_or_else(unknown)?;
        let (name, before) = (Arc::clone(name), before.clone());
        let empty =
            || Change { name: Arc::clone(&name), before, certificates: None, key: None, issuer: None, ocsp: None };
        let ongoing = state.certificate_change.0.as_ref().map(|(_, change)| change.clone());
        let begins = ongoing.is_none();
        let mut change = ongoing.filter(|change| change.name == name).unwrap_or_else(empty);
        change.take(part, payload)?;
        state.certificate_change.check(&name)?;
        state.certificate_change.0 = Some((Arc::clone(&name), change));
        Ok((name, begins))
    }

    /// Puts what a certificate is to become in place; in how many places that is.
    ///
    /// # Errors
    /// Why not.
    pub fn commit_certificate(&self, name: &str) -> Result<usize, CommitError> {
        let mut state = self.lock();
        let identity = state.certificate_change.wanted(name)?.identity();
        if !matches!(identity, Err(CommitError::Refused(_))) {
            state.certificate_change.0 = None;
        }
        Ok(state.replace(&self.proxies, name, Arc::new(identity?)))
    }

    /// Forgets what a certificate was to become.
    ///
    /// # Errors
    /// Why not.
    pub fn abort_certificate(&self, name: &str) -> Result<(), Refusal> {
        self.lock().certificate_change.abort(name)
    }

    /// Replaces a certificate at once.
    pub fn replace_certificate(&self, name: &str, identity: &Arc<Identity>) {
        self.lock().replace(&self.proxies, name, Arc::clone(identity));
    }

    /// Takes a certificate away.
    ///
    /// # Errors
    /// When it is not there, or in use.
    pub fn delete_certificate(&self, name: &str) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.certificate_change.name().is_some_and(|ongoing| **ongoing == *name) {
            return Err(Refusal(format!("ongoing transaction for the certificate '{name}'")));
        }
        if !state.certificates.contains_key(name) {
            return Err(Refusal(format!("certificate '{name}' doesn't exist!\n")));
        }
        if is_used(&self.proxies, name) {
            return Err(Refusal(format!("certificate '{name}' in use, can't be deleted!\n")));
        }
        state.certificates.remove(name);
        Ok(())
    }
}

impl State {
    /// Replaces a certificate; in how many places that is.
    pub(super) fn replace(&mut self, proxies: &[Arc<LiveProxy>], name: &str, identity: Arc<Identity>) -> usize {
        let places = install(proxies, name, &identity);
        if let Some(known) = self.certificates.get_mut(name) {
            *known = Some(identity);
        }
        places
    }
}

fn ocsp_key(identity: &Identity) -> String {
    identity.ocsp_id().map(|id| id.hex()).unwrap_or_default()
}

fn is_used(proxies: &[Arc<LiveProxy>], name: &str) -> bool {
    let is_here = |entry: &tls::Entry| *entry.name == *name;
    listeners(proxies).any(|tls| tls.look(|entries| entries.iter().any(is_here)))
        || servers(proxies)
            .any(|server| server.config.tls.as_ref().is_some_and(|tls| tls.certificate.as_deref() == Some(name)))
}

impl Change {
    fn take(&mut self, part: &str, payload: &str) -> Result<(), Refusal> {
        let unable = |what: &str, why: &str| {
            Refusal(format!("unable to load {what} from file '{}'{why}.\nCan't load the payload", self.name))
        };
        let pem = |what: &str| {
            Pem::read(payload.as_bytes()).map_err(|error| unable(what, &format!(" : {error}"))).map(Arc::new)
        };
        match part {
            "" => {
                let pem = pem("certificate")?;
                if pem.is_empty() {
                    return Err(unable("certificate", ""));
                }
                // As in HAProxy, what belonged to the former one is gone.
                (self.certificates, self.key, self.issuer, self.ocsp) = (Some(pem), None, None, None);
            }
            "key" => {
                let pem = pem("private key")?;
                if !pem.has_key() {
                    return Err(unable("private key", ""));
                }
                self.key = Some(pem);
            }
            "issuer" => {
                let pem = Pem::read(payload.as_bytes()).ok().filter(|pem| !pem.is_empty());
                let wrong = || format!("'{}' cannot be read or parsed'.\nCan't load the payload", self.name);
                self.issuer = Some(Arc::new(pem.ok_or_else(|| Refusal(wrong()))?));
            }
            "ocsp" => {
                let bytes = tls::from_base64(payload).filter(|bytes| !bytes.is_empty());
                self.ocsp = Some(bytes.ok_or_else(|| unable("OCSP response", " : it is no base64"))?);
            }
            _ => return Err("Can't replace a certificate which is not referenced by the configuration!".into()),
        }
        Ok(())
    }

    /// Certificate, chain and key as they are to become.
    fn pem(&self) -> Pem {
        let before = || self.before.as_ref().map(|before| Pem::of_chain(before.chain())).unwrap_or_default();
        let mut pem = self.certificates.as_deref().map_or_else(before, Pem::clone);
        if let Some(key) = &self.key {
            pem.replace_key(Pem::clone(key));
        }
        pem
    }

    fn identity(&self) -> Result<Identity, CommitError> {
        let unchanged = self.before.as_ref().filter(|_| self.certificates.is_none() && self.key.is_none());
        let mut identity = match unchanged {
            Some(before) => Identity::clone(before),
            None => Identity::new(&self.pem()).map_err(|error| match error {
                IdentityError::Mismatch => self.mismatch(),
                IdentityError::NoCertificate if self.key.is_some() => self.mismatch(),
                IdentityError::NoKey | IdentityError::NoCertificate => {
                    "The transaction must contain at least a certificate and a private key!".into()
                }
                other => Refusal(format!(
                    "unable to load certificate from file '{}' : {other}.\nCan't load the payload",
                    self.name
                )),
            })?,
        };
        let before = self.before.as_deref().filter(|_| self.certificates.is_none());
        let former_issuer = || before.and_then(Identity::issuer).map(|der| Pem::of_chain(std::iter::once(der)));
        if let Some(issuer) = self.issuer.as_deref().cloned().or_else(former_issuer) {
            identity = identity.with_issuer(&issuer);
        }
        let former = before.and_then(Identity::ocsp_response).map(|response| response.der());
        if let Some(response) = self.ocsp.as_deref().or(former) {
            let (with_response, outcome) = identity.with_ocsp_response(response);
            identity = with_response;
            // As in HAProxy, the certificate is served without one that something else is wrong with.
            if let (Err(error @ OcspError::NoIssuer), Some(_)) = (outcome, &self.ocsp) {
                return Err(CommitError::Failed(format!(
                    "'{}.ocsp' is present and activates OCSP but {error}'.",
                    self.name
                )));
            }
        }
        Ok(identity)
    }

    fn mismatch(&self) -> Refusal {
        Refusal(format!("inconsistencies between private key and certificate loaded '{}'.", self.name))
    }
}
