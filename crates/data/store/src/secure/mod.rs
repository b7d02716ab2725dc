//! TLS with clients, masters and other servers: what the settings `tls-*` make of `tls`.
//!
//! Files are read when the store starts and when a setting of TLS is set, so keys may be out of the store's reach in between. Names,
//! defaults and what goes together are Redis'; what it has and rustls does not, is told.

mod files;
mod outgoing;
mod stream;

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use commands::config::{Settings, TlsClients};
use tls::{
    Acceptor, CipherList, ClientOptions, ClientVerification, Connector, Entry, RevocationLists, ServerOptions,
    ServerVerification, Sessions, Suites, TrustAnchors, Verify, Versions,
};

use crate::messages;

pub use self::{
    files::TlsTrouble,
    outgoing::{Outgoing, Peer, Shared},
    stream::{Handshake, Secure},
};

/// Most sessions that are remembered.
const SESSIONS_MAX: u64 = 65_536;

/// What connections with TLS begin with.
#[derive(Debug)]
pub struct Security {
    /// Those of clients.
    pub acceptor: Arc<Acceptor>,
    /// Those to a master.
    pub connector: Arc<Connector>,
}

/// What is valid now, for all who begin connections.
#[derive(Debug, Clone, Default)]
pub struct CurrentSecurity(Rc<RefCell<Option<Arc<Security>>>>);

impl CurrentSecurity {
    /// That of the settings.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or settings do not go together.
    pub fn of(settings: &Settings) -> Result<Self, TlsTrouble> {
        Ok(Self(Rc::new(RefCell::new(Security::of(settings)?))))
    }

    /// Connections begin with this from now on; with nothing where there is no TLS any more.
    pub fn set(&self, security: Option<Arc<Security>>) {
        self.0.replace(security);
    }

    /// What they begin with, if there is TLS.
    pub fn get(&self) -> Option<Arc<Security>> {
        self.0.borrow().clone()
    }

    /// What a replica speaks with its master over TLS with, if it does.
    pub fn of_replication(&self, settings: &Settings) -> Option<Peer> {
        let security = self.get().filter(|_| settings.tls_replication.0)?;
        Some(Peer { connector: Arc::clone(&security.connector), name: None })
    }

    /// The same for `MIGRATE`.
    pub fn of_migration(&self, settings: &Settings) -> Option<Peer> {
        let security = self.get().filter(|_| settings.tls_cluster.0)?;
        Some(Peer { connector: Arc::clone(&security.connector), name: None })
    }
}

impl Security {
    /// That of the settings, if they want any.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or settings do not go together.
    pub fn of(settings: &Settings) -> Result<Option<Arc<Self>>, TlsTrouble> {
        let wanted = [
            ("tls-port", settings.tls_port.0 != 0),
            ("tls-replication", settings.tls_replication.0),
            ("tls-cluster", settings.tls_cluster.0),
        ];
        let Some((setting, _)) = wanted.into_iter().find(|(_, is_wanted)| *is_wanted) else { return Ok(None) };
        if settings.cluster_enabled.0 {
            return Err(TlsTrouble::Cluster { setting });
        }
        let identity = files::own_identity(settings)?;
        let needs_authorities =
            settings.tls_replication.0 || settings.tls_cluster.0 || settings.tls_auth_clients != TlsClients::No;
        let anchors = match files::authorities(settings)? {
            Some(anchors) => anchors,
            None if needs_authorities => return Err(TlsTrouble::NoAuthorities),
            None => TrustAnchors::default(),
        };
        let versions = versions(&settings.tls_protocols.0)?;
        let (ciphers, suites) = (ciphers(&settings.tls_ciphers.0)?, suites(&settings.tls_ciphersuites.0)?);
        let options = ServerOptions {
            versions,
            ciphers: ciphers.clone(),
            suites: suites.clone(),
            clients: ClientVerification {
                verify: match settings.tls_auth_clients {
                    TlsClients::No => Verify::None,
                    TlsClients::Optional => Verify::Optional,
                    TlsClients::Yes => Verify::Required,
                },
                anchors: anchors.clone(),
                announced: anchors.clone(),
                ..ClientVerification::default()
            },
            resumes: settings.tls_session_caching.0,
            prefers_client_order: !settings.tls_prefer_server_ciphers.0,
            ..ServerOptions::default()
        };
        let contradiction = |error: tls::AcceptorError| TlsTrouble::Contradiction { reason: error.to_string() };
        options.check().map_err(contradiction)?;
        let entry = Entry {
            name: settings.tls_cert_file.0.as_str().into(),
            identity: Arc::clone(&identity),
            options: Arc::new(options),
            filters: Vec::new(),
            line: None,
        };
        let acceptor = Acceptor::new(&[entry], false, &sessions(settings)).map_err(contradiction)?;
        let connector = Connector::new(&ClientOptions {
            versions,
            ciphers,
            suites,
            verification: ServerVerification::Required { anchors, revocation: RevocationLists::default(), host: None },
            identity: Some(files::identity_to_servers(settings)?.unwrap_or(identity)),
            ..ClientOptions::default()
        });
        let connector = Arc::new(connector.map_err(contradiction)?);
        Ok(Some(Arc::new(Self { acceptor: Arc::new(acceptor), connector })))
    }
}

/// How a command of the command line speaks TLS with a server, in redis-cli's words.
#[derive(Debug, Clone, Default)]
pub struct ToServer {
    /// The file of authorities (`--cacert`).
    pub authorities: Option<String>,
    /// The folder of authorities (`--cacertdir`). Without both it is the machine's own.
    pub authorities_folder: Option<String>,
    /// The certificate that is shown (`--cert`).
    pub certificate: Option<String>,
    /// Its key (`--key`).
    pub key: Option<String>,
    /// The name that the server is asked for, and that its certificate must have (`--sni`).
    pub name: Option<String>,
    /// Whoever it is (`--insecure`).
    pub is_anybody: bool,
}

impl ToServer {
    /// Where a machine keeps the authorities that it trusts.
    const OF_MACHINE: &str = "/etc/ssl/certs/ca-certificates.crt";

    /// What connections begin with.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn peer(&self) -> Result<Peer, TlsTrouble> {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        let (mut file, folder) = (text(&self.authorities), text(&self.authorities_folder));
        if file.is_empty() && folder.is_empty() {
            file = Self::OF_MACHINE.into();
        }
        let verification = match self.is_anybody {
            true => ServerVerification::None,
            false => ServerVerification::Required {
                anchors: files::trusted(("--cacert", &file), ("--cacertdir", &folder))?.unwrap_or_default(),
                revocation: RevocationLists::default(),
                host: None,
            },
        };
        let (certificate, key) = (text(&self.certificate), text(&self.key));
        let identity = match certificate.is_empty() && key.is_empty() {
            true => None,
            false => Some(files::shown(("--cert", &certificate), ("--key", &key))?),
        };
        let connector = Connector::new(&ClientOptions { verification, identity, ..ClientOptions::default() });
        let connector = connector.map_err(|error| TlsTrouble::Contradiction { reason: error.to_string() })?;
        Ok(Peer { connector: Arc::new(connector), name: self.name.clone() })
    }
}

fn sessions(settings: &Settings) -> Arc<Sessions> {
    let number = |value: i64| value.unsigned_abs();
    let wanted = match number(settings.tls_session_cache_size.0) {
        _ if !settings.tls_session_caching.0 => 1,
        0 => SESSIONS_MAX,
        wanted => wanted.min(SESSIONS_MAX),
    };
    let lifetime = Duration::from_secs(number(settings.tls_session_cache_timeout.0));
    Sessions::new(usize::try_from(wanted).unwrap_or(usize::MAX), lifetime)
}

/// The versions of `tls-protocols`.
fn versions(text: &str) -> Result<Versions, TlsTrouble> {
    if text.trim().is_empty() {
        return Ok(Versions::default());
    }
    let mut versions = Versions { tls12: false, tls13: false };
    let mut old = Vec::new();
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.tls12 = true,
            "tlsv1.3" => versions.tls13 = true,
            "tlsv1" | "tlsv1.1" => old.push(word),
            _ => return Err(TlsTrouble::Protocol { word: word.to_owned() }),
        }
    }
    let old = old.join(" and ");
    if !versions.tls12 && !versions.tls13 {
        return Err(TlsTrouble::OldProtocols { words: old });
    }
    if !old.is_empty() {
        messages::warn(&format!(
            "'tls-protocols': {old} is not there, as it is broken (RFC 8996): clients that know nothing later are refused. Leave \
             the word out"
        ));
    }
    Ok(versions)
}

/// Tells of names in a list that stand for nothing here.
fn tell_unknown(setting: &str, unknown: &tls::UnknownNames) {
    if !unknown.0.is_empty() {
        messages::warn(&format!("'{setting}': these are not there and left out: {}", unknown.0.join(", ")));
    }
}

fn ciphers(text: &str) -> Result<CipherList, TlsTrouble> {
    if text.is_empty() {
        return Ok(CipherList::all());
    }
    let (list, unknown) = CipherList::parse(text).map_err(|_| TlsTrouble::NoCipher {
        setting: "tls-ciphers",
        remedy: "write \"DEFAULT\", or one with ECDHE such as ECDHE-RSA-AES256-GCM-SHA384",
    })?;
    tell_unknown("tls-ciphers", &unknown);
    Ok(list)
}

fn suites(text: &str) -> Result<Suites, TlsTrouble> {
    if text.is_empty() {
        return Ok(Suites::all());
    }
    let (list, unknown) = Suites::parse(text).map_err(|_| TlsTrouble::NoCipher {
        setting: "tls-ciphersuites",
        remedy: "there are TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256 and TLS_AES_128_GCM_SHA256",
    })?;
    tell_unknown("tls-ciphersuites", &unknown);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use commands::config::{Flag, Integer, Text};

    use super::*;

    #[test]
    fn versions_are_those_that_are_there() {
        for (text, expected) in [
            ("", Some((true, true))),
            ("TLSv1.2", Some((true, false))),
            ("tlsv1.3 TLSv1.1", Some((false, true))),
            ("TLSv1.2 TLSv1.3", Some((true, true))),
            ("TLSv1 TLSv1.1", None),
            ("TLSv1.4", None),
        ] {
            let found = versions(text).ok().map(|versions| (versions.tls12, versions.tls13));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let told = |settings: &Settings| {
            Security::of(settings).map(|found| found.is_some()).map_err(|error| error.to_string())
        };
        let mut settings = Settings::default();
        assert_eq!(told(&settings), Ok(false));
        settings.tls_port = Integer(6390);
        assert!(told(&settings).unwrap_err().contains("'tls-cert-file' is not set"));
        settings.tls_cert_file = Text("/nowhere/a.crt".into());
        assert!(told(&settings).unwrap_err().contains("'tls-key-file' is not set"));
        settings.tls_key_file = Text("/nowhere/a.key".into());
        assert!(told(&settings).unwrap_err().contains("'tls-cert-file': cannot read /nowhere/a.crt"));
        settings.cluster_enabled = Flag(true);
        assert!(told(&settings).unwrap_err().starts_with("'tls-port': a node of a cluster has no TLS"));
    }
}
