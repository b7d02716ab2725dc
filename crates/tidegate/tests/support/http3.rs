//! A client of HTTP/3 by the libraries of others: quinn and h3.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes};
use http3_client::client::{RequestStream, SendRequest};
use http3_client_quinn::{BidiStream, OpenStreams};
use http3_client_types::{Request, Response};
use quinn::crypto::rustls::QuicClientConfig;

use super::{ClientSettings, PATIENCE};

/// A request that has been sent.
pub type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// What came of a request.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub head: Response<()>,
    pub body: Vec<u8>,
}

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
pub struct Http3 {
    pub endpoint: quinn::Endpoint,
    pub quic: quinn::Connection,
    pub requests: SendRequest<OpenStreams, Bytes>,
}

/// What goes wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Http3 {
    /// Connects, offering this protocol, from a socket of its own.
    pub async fn offering(settings: &ClientSettings, address: SocketAddr, protocol: &[u8]) -> Result<Self, Failure> {
        let (endpoint, quic) = quic(settings, address, protocol, None).await?;
        let connection = http3_client_quinn::Connection::new(quic.clone());
        let (mut driver, requests) = http3_client::client::new(connection).await?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Self { endpoint, quic, requests })
    }

    pub async fn connect(settings: &ClientSettings, address: SocketAddr) -> Self {
        Self::offering(settings, address, b"h3").await.unwrap()
    }

    /// Sends a request, and its body if it has one.
    pub async fn send(&mut self, method: &str, path: &str, body: Option<Bytes>) -> Result<Stream, Failure> {
        let url = format!("https://localhost{path}");
        let request = Request::builder().method(method).uri(url).body(())?;
        let mut stream = self.requests.send_request(request).await?;
        if let Some(body) = body {
            stream.send_data(body).await?;
        }
        stream.finish().await?;
        Ok(stream)
    }

    pub async fn get(&mut self, path: &str) -> Result<Page, Failure> {
        let stream = self.send("GET", path, None).await?;
        receive(stream).await
    }
}

async fn quic(
    settings: &ClientSettings,
    address: SocketAddr,
    protocol: &[u8],
    idle: Option<Duration>,
) -> Result<(quinn::Endpoint, quinn::Connection), Failure> {
    let mut settings = settings.clone();
    settings.protocols = vec![protocol.to_vec()];
    let crypto = QuicClientConfig::try_from(settings.config())?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_idle_timeout(Some(idle.unwrap_or(PATIENCE).try_into()?));
    transport.keep_alive_interval(idle.is_none().then_some(Duration::from_secs(1)));
    config.transport_config(Arc::new(transport));
    let endpoint = quinn::Endpoint::client((address.ip(), 0).into())?;
    let quic = tokio::time::timeout(PATIENCE, endpoint.connect_with(config, address, "localhost")?).await??;
    Ok((endpoint, quic))
}

/// A connection on which nothing is said by itself. It ends after it has been idle for so long; otherwise it keeps itself alive.
pub async fn connect_quic(settings: &ClientSettings, address: SocketAddr, idle: Option<Duration>) -> quinn::Connection {
    quic(settings, address, b"h3", idle).await.unwrap().1
}

/// The answer to a request.
pub async fn receive(mut stream: Stream) -> Result<Page, Failure> {
    let reading = async {
        let head = stream.recv_response().await?;
        let mut body = Vec::new();
        while let Some(piece) = stream.recv_data().await? {
            body.extend_from_slice(piece.chunk());
        }
        Ok::<_, Failure>(Page { status: head.status().as_u16(), head, body })
    };
    tokio::time::timeout(PATIENCE, reading).await?
}

/// Runs a client.
pub fn block_on<F: Future>(client: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(client)
}
