//! Telling systemd how the service is, by its notification protocol: lines in a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends states to the service manager.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    address: Option<OsString>,
}

impl Notifier {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        Self { address: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) }
    }

    /// Serving.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS={}\n", std::process::id(), one_line(status)));
    }

    /// A reload began. systemd wants to know when, to tell it from an earlier one.
    pub(crate) fn reloading(&self) {
        let now = super::now();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading\n", now.as_micros()));
    }

    /// Ending.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=ending\n");
    }

    fn send(&self, text: &str) {
        let Some(address) = &self.address else { return };
        // A service manager that does not listen is no reason to stop serving.
        if let Err(error) = send_to(address.as_bytes(), text) {
            crate::log::warning!("cannot notify the service manager: {error}");
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn send_to(address: &[u8], text: &str) -> io::Result<()> {
    let address = match address.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        Some((b'/', _)) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(address))?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "NOTIFY_SOCKET is not understood")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}
