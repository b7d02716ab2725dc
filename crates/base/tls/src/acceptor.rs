//! What connections of clients are accepted with: certificates by name, each with its options.

mod challenges;

use std::{collections::HashMap, fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error as TlsError, ProtocolVersion, ServerConfig, SignatureScheme,
    pki_types::{CertificateDer, UnixTime},
    server::{
        ClientHello as OfferedHello, NoServerSessionStorage, ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};
use thiserror::Error;

pub use self::challenges::{ACME_PROTOCOL, Challenges};
use crate::{
    anchors::TrustAnchors,
    ciphers::{CipherList, Curves, Suites, Versions, algorithms, crypto_provider},
    failure::Distrust,
    hello::ClientHello,
    identity::{Identity, KeyKind, Shown},
    path::{Fault, Purpose},
    possession::verify_handshake,
    revocation::RevocationLists,
    secrets::Told,
    sessions::{CachedSessions, NoTickets, Sessions, TicketKeys, Tickets, context},
    verify::Verification,
};

/// What clients are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    #[default]
    None,
    /// A certificate, if they have one.
    Optional,
    /// A certificate.
    Required,
}

/// How certificates of clients are verified.
#[derive(Clone, Debug, Default)]
pub struct ClientVerification {
    /// Whether.
    pub verify: Verify,
    /// Who is trusted.
    pub anchors: TrustAnchors,
    /// Whose names clients are told, so that they know which certificate to show.
    pub announced: TrustAnchors,
    /// What was revoked.
    pub revocation: RevocationLists,
    /// Errors of a client's certificate that are let pass, by OpenSSL's numbers.
    pub ignored: IgnoredErrors,
    /// Errors of its issuers that are let pass.
    pub ignored_of_issuers: IgnoredErrors,
}

/// Errors of certificates that are let pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IgnoredErrors {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of these numbers.
    Some(Vec<u8>),
}

impl IgnoredErrors {
    fn contains(&self, distrust: Distrust) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(codes) => codes.contains(&distrust.code()),
        }
    }
}

/// The options of a certificate, or of all of a listener.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Versions.
    pub versions: Versions,
    /// Ciphers up to TLS 1.2.
    pub ciphers: CipherList,
    /// Cipher suites of TLS 1.3.
    pub suites: Suites,
    /// Curves.
    pub curves: Curves,
    /// Protocols by preference.
    pub protocols: Vec<Vec<u8>>,
    /// Certificates of clients.
    pub clients: ClientVerification,
    /// Whether sessions are resumed.
    pub resumes: bool,
    /// Whether that is by tickets.
    pub tickets: bool,
    /// `tls-ticket-keys`.
    pub ticket_keys: Option<Arc<TicketKeys>>,
    /// The client's order of ciphers counts.
    pub prefers_client_order: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            versions: Versions::default(),
            ciphers: CipherList::all(),
            suites: Suites::all(),
            curves: Curves::all(),
            protocols: Vec::new(),
            clients: ClientVerification::default(),
            resumes: true,
            tickets: true,
            ticket_keys: None,
            prefers_client_order: false,
        }
    }
}

impl ServerOptions {
    /// The same with these certificates to trust where those of a file of that name are trusted; `None` where none are.
    #[must_use]
    pub fn trusting(&self, anchors: &TrustAnchors) -> Option<Self> {
        let is_same = |own: &TrustAnchors| own.name().is_some() && own.name() == anchors.name();
        let (of_clients, announced) = (is_same(&self.clients.anchors), is_same(&self.clients.announced));
        (of_clients || announced).then(|| {
            let mut options = self.clone();
            if of_clients {
                options.clients.anchors = anchors.clone();
            }
            if announced {
                options.clients.announced = anchors.clone();
            }
            options
        })
    }

    /// The same with these lists of what was revoked where those of a file of that name count; `None` where none do.
    #[must_use]
    pub fn revoking(&self, lists: &RevocationLists) -> Option<Self> {
        let own = &self.clients.revocation;
        (own.name().is_some() && own.name() == lists.name()).then(|| {
            let mut options = self.clone();
            options.clients.revocation = lists.clone();
            options
        })
    }

    /// Whether they go together.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn check(&self) -> Result<(), AcceptorError> {
        let provider = Arc::new(crypto_provider(&self.ciphers, &self.suites, &self.curves));
        let builder = ServerConfig::builder_with_provider(provider);
        builder.with_protocol_versions(&self.versions.list()).map(drop).map_err(wrong)
    }
}

/// A certificate of a listener.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What configurations call it: its file.
    pub name: Arc<str>,
    /// The certificate.
    pub identity: Arc<Identity>,
    /// Its options.
    pub options: Arc<ServerOptions>,
    /// The names that it is used for, instead of its own; one that begins with `!` is left out of a wildcard's.
    pub filters: Vec<String>,
    /// The list and the line of it that it comes of, if it comes of one.
    pub line: Option<(Arc<str>, u32)>,
}

/// Why a listener cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AcceptorError {
    /// Options contradict each other.
    #[error("{0}")]
    Options(String),
    /// There is no certificate.
    #[error("no certificate")]
    NoCertificate,
}

/// What is kept of connections for those who ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// So many bytes of what a client offers.
    pub hello: usize,
    /// The secrets that a captured connection is read with.
    pub secrets: bool,
}

/// What connections of a listener are accepted with.
pub struct Acceptor {
    served: Vec<Arc<Served>>,
    challenges: Arc<Challenges>,
    exact: HashMap<String, Vec<usize>>,
    /// By what follows the star.
    wildcards: HashMap<String, Vec<usize>>,
    excluded: HashMap<String, Vec<usize>>,
    /// Certificates of the first one's names: whoever asks for none that is known gets one of them.
    default: Vec<usize>,
    is_strict: bool,
    keeps: Keeps,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Acceptor").field("certificates", &self.served.len()).finish_non_exhaustive()
    }
}

/// A certificate that is ready for use.
pub struct Served {
    config: Arc<ServerConfig>,
    /// The same, for clients that offer none of its protocols.
    without_protocols: Arc<ServerConfig>,
    /// The certificate.
    pub identity: Arc<Identity>,
    /// How clients are verified.
    pub verifier: Arc<Verifier>,
}

impl Served {
    /// What clients are spoken with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// What a client's hello leads to.
pub enum Choice {
    /// This certificate, under these settings.
    Certificate(Arc<Served>, Arc<ServerConfig>),
    /// None: the name is not known.
    Refused,
}

impl Acceptor {
    /// That of a listener, whose first certificate is that of clients that ask for no name that is known; they get none if it is
    /// `strict-sni`.
    ///
    /// # Errors
    /// When options contradict each other, or when there is no certificate though not every client is refused.
    pub fn new(entries: &[Entry], is_strict: bool, sessions: &Arc<Sessions>) -> Result<Self, AcceptorError> {
        if entries.is_empty() && !is_strict {
            return Err(AcceptorError::NoCertificate);
        }
        let mut acceptor = Self { is_strict, ..Self::of_nobody() };
        let mut shared: Vec<(Arc<ServerOptions>, Shared)> = Vec::new();
        for entry in entries {
            let index = acceptor.served.len();
            let known = shared.iter().position(|(options, _)| Arc::ptr_eq(options, &entry.options));
            let place = known.unwrap_or_else(|| {
                shared.push((Arc::clone(&entry.options), Shared::new(&entry.options, sessions)));
                shared.len() - 1
            });
            let Some((options, common)) = shared.get(place) else { continue };
            acceptor.served.push(Arc::new(common.serve(options, &entry.identity)?));
            acceptor.name(index, entry);
        }
        Ok(acceptor)
    }

    /// One that refuses every client.
    #[must_use]
    pub fn of_nobody() -> Self {
        Self {
            served: Vec::new(),
            challenges: Arc::default(),
            exact: HashMap::new(),
            wildcards: HashMap::new(),
            excluded: HashMap::new(),
            default: Vec::new(),
            is_strict: true,
            keeps: Keeps::default(),
        }
    }

    /// The same, which keeps something of its connections.
    #[must_use]
    pub fn keeping(mut self, keeps: Keeps) -> Self {
        self.keeps = keeps;
        if keeps.secrets {
            for served in self.served.iter_mut().filter_map(Arc::get_mut) {
                for config in [&mut served.config, &mut served.without_protocols] {
                    Arc::make_mut(config).key_log = Arc::new(Told);
                }
            }
        }
        self
    }

    pub(crate) fn keeps(&self) -> Keeps {
        self.keeps
    }

    /// The same, which also answers challenges.
    #[must_use]
    pub fn with_challenges(mut self, challenges: &Arc<Challenges>) -> Self {
        self.challenges = Arc::clone(challenges);
        self
    }

    fn name(&mut self, index: usize, entry: &Entry) {
        let names = if entry.filters.is_empty() { entry.identity.names() } else { &entry.filters };
        for name in names {
            let name = name.to_ascii_lowercase();
            let (map, name) = match (name.strip_prefix('!'), name.strip_prefix('*')) {
                (Some(excluded), _) => (&mut self.excluded, excluded),
                (None, Some(rest)) => (&mut self.wildcards, rest),
                (None, None) => (&mut self.exact, name.as_str()),
            };
            map.entry(name.to_owned()).or_default().push(index);
        }
        let kind = entry.identity.kind();
        let is_of_default = match self.default.first().and_then(|first| self.served.get(*first)) {
            None => true,
            // Another kind of key for the very same names.
            Some(first) => {
                first.identity.names() == entry.identity.names()
                    && entry.filters.is_empty()
                    && self.default.iter().all(|other| self.kind(*other) != Some(kind))
            }
        };
        if is_of_default {
            self.default.push(index);
        }
    }

    fn kind(&self, index: usize) -> Option<KeyKind> {
        self.served.get(index).map(|served| served.identity.kind())
    }

    /// The certificate for a client.
    pub(crate) fn choose(&self, hello: &ClientHello) -> Choice {
        if let Some(served) = self.challenges.answer(hello) {
            let config = Arc::clone(&served.config);
            return Choice::Certificate(served, config);
        }
        let named = hello.server_name.as_deref().and_then(|name| self.fitting(&self.named(name), hello));
        let chosen = named.or_else(|| if self.is_strict { None } else { self.fitting(&self.default, hello) });
        let Some(served) = chosen.and_then(|index| self.served.get(index)) else { return Choice::Refused };
        let speaks = served.config.alpn_protocols.iter().any(|ours| hello.protocols.contains(ours));
        let config = if speaks { &served.config } else { &served.without_protocols };
        Choice::Certificate(Arc::clone(served), Arc::clone(config))
    }

    /// The certificates for a name: those for just this one, then those with a star.
    fn named(&self, name: &str) -> Vec<usize> {
        let mut named = self.exact.get(name).cloned().unwrap_or_default();
        let stars = name.find('.').and_then(|dot| self.wildcards.get(name.get(dot..)?));
        let excluded = self.excluded.get(name).map(Vec::as_slice).unwrap_or_default();
        named.extend(stars.into_iter().flatten().filter(|index| !excluded.contains(index)));
        named
    }

    /// The best of these that the client takes: one of elliptic curves, or of RSA, or else the first.
    fn fitting(&self, known: &[usize], hello: &ClientHello) -> Option<usize> {
        let of = |wanted: KeyKind| known.iter().copied().find(|index| self.kind(*index) == Some(wanted));
        let ecdsa = of(KeyKind::Ecdsa).filter(|_| hello.takes_ecdsa);
        let rsa = || of(KeyKind::Rsa).filter(|_| hello.takes_rsa);
        ecdsa.or_else(rsa).or_else(|| known.first().copied())
    }

    /// That of anybody, for a handshake that is going to fail.
    pub(crate) fn any(&self) -> Option<(Arc<Served>, Arc<ServerConfig>)> {
        let index = self.default.first().copied().unwrap_or(0);
        self.served.get(index).map(|served| (Arc::clone(served), Arc::clone(&served.config)))
    }
}

/// What certificates of the same options have in common.
struct Shared {
    provider: Arc<rustls::crypto::CryptoProvider>,
    verifier: Arc<Verifier>,
    tickets: Option<Arc<Tickets>>,
    cache: Arc<CachedSessions>,
}

impl Shared {
    fn new(options: &ServerOptions, sessions: &Arc<Sessions>) -> Self {
        let clients = &options.clients;
        let verifier = Arc::new(Verifier {
            verify: clients.verify,
            verification: Verification { anchors: clients.anchors.clone(), revocation: clients.revocation.clone() },
            hints: clients.announced.subjects(),
            ignored: clients.ignored.clone(),
            ignored_of_issuers: clients.ignored_of_issuers.clone(),
        });
        let context = options.clients.context();
        let tickets = options.tickets.then(|| {
            Arc::new(Tickets { sessions: Arc::clone(sessions), context, shared: options.ticket_keys.clone() })
        });
        Self {
            provider: Arc::new(crypto_provider(&options.ciphers, &options.suites, &options.curves)),
            verifier,
            tickets,
            cache: Arc::new(CachedSessions { sessions: Arc::clone(sessions), context }),
        }
    }

    fn serve(&self, options: &ServerOptions, identity: &Arc<Identity>) -> Result<Served, AcceptorError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&options.versions.list()).map_err(wrong)?;
        let builder = match options.clients.verify {
            Verify::None => builder.with_no_client_auth(),
            Verify::Optional | Verify::Required => {
                builder.with_client_cert_verifier(Arc::clone(&self.verifier) as Arc<dyn ClientCertVerifier>)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Single(identity.shown())));
        config.enable_secret_extraction = true;
        config.ignore_client_order = !options.prefers_client_order;
        config.session_storage = Arc::clone(&self.cache) as Arc<_>;
        if let Some(tickets) = &self.tickets {
            config.ticketer = Arc::clone(tickets) as Arc<_>;
            // What a ticket has, nobody need remember.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            if options.versions.tls12 {
                config.session_storage = Arc::clone(&self.cache) as Arc<_>;
            }
        }
        if !options.resumes {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.ticketer = Arc::new(NoTickets);
            config.send_tls13_tickets = 0;
        }
        let mut without_protocols = config.clone();
        config.alpn_protocols.clone_from(&options.protocols);
        without_protocols.alpn_protocols.clear();
        Ok(Served {
            config: Arc::new(config),
            without_protocols: Arc::new(without_protocols),
            identity: Arc::clone(identity),
            verifier: Arc::clone(&self.verifier),
        })
    }
}

/// A certificate that stands in no list, without resumption.
fn serve_alone(options: &ServerOptions, identity: &Arc<Identity>) -> Result<Served, AcceptorError> {
    Shared::new(options, &Sessions::new(0, std::time::Duration::ZERO)).serve(options, identity)
}

fn wrong(error: TlsError) -> AcceptorError {
    AcceptorError::Options(error.to_string())
}

impl ClientVerification {
    /// What a session was begun under: another one is resumed under none of it.
    fn context(&self) -> [u8; 32] {
        let verify = [match self.verify {
            Verify::None => 0,
            Verify::Optional => 1,
            Verify::Required => 2,
        }];
        let subjects = self.anchors.digests();
        let ignored = format!("{:?} {:?}", self.ignored, self.ignored_of_issuers);
        let revocation = self.revocation.digests();
        context(&[&verify, &subjects, ignored.as_bytes(), &revocation])
    }
}

/// Always the same certificate.
#[derive(Debug)]
struct Single(Shown);

impl ResolvesServerCert for Single {
    fn resolve(&self, _: OfferedHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.0.now()))
    }
}

/// Verifies certificates of clients.
#[derive(Debug)]
pub struct Verifier {
    verify: Verify,
    verification: Verification,
    hints: Vec<DistinguishedName>,
    ignored: IgnoredErrors,
    ignored_of_issuers: IgnoredErrors,
}

impl Verifier {
    /// What is wrong with a client's certificates, whether it is let pass or not.
    pub fn judge(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Vec<Fault> {
        let Some((certificate, issuers)) = chain.split_first() else { return Vec::new() };
        self.verification.faults(certificate, issuers, Purpose::Client, now)
    }

    fn lets_pass(&self, fault: &Fault) -> bool {
        // HAProxy lets these pass by no number, nor by `all`.
        if matches!(fault.distrust, Distrust::NameConstraints | Distrust::SignsNoCertificates) {
            return false;
        }
        let ignored = if fault.depth > 0 { &self.ignored_of_issuers } else { &self.ignored };
        ignored.contains(fault.distrust)
    }

    /// Whether anything is let pass.
    pub fn lets_errors_pass(&self) -> bool {
        self.ignored != IgnoredErrors::None || self.ignored_of_issuers != IgnoredErrors::None
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verify == Verify::Required
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        let chain: Vec<CertificateDer<'_>> =
            std::iter::once(end_entity).chain(intermediates).map(|der| CertificateDer::from(der.as_ref())).collect();
        match self.judge(&chain, now).iter().find(|fault| !self.lets_pass(fault)) {
            Some(fault) => Err(fault.distrust.into_error()),
            None => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, TlsError> {
        verify_handshake(ProtocolVersion::TLSv1_2, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, TlsError> {
        verify_handshake(ProtocolVersion::TLSv1_3, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
