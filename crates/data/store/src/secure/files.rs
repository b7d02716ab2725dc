//! The files of certificates, keys and authorities that settings name.

use std::{fs, io, path::Path, sync::Arc};

use commands::config::Settings;
use tls::{Identity, IdentityError, Pem, TrustAnchors};

use crate::messages;

/// Why there is no TLS: whoever wrote the settings, or keeps the files, is to correct it.
#[derive(Debug, thiserror::Error)]
pub enum TlsTrouble {
    /// A file is not named.
    #[error("'{setting}' is not set: TLS needs a certificate and its key ('tls-cert-file' and 'tls-key-file')")]
    NotSet {
        /// Which.
        setting: &'static str,
    },
    /// A file cannot be read.
    #[error("'{setting}': cannot read {path}")]
    Unreadable {
        /// Who names it.
        setting: &'static str,
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// What is in a file is of no use.
    #[error("'{setting}': {path}: {reason}")]
    Unusable {
        /// Who names it.
        setting: &'static str,
        /// Which.
        path: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Others are to be verified, and nobody says by whom.
    #[error(
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or tls-auth-clients are \
         enabled! (`tls-auth-clients no` lets clients in without certificates)"
    )]
    NoAuthorities,
    /// No version of that name.
    #[error(
        "'tls-protocols': there is no {word}: Use a combination of 'TLSv1.2' and 'TLSv1.3' ('TLSv1' and 'TLSv1.1' are not there)"
    )]
    Protocol {
        /// What was said.
        word: String,
    },
    /// Versions that are not there, alone.
    #[error("'tls-protocols': {words} is not there, as it is broken (RFC 8996): write \"TLSv1.2 TLSv1.3\"")]
    OldProtocols {
        /// What was said.
        words: String,
    },
    /// None of these is there.
    #[error("'{setting}': none of these is there: {remedy}")]
    NoCipher {
        /// Who names them.
        setting: &'static str,
        /// What would be.
        remedy: &'static str,
    },
    /// Settings contradict each other.
    #[error("'tls-protocols', 'tls-ciphers' and 'tls-ciphersuites' do not go together: {reason}")]
    Contradiction {
        /// How.
        reason: String,
    },
    /// A node of a cluster.
    #[error(
        "'{setting}': a node of a cluster has no TLS yet: leave it out, and let a proxy in front of the cluster speak TLS \
         (`tidegate edge`, HAProxy, stunnel)"
    )]
    Cluster {
        /// What wants it.
        setting: &'static str,
    },
}

fn read(setting: &'static str, path: &str) -> Result<Pem, TlsTrouble> {
    let unreadable = |source| TlsTrouble::Unreadable { setting, path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(unreadable)?;
    Pem::read(&bytes).map_err(|error| unusable(setting, path, &error.to_string()))
}

fn unusable(setting: &'static str, path: &str, reason: &str) -> TlsTrouble {
    TlsTrouble::Unusable { setting, path: path.to_owned(), reason: reason.to_owned() }
}

/// A certificate with its key: each a setting's name and value.
struct Pair<'a> {
    certificate: (&'static str, &'a str),
    key: (&'static str, &'a str),
    password: (&'static str, &'a str),
}

impl Pair<'_> {
    fn identity(&self) -> Result<Arc<Identity>, TlsTrouble> {
        for (setting, path) in [self.certificate, self.key] {
            if path.is_empty() {
                return Err(TlsTrouble::NotSet { setting });
            }
        }
        let mut pem = read(self.certificate.0, self.certificate.1)?;
        pem.replace_key(read(self.key.0, self.key.1)?);
        let of_key = |reason: &str| unusable(self.key.0, self.key.1, reason);
        let (name, password) = self.password;
        if !password.is_empty() {
            pem.decrypt(password.as_bytes()).map_err(|error| of_key(&format!("{error} ('{name}')")))?;
        }
        Identity::new(&pem).map(Arc::new).map_err(|error| match error {
            IdentityError::EncryptedKey => of_key(&format!("{error}: '{name}' takes its password")),
            IdentityError::NoKey | IdentityError::Key(_) => of_key(&error.to_string()),
            IdentityError::Mismatch => of_key(&format!("{error}: the certificate is {}", self.certificate.1)),
            IdentityError::NoCertificate | IdentityError::Malformed | IdentityError::TooLong(_) => {
                unusable(self.certificate.0, self.certificate.1, &error.to_string())
            }
        })
    }
}

/// What the store shows to clients.
pub fn own_identity(settings: &Settings) -> Result<Arc<Identity>, TlsTrouble> {
    Pair {
        certificate: ("tls-cert-file", &settings.tls_cert_file.0),
        key: ("tls-key-file", &settings.tls_key_file.0),
        password: ("tls-key-file-pass", &settings.tls_key_file_pass.0),
    }
    .identity()
}

/// What it shows to its master, if that is something else. As in Redis, both files must be named.
pub fn identity_to_servers(settings: &Settings) -> Result<Option<Arc<Identity>>, TlsTrouble> {
    let (certificate, key) = (&settings.tls_client_cert_file.0, &settings.tls_client_key_file.0);
    if certificate.is_empty() != key.is_empty() {
        messages::warn(
            "'tls-client-cert-file' and 'tls-client-key-file' count together alone: set both, or masters are shown 'tls-cert-file'",
        );
    }
    if certificate.is_empty() || key.is_empty() {
        return Ok(None);
    }
    let pair = Pair {
        certificate: ("tls-client-cert-file", certificate),
        key: ("tls-client-key-file", key),
        password: ("tls-client-key-file-pass", &settings.tls_client_key_file_pass.0),
    };
    pair.identity().map(Some)
}

/// A certificate and its key without a password, each with what names it.
pub fn shown(certificate: (&'static str, &str), key: (&'static str, &str)) -> Result<Arc<Identity>, TlsTrouble> {
    Pair { certificate, key, password: ("--key", "") }.identity()
}

/// Who is trusted, if anybody is named.
pub fn authorities(settings: &Settings) -> Result<Option<TrustAnchors>, TlsTrouble> {
    let (file, dir) = (&settings.tls_ca_cert_file.0, &settings.tls_ca_cert_dir.0);
    trusted(("tls-ca-cert-file", file), ("tls-ca-cert-dir", dir))
}

/// Those of a file and of a folder, each with what names it.
pub fn trusted(
    (of_file, file): (&'static str, &str),
    (of_dir, dir): (&'static str, &str),
) -> Result<Option<TrustAnchors>, TlsTrouble> {
    let mut found = Vec::new();
    if !file.is_empty() {
        let pem = read(of_file, file)?;
        TrustAnchors::new([&pem]).map_err(|error| unusable(of_file, file, &error.to_string()))?;
        found.push(pem);
    }
    if !dir.is_empty() {
        let before = found.len();
        let unreadable = |source| TlsTrouble::Unreadable { setting: of_dir, path: dir.to_owned(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).map_err(unreadable)? {
            paths.push(entry.map_err(unreadable)?.path());
        }
        paths.sort();
        // NOTE: as OpenSSL, which looks for a name's hash and sees nothing else: a key or a server's certificate that lies there too is
        // trusted by nobody.
        for path in paths.iter().filter(|path| is_hashed(path)) {
            found.push(read(of_dir, &path.display().to_string())?);
        }
        if found.len() == before {
            return Err(unusable(
                of_dir,
                dir,
                "no authority is in it, as none has a hash for its name: `openssl rehash` makes them",
            ));
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let wrong = |error: tls::TrustError| match dir.is_empty() {
        true => unusable(of_file, file, &error.to_string()),
        false => unusable(of_dir, dir, &error.to_string()),
    };
    TrustAnchors::new(&found).map(Some).map_err(wrong)
}

/// Whether a file is named as `openssl rehash` does: `1a2b3c4d.0`.
fn is_hashed(path: &Path) -> bool {
    let Some((hash, number)) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'))
    else {
        return false;
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}
