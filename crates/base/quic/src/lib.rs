//! QUIC (RFC 9000) for servers, by quinn-proto, of which nobody else but `tls` names a type.
//!
//! ```text
//!  UDP socket of a worker ──▶ poll_receive ──▶ whose connection is it? (ids)
//!       ▲                          │ its own ──▶ Arrival::receive ──▶ the inbox of a Connection, whose task is woken
//!       │                          │                            └──▶ Arrival: accept, retry, refuse or ignore
//!       │                          └ another's ──▶ whoever runs workers hands it on
//!       └──────────── Connection::flush
//! ```
//!
//! All workers share a port; the kernel gives a datagram to one of their sockets by a hash of the addresses. A client that moves to
//! another address, or an address that another process serves now, breaks that: so the ids of connections name process and endpoint
//! ([`Origin`]), and a datagram that came to the wrong place is handed on.
//!
//! Everything here belongs to one thread. The time is an argument.

mod arrival;
mod connection;
mod endpoint;
mod ids;
mod mail;
mod office;
mod settings;
mod socket;

pub use self::{
    arrival::{Arrival, Rejected},
    connection::{Connection, Event, Lost, ReadOutcome},
    endpoint::Endpoint,
    ids::{ID_BYTES, Origin},
    mail::{Courier, Mailbox},
    office::{Letter, PostOffice},
    settings::{Keys, Settings, Terms},
    socket::{Datagram, UdpSocket},
};
