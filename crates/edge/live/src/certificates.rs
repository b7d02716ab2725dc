//! Certificates of listeners that are replaced at the stats socket: as in HAProxy, one at a time, by a transaction.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use thiserror::Error;
use tls::{Identity, IdentityError, Pem};

/// Certificates by name.
pub type Certificates = BTreeMap<Arc<str>, Arc<Identity>>;

/// The transaction of a process, if there is one.
#[derive(Debug, Default)]
pub struct Transaction(Mutex<Option<Change>>);

/// What a certificate is to become.
#[derive(Clone, Debug)]
struct Change {
    name: Arc<str>,
    /// What it is now.
    before: Arc<Identity>,
    /// Certificate, chain and perhaps key.
    certificates: Option<Arc<Pem>>,
    key: Option<Arc<Pem>>,
    issuer: Option<Arc<Pem>>,
    ocsp: Option<Vec<u8>>,
}

/// Why a certificate is not replaced, in HAProxy's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// No listener has it.
    #[error("Can't replace a certificate which is not referenced by the configuration!")]
    Unknown,
    /// What was sent is no certificate.
    #[error("unable to load {what} from file '{name}'{why}.\nCan't load the payload")]
    Payload {
        /// Certificate, private key, and the like.
        what: &'static str,
        /// The certificate's name.
        name: String,
        /// What is wrong, if there is more to say.
        why: String,
    },
    /// Another one is being replaced.
    #[error("The ongoing transaction is about '{ongoing}' but you are trying to set '{wanted}'")]
    Other {
        /// The one that is being replaced.
        ongoing: String,
        /// The one that was named.
        wanted: String,
    },
    /// None is being replaced.
    #[error("No ongoing transaction!")]
    None,
    /// Something is missing.
    #[error("The transaction must contain at least a certificate and a private key!")]
    Incomplete,
    /// What was sent does not belong together.
    #[error("inconsistencies between private key and certificate loaded '{0}'.")]
    Mismatch(String),
}

/// A certificate as it is to become.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its name.
    pub name: Arc<str>,
    /// The certificate and its chain.
    pub chain: Vec<Vec<u8>>,
}

impl Transaction {
    /// Takes a part of what a certificate is to become: `file` names the certificate, or with `.key`, `.issuer` or `.ocsp` behind it
    /// that part. The name of the certificate, and whether the transaction has just begun.
    ///
    /// # Errors
    /// Why not.
    pub fn set(&self, known: &Certificates, file: &str, payload: &str) -> Result<(Arc<str>, bool), ChangeError> {
        let (name, part) = match known.get_key_value(file) {
            Some(_) => (file, ""),
            None => file.rsplit_once('.').ok_or(ChangeError::Unknown)?,
        };
        let (name, before) = known.get_key_value(name).ok_or(ChangeError::Unknown)?;
        let mut ongoing = self.lock();
        if let Some(change) = ongoing.as_ref()
            && change.name != *name
        {
            return Err(ChangeError::Other { ongoing: change.name.to_string(), wanted: name.to_string() });
        }
        let begins = ongoing.is_none();
        let mut change = ongoing.clone().unwrap_or_else(|| Change {
            name: Arc::clone(name),
            before: Arc::clone(before),
            certificates: None,
            key: None,
            issuer: None,
            ocsp: None,
        });
        change.take(part, payload)?;
        *ongoing = Some(change);
        Ok((Arc::clone(name), begins))
    }

    /// What is being replaced, and by what.
    #[must_use]
    pub fn pending(&self) -> Option<Pending> {
        let ongoing = self.lock();
        ongoing.as_ref().map(|change| Pending { name: Arc::clone(&change.name), chain: change.chain() })
    }

    /// Has `install` put what the certificate is to become in place.
    ///
    /// # Errors
    /// Why not: the transaction goes on.
    pub fn commit(&self, name: &str, install: impl FnOnce(&Arc<Identity>)) -> Result<(), ChangeError> {
        let mut ongoing = self.lock();
        let identity = Arc::new(Self::named(&ongoing, name)?.identity()?);
        install(&identity);
        *ongoing = None;
        Ok(())
    }

    /// Forgets what the certificate was to become.
    ///
    /// # Errors
    /// Why not.
    pub fn abort(&self, name: &str) -> Result<(), ChangeError> {
        let mut ongoing = self.lock();
        Self::named(&ongoing, name)?;
        *ongoing = None;
        Ok(())
    }

    fn named<'a>(ongoing: &'a Option<Change>, name: &str) -> Result<&'a Change, ChangeError> {
        let change = ongoing.as_ref().ok_or(ChangeError::None)?;
        if *change.name == *name {
            return Ok(change);
        }
        Err(ChangeError::Other { ongoing: change.name.to_string(), wanted: name.to_owned() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Change>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change {
    fn take(&mut self, part: &str, payload: &str) -> Result<(), ChangeError> {
        let wrong = |what, why: String| ChangeError::Payload { what, name: self.name.to_string(), why };
        let pem = |what| Pem::read(payload.as_bytes()).map_err(|error| wrong(what, format!(" : {error}")));
        match part {
            "" => {
                let pem = pem("certificate")?;
                if pem.is_empty() {
                    return Err(wrong("certificate", String::new()));
                }
                (self.certificates, self.key) = (Some(Arc::new(pem)), None);
            }
            "key" => {
                let pem = pem("private key")?;
                if !pem.has_key() {
                    return Err(wrong("private key", String::new()));
                }
                self.key = Some(Arc::new(pem));
            }
            "issuer" => {
                let pem = pem("issuer")?;
                if pem.is_empty() {
                    return Err(wrong("issuer", String::new()));
                }
                self.issuer = Some(Arc::new(pem));
            }
            "ocsp" => {
                let bytes = tls::from_base64(payload).filter(|bytes| !bytes.is_empty());
                self.ocsp = Some(bytes.ok_or_else(|| wrong("OCSP response", " : it is no base64".to_owned()))?);
            }
            _ => return Err(ChangeError::Unknown),
        }
        Ok(())
    }

    /// Certificate, chain and key as they are to become.
    fn pem(&self) -> Pem {
        let mut pem = self.certificates.as_deref().map_or_else(|| Pem::of_chain(self.before.chain()), Pem::clone);
        if let Some(key) = &self.key {
            pem.replace_key(Pem::clone(key));
        }
        if let Some(issuer) = self.issuer.as_ref().filter(|_| pem.len() == 1) {
            pem.add_chain(Pem::clone(issuer));
        }
        pem
    }

    fn chain(&self) -> Vec<Vec<u8>> {
        self.pem().chain().map(<[u8]>::to_vec).collect()
    }

    fn identity(&self) -> Result<Identity, ChangeError> {
        let mut identity = if self.certificates.is_none() && self.key.is_none() && self.issuer.is_none() {
            Identity::clone(&self.before)
        } else {
            Identity::new(&self.pem()).map_err(|error| match error {
                IdentityError::Mismatch => ChangeError::Mismatch(self.name.to_string()),
                IdentityError::NoKey | IdentityError::NoCertificate => ChangeError::Incomplete,
                other => ChangeError::Payload {
                    what: "certificate",
                    name: self.name.to_string(),
                    why: format!(" : {other}"),
                },
            })?
        };
        if let Some(ocsp) = &self.ocsp {
            identity = identity.with_ocsp_response(ocsp.clone());
        }
        Ok(identity)
    }
}
