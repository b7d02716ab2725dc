//! Telling systemd how a service is, by its notification protocol: lines in a datagram to the socket that `NOTIFY_SOCKET`
//! names. Without that variable nothing is sent.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// Sends states to the service manager.
///
/// Each method fails if the manager cannot be told. That is no reason to stop serving.
#[derive(Debug, Clone, Default)]
pub struct Notifier {
    address: Option<OsString>,
}

impl Notifier {
    /// As the environment says.
    pub fn from_environment() -> Self {
        Self { address: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) }
    }

    /// Whether somebody wants to be told.
    pub fn has_listener(&self) -> bool {
        self.address.is_some()
    }

    /// Serving.
    pub fn ready(&self, status: &str) -> io::Result<()> {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS={}\n", std::process::id(), one_line(status)))
    }

    /// What it does at the moment, for people.
    pub fn status(&self, status: &str) -> io::Result<()> {
        self.send(&format!("STATUS={}\n", one_line(status)))
    }

    /// A reload began. systemd wants to know when, by the clock that never jumps, to tell it from an earlier one.
    pub fn reloading(&self, now: Duration) -> io::Result<()> {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading\n", now.as_micros()))
    }

    /// Starting or ending takes longer: the manager is to wait for this long from now on before it gives up.
    pub fn extend_timeout(&self, by: Duration) -> io::Result<()> {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}\n", by.as_micros()))
    }

    /// Ending.
    pub fn stopping(&self, status: &str) -> io::Result<()> {
        self.send(&format!("STOPPING=1\nSTATUS={}\n", one_line(status)))
    }

    fn send(&self, text: &str) -> io::Result<()> {
        match &self.address {
            Some(address) => send_to(address.as_bytes(), text),
            None => Ok(()),
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn send_to(address: &[u8], text: &str) -> io::Result<()> {
    let address = match address.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        Some((b'/', _)) => SocketAddr::from_pathname(OsStr::from_bytes(address))?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "NOTIFY_SOCKET is not understood")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(bytes.get(..len).unwrap()).into_owned()
    }

    #[test]
    fn states_reach_a_socket_with_a_path_and_one_with_a_name() {
        let path = std::env::temp_dir().join(format!("tidegate-supervise-{}", std::process::id()));
        let name = format!("tidegate-supervise-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (address, socket) in [(path.clone().into_os_string(), by_path), (format!("@{name}").into(), by_name)] {
            let notifier = Notifier { address: Some(address) };
            assert!(notifier.has_listener());
            notifier.ready("serving\nREADY=0").unwrap();
            let id = std::process::id();
            assert_eq!(received(&socket), format!("READY=1\nMAINPID={id}\nSTATUS=serving READY=0\n"));
            notifier.extend_timeout(Duration::from_secs(3)).unwrap();
            assert_eq!(received(&socket), "EXTEND_TIMEOUT_USEC=3000000\n");
            notifier.stopping("ending").unwrap();
            assert_eq!(received(&socket), "STOPPING=1\nSTATUS=ending\n");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_address_that_is_none_is_an_error_and_none_at_all_is_not() {
        assert!(Notifier { address: Some("nonsense".into()) }.status("x").is_err());
        assert!(Notifier { address: Some("/nowhere/at/all".into()) }.status("x").is_err());
        assert!(Notifier::default().status("x").is_ok());
    }
}
