//! Many servers of Redis' protocol as one: any plain client connects and sees one server.

pub mod hashes;
pub mod nutcracker;
pub mod ring;
