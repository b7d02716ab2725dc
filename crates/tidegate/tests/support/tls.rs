//! Certificates made while tests run, and a client that speaks TLS by a library of its own.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, RevokedCertParams, SerialNumber, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::{Folder, PATIENCE};

/// An authority and the folder with what it has made.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub folder: Folder,
}

/// What a certificate is like.
pub struct Wanted<'a> {
    pub names: &'a [&'a str],
    /// Year in which it ends.
    pub until: i32,
    pub serial: u64,
    pub algorithm: &'static SignatureAlgorithm,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { names: &["localhost"], until: 2090, serial: 7, algorithm: &PKCS_ECDSA_P256_SHA256 }
    }
}

fn params(wanted: &Wanted<'_>) -> CertificateParams {
    let names: Vec<String> = wanted.names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, wanted.names[0]);
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(wanted.until, 1, 1);
    params.serial_number = Some(SerialNumber::from(wanted.serial));
    params
}

impl Authority {
    /// One whose certificate stands in `ca.pem`.
    pub fn new() -> Self {
        let mut params = params(&Wanted { names: &["Authority"], ..Wanted::default() });
        params.subject_alt_names.clear();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        folder.file("ca.pem", issuer.pem());
        Self { issuer, folder }
    }

    /// Where a file of it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// Makes `<file>` with a certificate and its key.
    pub fn certify(&self, file: &str, wanted: &Wanted<'_>) {
        let key = KeyPair::generate_for(wanted.algorithm).unwrap();
        let certificate = params(wanted).signed_by(&key, &self.issuer).unwrap();
        self.folder.file(file, certificate.pem() + &key.serialize_pem());
    }

    /// The same for a certificate that has made itself.
    pub fn certify_itself(&self, file: &str, wanted: &Wanted<'_>) {
        let key = KeyPair::generate_for(wanted.algorithm).unwrap();
        let certificate = params(wanted).self_signed(&key).unwrap();
        self.folder.file(file, certificate.pem() + &key.serialize_pem());
    }

    /// Makes `<file>` with an intermediate authority, its certificate behind that of the name, if `with_chain`.
    pub fn certify_below(&self, file: &str, wanted: &Wanted<'_>, with_chain: bool) {
        let mut between = params(&Wanted { names: &["Between"], ..Wanted::default() });
        between.subject_alt_names.clear();
        between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let between = CertifiedIssuer::signed_by(between, KeyPair::generate().unwrap(), &self.issuer).unwrap();
        let key = KeyPair::generate_for(wanted.algorithm).unwrap();
        let certificate = params(wanted).signed_by(&key, &between).unwrap();
        let chain = if with_chain { between.pem() } else { String::new() };
        self.folder.file(file, certificate.pem() + &chain + &key.serialize_pem());
    }

    /// Makes `<file>` with what it has revoked.
    pub fn revoke(&self, file: &str, serials: &[u64]) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        self.folder.file(file, list.signed_by(&self.issuer).unwrap().pem().unwrap());
    }

    /// Settings of a client that trusts it.
    pub fn client(&self) -> ClientSettings {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        ClientSettings { roots, protocols: Vec::new(), certificate: None, versions: rustls::ALL_VERSIONS }
    }
}

impl ClientSettings {
    /// One that trusts the certificates of a PEM file.
    pub fn trusting(pem: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.unwrap()).unwrap();
        }
        Self { roots, protocols: Vec::new(), certificate: None, versions: rustls::ALL_VERSIONS }
    }
}

/// What a client is like.
#[derive(Clone)]
pub struct ClientSettings {
    roots: RootCertStore,
    pub protocols: Vec<Vec<u8>>,
    pub certificate: Option<PathBuf>,
    pub versions: &'static [&'static rustls::SupportedProtocolVersion],
}

impl ClientSettings {
    /// With the certificate of a file.
    pub fn showing(mut self, file: &Path) -> Self {
        self.certificate = Some(file.to_owned());
        self
    }

    /// A client whose connections resume each other's sessions.
    pub fn config(&self) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(self.versions).unwrap();
        let builder = builder.with_root_certificates(self.roots.clone());
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let chain = CertificateDer::pem_file_iter(file).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
                // As it is: rustls would look into it, and refuse one of version 1.
                let key =
                    rustls::crypto::aws_lc_rs::sign::any_supported_type(&PrivateKeyDer::from_pem_file(file).unwrap());
                let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key.unwrap()));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }
}

/// A connection of a client.
pub struct SecureWire(pub StreamOwned<ClientConnection, TcpStream>);

impl SecureWire {
    /// Connects and negotiates.
    pub fn connect(config: &Arc<ClientConfig>, address: SocketAddr, name: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut wire = Self(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream));
        while wire.0.conn.is_handshaking() {
            wire.0.conn.complete_io(&mut wire.0.sock)?;
        }
        Ok(wire)
    }

    /// Sends a request.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// The body of the answer to a GET, whose length must be known.
    pub fn get(&mut self, path: &str) -> io::Result<String> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        self.answer().map(|(_, body)| String::from_utf8_lossy(&body).into_owned())
    }

    /// A head and a body by its length.
    pub fn answer(&mut self) -> io::Result<(String, Vec<u8>)> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        Ok((head, body))
    }

    /// The certificate that the server has shown, as it names itself.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}
