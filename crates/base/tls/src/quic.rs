//! TLS as QUIC carries it (RFC 9001): handshakes without records, for the machines of quinn-proto.
//!
//! The certificate and its options follow from the client's hello as they do over TCP, by the same [`Acceptor`]. quinn-proto asks for
//! keys of the first packets before it has a hello, so a session begins without a configuration and gets one with the hello.

use std::{any::Any, io, sync::Arc};

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf, hmac,
};
use quinn_proto::{
    ConnectionId, Side, TransportError, TransportErrorCode,
    crypto::{
        ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys, PacketKey, ServerConfig,
        Session, UnsupportedVersion,
    },
    transport_parameters::TransportParameters,
};
use rustls::{
    crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
    quic::{KeyChange, Secrets as NextSecrets, ServerConnection, Suite, Version},
};

use crate::{
    acceptor::{Acceptor, Choice, Verifier},
    connection::{Handshaken, agreed, note_let_pass},
    hello::{Offered, whole_message},
    identity::Identity,
    secrets::Secrets,
};

/// The longest message with which a client may begin. Certificates of clients come later and are bounded by the library.
const HELLO_MAX: usize = 16_384;

/// The version of RFC 9000.
const VERSION_1: u32 = 1;

/// What quinn-proto accepts connections with.
#[must_use]
pub fn server(acceptor: Arc<Acceptor>) -> Arc<dyn ServerConfig> {
    Arc::new(Server(acceptor))
}

/// What the handshake of a connection has agreed on, once it is done.
#[must_use]
pub fn handshaken(session: &dyn Session) -> Option<Arc<Handshaken>> {
    session.handshake_data()?.downcast().ok().map(|shared| *shared)
}

/// The key of tokens that prove a client's address.
#[must_use]
pub fn token_key(secret: &[u8]) -> Arc<dyn HandshakeTokenKey> {
    Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, b"quic tokens").extract(secret))
}

/// The key of tokens by which clients know a stateless reset.
#[must_use]
pub fn reset_key(secret: &[u8]) -> Arc<dyn HmacKey> {
    Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &[b"quic resets", secret].concat()))
}

/// How the first packets are protected, whatever is agreed on later (RFC 9001 section 5.2).
fn initial_suite() -> Option<Suite> {
    TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()
}

fn initial_keys(id: &ConnectionId, side: Side) -> Option<Keys> {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    Some(keys(initial_suite()?.keys(id, side, Version::V1)))
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}

struct Server(Arc<Acceptor>);

impl ServerConfig for Server {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION_1 {
            return Err(UnsupportedVersion);
        }
        initial_keys(id, Side::Server).ok_or(UnsupportedVersion)
    }

    fn retry_tag(&self, _: u32, original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        // RFC 9001 section 5.8: everybody knows this key. The tag shows that a packet came through unharmed.
        const KEY: [u8; 16] =
            [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
        const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
        let length = u8::try_from(original.len()).unwrap_or(0);
        let covered = [&[length][..], original, packet].concat();
        let tag = UnboundKey::new(&AES_128_GCM, &KEY).ok().and_then(|key| {
            let nonce = Nonce::assume_unique_for_key(NONCE);
            LessSafeKey::new(key).seal_in_place_separate_tag(nonce, Aad::from(covered), &mut []).ok()
        });
        // A packet with a wrong tag is one that clients drop.
        tag.and_then(|tag| tag.as_ref().try_into().ok()).unwrap_or_default()
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let hello = Vec::new();
        Box::new(ServerSession { state: State::Hello { acceptor: Arc::clone(&self.0), parameters: encoded, hello } })
    }
}

enum State {
    /// The client's first message is not whole.
    Hello {
        acceptor: Arc<Acceptor>,
        parameters: Vec<u8>,
        hello: Vec<u8>,
    },
    Running(Box<Running>),
}

struct Running {
    connection: ServerConnection,
    next: Option<NextSecrets>,
    server_name: Option<String>,
    offered: Option<Box<Offered>>,
    identity: Arc<Identity>,
    verifier: Arc<Verifier>,
    secrets: Option<Box<Secrets>>,
    handshaken: Option<Arc<Handshaken>>,
}

struct ServerSession {
    state: State,
}

fn error(code: TransportErrorCode, reason: &str) -> TransportError {
    TransportError { code, frame: None, reason: reason.to_owned() }
}

fn alert(number: u8, reason: &str) -> TransportError {
    error(TransportErrorCode::crypto(number), reason)
}

impl Running {
    fn read(&mut self, message: &[u8]) -> Result<bool, TransportError> {
        let read = self.connection.read_hs(message);
        if let Some(secrets) = &mut self.secrets {
            secrets.gather();
        }
        read.map_err(|failure| match self.connection.alert() {
            Some(description) => alert(description.into(), &failure.to_string()),
            None => error(TransportErrorCode::PROTOCOL_VIOLATION, &failure.to_string()),
        })?;
        if self.handshaken.is_some() || self.connection.is_handshaking() {
            return Ok(false);
        }
        let failed = |_| error(TransportErrorCode::INTERNAL_ERROR, "the handshake is not complete");
        let mut handshaken = agreed(&self.connection).map_err(failed)?;
        handshaken.server_name = self.server_name.take();
        handshaken.offered = self.offered.take();
        handshaken.secrets = self.secrets.take();
        handshaken.identity = Some(Arc::clone(&self.identity));
        note_let_pass(&mut handshaken, &self.verifier, &self.connection);
        self.handshaken = Some(Arc::new(handshaken));
        Ok(true)
    }
}

impl ServerSession {
    fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            State::Hello { .. } => None,
        }
    }
}

impl Session for ServerSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        #[expect(clippy::expect_used, reason = "ServerConfig::initial_keys has made keys of the same suite before")]
        initial_keys(id, side).expect("a suite of QUIC")
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let handshaken = self.running()?.handshaken.as_ref()?;
        Some(Box::new(Arc::clone(handshaken)))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.running()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.running().is_none_or(|running| running.connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        const DECODE_ERROR: u8 = 50;
        const INTERNAL_ERROR: u8 = 80;
        const UNRECOGNIZED_NAME: u8 = 112;
        let (acceptor, parameters, message) = match &mut self.state {
            State::Running(running) => return running.read(bytes),
            State::Hello { acceptor, parameters, hello } => {
                hello.extend_from_slice(bytes);
                if hello.len() > HELLO_MAX {
                    return Err(alert(DECODE_ERROR, "the ClientHello is too long"));
                }
                (acceptor, parameters, hello)
            }
        };
        let keeps = acceptor.keeps();
        let Some(hello) = whole_message(message, keeps.hello) else { return Ok(false) };
        let hello = hello.ok_or_else(|| alert(DECODE_ERROR, "the first message is no ClientHello"))?;
        let Choice::Certificate(served, _) = acceptor.choose(&hello) else {
            return Err(alert(UNRECOGNIZED_NAME, "no certificate for this name"));
        };
        // NOTE: RFC 9001 section 8.1: a client that offers none of the protocols is refused, so never the settings without any.
        let connection = ServerConnection::new(served.config(), Version::V1, std::mem::take(parameters))
            .map_err(|error| alert(INTERNAL_ERROR, &error.to_string()))?;
        let message = std::mem::take(message);
        let mut running = Box::new(Running {
            connection,
            next: None,
            server_name: hello.server_name,
            offered: hello.offered,
            identity: Arc::clone(&served.identity),
            verifier: Arc::clone(&served.verifier),
            secrets: keeps.secrets.then(Box::default),
            handshaken: None,
        });
        let read = running.read(&message);
        self.state = State::Running(running);
        read
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.running().and_then(|running| running.connection.quic_transport_parameters()) else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Server, &mut io::Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, output: &mut Vec<u8>) -> Option<Keys> {
        let State::Running(running) = &mut self.state else { return None };
        let change = running.connection.write_hs(output);
        if let Some(secrets) = &mut running.secrets {
            secrets.gather();
        }
        Some(keys(match change? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                running.next = Some(next);
                keys
            }
        }))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let State::Running(running) = &mut self.state else { return None };
        let keys = running.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        // Clients get retries, and this end is none.
        false
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        // Nobody asks for any.
        Err(ExportKeyingMaterialError)
    }
}
