//! A client of an instance's management protocol: it finds the instance, says who it is, asks.

use std::{
    fs,
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    time::Duration,
};

use varnishcli::{Reply, ReplyReader, Status, auth};

use crate::source::{attach, folder, with_causes};

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagementError {
    /// Nobody is there, or does not let us in.
    #[error("{0}")]
    NotConnected(String),
    /// The connection failed.
    #[error("{0}")]
    Lost(String),
}

/// A stream of either kind.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A connection that has been let in.
pub struct Client {
    stream: Box<dyn Stream>,
    replies: ReplyReader,
}

impl Client {
    /// To an instance by its name or its working directory: address and secret are in what the instance publishes.
    ///
    /// # Errors
    /// There is none of that name, it takes no commands, or does not let us in.
    pub fn of(name: Option<&str>, timeout: Duration) -> Result<Self, ManagementError> {
        let cannot = ManagementError::NotConnected;
        let reader = attach(&folder(name), Some(timeout)).map_err(cannot)?;
        let text = |ident: &str| reader.text("Arg", ident).map_err(|error| cannot(with_causes(&error)));
        let addresses =
            text("-T")?.ok_or_else(|| cannot("No -T in shared memory: the instance takes no commands".to_owned()))?;
        let secret = text("-S")?;
        let mut failure = cannot("No -T in shared memory".to_owned());
        for address in addresses.lines().filter(|address| !address.is_empty()) {
            match Client::connect(address, secret.as_deref(), timeout) {
                Ok(client) => return Ok(client),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// To `host:port`, `host port` or a path; says who it is by the secret in a file.
    ///
    /// # Errors
    /// Nobody listens there, or does not let us in.
    pub fn connect(address: &str, secret: Option<&str>, timeout: Duration) -> Result<Self, ManagementError> {
        let cannot = ManagementError::NotConnected;
        let failed = |error: io::Error| cannot(format!("Connection failed ({address}): {error}"));
        let stream: Box<dyn Stream> = if address.starts_with('/') {
            let stream = UnixStream::connect(address).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            Box::new(stream)
        } else {
            let stream = connect(address, timeout).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            Box::new(stream)
        };
        let mut client = Self { stream, replies: ReplyReader::default() };
        let mut reply = client.reply()?;
        if reply.status == Status::Authentication as u16 {
            let path = secret.ok_or_else(|| cannot("Authentication required".to_owned()))?;
            let secret = fs::read(path).map_err(|error| cannot(format!("Cannot open \"{path}\": {error}")))?;
            let challenge =
                auth::challenge_in(&reply.text).ok_or_else(|| cannot("no challenge from the server".to_owned()))?;
            client.send(&format!("auth {}\n", auth::response(&challenge, &secret)))?;
            reply = client.reply()?;
        }
        if !reply.is_ok() {
            return Err(cannot(format!("Rejected {}\n{}", reply.status, String::from_utf8_lossy(&reply.text))));
        }
        client.send("ping\n")?;
        let pong = client.reply()?;
        match pong.is_ok() && pong.text.starts_with(b"PONG") {
            true => Ok(client),
            false => Err(cannot("No pong received from server".to_owned())),
        }
    }

    /// Sends a command and gives its reply.
    ///
    /// # Errors
    /// The connection failed, or no reply comes in time.
    pub fn ask(&mut self, command: &str) -> Result<Reply, ManagementError> {
        self.send(&format!("{command}\n"))?;
        self.reply()
    }

    fn send(&mut self, text: &str) -> Result<(), ManagementError> {
        self.stream.write_all(text.as_bytes()).map_err(|error| ManagementError::Lost(format!("cannot send: {error}")))
    }

    fn reply(&mut self) -> Result<Reply, ManagementError> {
        let broken = |message: String| ManagementError::Lost(format!("CLI communication error: {message}"));
        let mut buffer = vec![0; 16 * 1024];
        loop {
            if let Some(reply) = self.replies.next().map_err(|message| broken(message.to_owned()))? {
                return Ok(reply);
            }
            let count = self.stream.read(&mut buffer).map_err(|error| broken(error.to_string()))?;
            if count == 0 {
                return Err(broken("the server has closed the connection".to_owned()));
            }
            self.replies.push(buffer.get(..count).unwrap_or_default());
        }
    }
}

/// The word that ends a text, if the line begins one: `vcl.inline a << END`.
#[must_use]
pub fn text_end(line: &str) -> Option<String> {
    let words = varnishcli::words(line.trim_end().as_bytes(), None).ok()?;
    match words.as_slice() {
        [.., arrows, end] if arrows == b"<<" && !end.is_empty() => Some(String::from_utf8_lossy(end).into_owned()),
        _ => None,
    }
}

/// Connects to `host:port`, `[host]:port`, `:port` or `host port`.
fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let (host, port) = address.rsplit_once([':', ' ']).unwrap_or((address, "6082"));
    let host = host.trim_matches(['[', ']']);
    let host = if host.is_empty() { "localhost" } else { host };
    let port: u16 =
        port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("'{port}' is no port")))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "no address has this name");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
