//! What connections are accepted under.

use std::{sync::Arc, time::Duration};

use quinn_proto::{ServerConfig, TransportConfig, VarInt, crypto::HandshakeTokenKey, crypto::HmacKey};
use tls::Acceptor;

/// What a connection may be and take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long it may be silent; none is for ever.
    pub idle_timeout: Option<Duration>,
    /// Streams in both directions that a client may have open.
    pub streams_max: u32,
    /// Streams in one direction that a client may have open.
    pub one_way_streams_max: u32,
    /// Bytes of a stream that may wait to be read.
    pub stream_window: u32,
    /// Bytes of all streams together that may wait to be read.
    pub window: u32,
    /// Bytes that may wait until the client has acknowledged them.
    pub send_window: u64,
}

/// Keys of tokens. Processes with the same secret know each other's.
#[derive(Clone)]
pub struct Keys {
    tokens: Arc<dyn HandshakeTokenKey>,
    pub(crate) resets: Arc<dyn HmacKey>,
    /// Others have them, too.
    pub(crate) are_shared: bool,
}

impl Keys {
    /// Those of a secret that other processes have as well.
    #[must_use]
    pub fn shared(secret: &[u8]) -> Self {
        Self { are_shared: true, ..Self::of(secret) }
    }

    fn of(secret: &[u8]) -> Self {
        let (tokens, resets) = (tls::quic::token_key(secret), tls::quic::reset_key(secret));
        Self { tokens, resets, are_shared: false }
    }

    /// Those that nobody else knows.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut secret = [0; 32];
        let count = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())?;
        if count < secret.len() { Err(std::io::ErrorKind::Other.into()) } else { Ok(Self::of(&secret)) }
    }
}

/// What the connections of a listener are accepted under.
#[derive(Clone)]
pub struct Terms {
    transport: Arc<TransportConfig>,
    keys: Keys,
}

impl Terms {
    /// These settings and keys.
    #[must_use]
    pub fn new(settings: &Settings, keys: &Keys) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(settings.streams_max.into())
            .max_concurrent_uni_streams(settings.one_way_streams_max.into())
            .max_idle_timeout(settings.idle_timeout.and_then(|time| time.try_into().ok()))
            .stream_receive_window(settings.stream_window.into())
            .receive_window(settings.window.into())
            .send_window(settings.send_window)
            // HTTP/3 has no use for them so far.
            .datagram_receive_buffer_size(None);
        Self { transport: Arc::new(transport), keys: keys.clone() }
    }

    /// The same with a listener's certificates.
    pub(crate) fn config(&self, acceptor: Arc<Acceptor>) -> Arc<ServerConfig> {
        let mut config = ServerConfig::new(tls::quic::server(acceptor), Arc::clone(&self.keys.tokens));
        config.transport_config(Arc::clone(&self.transport));
        Arc::new(config)
    }
}

/// A code as it is written on the wire; one that is too large is the largest.
pub fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
