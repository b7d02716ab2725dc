//! What connections to servers are opened with.

use std::{fmt, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, ProtocolVersion, SignatureScheme,
    client::{
        ClientSessionMemoryCache, Resumption, Tls12Resumption, UnbufferedClientConnection,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::SingleCertAndKey,
};

use crate::{
    acceptor::AcceptorError,
    anchors::TrustAnchors,
    ciphers::{CipherList, Curves, Suites, Versions, algorithms, crypto_provider},
    failure::{Distrust, Failure},
    identity::Identity,
    path::Purpose,
    possession::verify_handshake,
    revocation::RevocationLists,
    sessions::context,
    verify::{Verification, is_for_host},
    x509::Certificate,
};

/// How the certificate of a server is verified.
#[derive(Clone, Debug)]
pub enum ServerVerification {
    /// Not at all.
    None,
    /// By those who are trusted.
    Required {
        /// Who is trusted.
        anchors: TrustAnchors,
        /// What was revoked.
        revocation: RevocationLists,
        /// The host that it must be for, where no name is asked for.
        host: Option<String>,
    },
}

/// What is wanted of a server.
#[derive(Clone, Debug)]
pub struct ClientOptions {
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
    /// The server's certificate.
    pub verification: ServerVerification,
    /// What is shown to the server, if it asks.
    pub identity: Option<Arc<Identity>>,
    /// Whether sessions are resumed.
    pub resumes: bool,
    /// Whether that is by tickets in TLS 1.2.
    pub tickets: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            versions: Versions::default(),
            ciphers: CipherList::all(),
            suites: Suites::all(),
            curves: Curves::all(),
            protocols: Vec::new(),
            verification: ServerVerification::None,
            identity: None,
            resumes: true,
            tickets: true,
        }
    }
}

impl ClientOptions {
    /// The same with these certificates to trust where those of a file of that name are trusted; `None` where none are.
    #[must_use]
    pub fn trusting(&self, anchors: &TrustAnchors) -> Option<Self> {
        let mut options = self.clone();
        match &mut options.verification {
            ServerVerification::Required { anchors: own, .. }
                if own.name().is_some() && own.name() == anchors.name() =>
            {
                *own = anchors.clone();
                Some(options)
            }
            _ => None,
        }
    }

    /// The same with these lists of what was revoked where those of a file of that name count; `None` where none do.
    #[must_use]
    pub fn revoking(&self, lists: &RevocationLists) -> Option<Self> {
        let mut options = self.clone();
        match &mut options.verification {
            ServerVerification::Required { revocation, .. }
                if revocation.name().is_some() && revocation.name() == lists.name() =>
            {
                *revocation = lists.clone();
                Some(options)
            }
            _ => None,
        }
    }

    /// What tells connections that were opened with these options from those of others.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        let Self { versions, ciphers, suites, curves, protocols, verification, identity, resumes, tickets } = self;
        let shown = format!("{versions:?} {ciphers:?} {suites:?} {curves:?} {protocols:?} {resumes} {tickets}");
        let (anchors, revocation, host) = match verification {
            ServerVerification::None => (Vec::new(), Vec::new(), None),
            ServerVerification::Required { anchors, revocation, host } => {
                (anchors.digests(), revocation.digests(), Some(format!("required {host:?}")))
            }
        };
        let own = identity.as_ref().map(|identity| identity.certificate()).unwrap_or_default();
        context(&[shown.as_bytes(), &anchors, &revocation, host.unwrap_or_default().as_bytes(), own])
    }
}

/// What connections to a server are opened with. Sessions are resumed among those of the same one.
pub struct Connector {
    config: Arc<ClientConfig>,
    /// The server is not verified.
    is_anybody: bool,
}

/// Stands for no name: it is no server's address.
const NOBODY: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Connector")
    }
}

impl Connector {
    /// That of these options.
    ///
    /// # Errors
    /// When options contradict each other.
    pub fn new(options: &ClientOptions) -> Result<Self, AcceptorError> {
        /// Names whose sessions are kept.
        const SESSIONS_MAX: usize = 256;
        let wrong = |error: TlsError| AcceptorError::Options(error.to_string());
        let provider = Arc::new(crypto_provider(&options.ciphers, &options.suites, &options.curves));
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&options.versions.list()).map_err(wrong)?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { verification: options.verification.clone().into() }));
        let mut config = match &options.identity {
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.certified))))
            }
            None => builder.with_no_client_auth(),
        };
        config.enable_secret_extraction = true;
        config.alpn_protocols.clone_from(&options.protocols);
        config.resumption = if options.resumes {
            let by = if options.tickets { Tls12Resumption::SessionIdOrTickets } else { Tls12Resumption::SessionIdOnly };
            Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSIONS_MAX))).tls12_resumption(by)
        } else {
            Resumption::disabled()
        };
        let is_anybody = matches!(options.verification, ServerVerification::None);
        Ok(Self { config: Arc::new(config), is_anybody })
    }

    /// Begins a handshake with a server that is asked for this name, or for none.
    pub(crate) fn begin(
        &self,
        name: Option<&str>,
        protocols: Option<&[Vec<u8>]>,
    ) -> Result<UnbufferedClientConnection, Failure> {
        // NOTE: an address is no name that could be asked for: rustls sends none then, as is wanted here.
        let nobody = || ServerName::from(NOBODY);
        let impossible = |name| Failure::Protocol(format!("'{name}' is no name that a server could be asked for"));
        let name = match name.map(|name| (name, ServerName::try_from(name.to_owned()))) {
            None => nobody(),
            Some((name, Ok(ServerName::IpAddress(address)))) if std::net::IpAddr::from(address) == NOBODY => {
                return Err(impossible(name));
            }
            Some((_, Ok(name))) => name,
            // Whoever is not verified need not be asked for a name either.
            Some((_, Err(_))) if self.is_anybody => nobody(),
            Some((name, Err(_))) => return Err(impossible(name)),
        };
        let mut config = Arc::clone(&self.config);
        if let Some(protocols) = protocols {
            Arc::make_mut(&mut config).alpn_protocols = protocols.to_vec();
        }
        UnbufferedClientConnection::new(config, name).map_err(|error| Failure::of(&error))
    }
}

#[derive(Debug)]
enum Verified {
    Nothing,
    By { verification: Verification, host: Option<String> },
}

impl From<ServerVerification> for Verified {
    fn from(verification: ServerVerification) -> Self {
        match verification {
            ServerVerification::None => Self::Nothing,
            ServerVerification::Required { anchors, revocation, host } => {
                Self::By { verification: Verification { anchors, revocation }, host }
            }
        }
    }
}

#[derive(Debug)]
struct Verifier {
    verification: Verified,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Verified::By { verification, host } = &self.verification else {
            return Ok(ServerCertVerified::assertion());
        };
        verification.verify(end_entity, intermediates, Purpose::Server, now).map_err(Distrust::into_error)?;
        // As in HAProxy, the name is the one asked for, or that of `verifyhost`, or none.
        let asked = match server_name {
            ServerName::DnsName(name) => Some(name.as_ref().to_owned()),
            ServerName::IpAddress(address) => {
                Some(std::net::IpAddr::from(*address)).filter(|address| *address != NOBODY).map(|it| it.to_string())
            }
            _ => None,
        };
        if let Some(wanted) = asked.as_ref().or(host.as_ref()) {
            let read = Certificate::read(end_entity).ok_or_else(|| Distrust::Other.into_error())?;
            if !is_for_host(&read, wanted) {
                return Err(Distrust::WrongName.into_error());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match self.verification {
            // Whoever it is: the signature would say no more.
            Verified::Nothing => Ok(HandshakeSignatureValid::assertion()),
            Verified::By { .. } => verify_handshake(ProtocolVersion::TLSv1_2, message, cert, dss),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match self.verification {
            Verified::Nothing => Ok(HandshakeSignatureValid::assertion()),
            Verified::By { .. } => verify_handshake(ProtocolVersion::TLSv1_3, message, cert, dss),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
