//! Mails about states of servers.

use std::{net::SocketAddr, time::Duration};

/// `email-alert` of a proxy, with its `mailers`.
#[derive(Clone, Debug)]
pub struct MailAlert {
    /// `from`.
    pub from: String,
    /// `to`.
    pub to: String,
    /// `myhostname`, or the name of the machine.
    pub hostname: Option<String>,
    /// `level`: what is less severe is not mailed.
    pub level: MailAlertLevel,
    /// Each of them gets every mail.
    pub mailers: Vec<Mailer>,
    /// `timeout mail`.
    pub timeout: Duration,
}

/// A level of syslog by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailAlertLevel(pub u8);

impl Default for MailAlertLevel {
    /// `alert`.
    fn default() -> Self {
        Self(1)
    }
}

/// A mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailer {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: MailerAddress,
}

/// Where a mail server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailerAddress {
    /// At an address.
    Inet(SocketAddr),
    /// At a host that is to be looked up.
    Host(String, u16),
}
