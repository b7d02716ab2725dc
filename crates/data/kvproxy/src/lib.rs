//! Many servers of Redis' protocol as one: any plain client connects and sees one server.
//!
//! | module | what |
//! |---|---|
//! | [`nutcracker`] | the configuration of twemproxy, and its command line |
//! | [`hashes`], [`ring`] | which server a key belongs to |
//! | [`route`] | what becomes of each command |
//! | [`policy`] | where reads go, and what a server that fails may cost |
//! | [`frame`] | where a reply ends |
//! | [`proxy`] | clients, servers, and who waits for what: no socket |
//! | [`statistics`] | what twemproxy's statistics port says |
//! | [`serve`] | sockets |

pub mod frame;
pub mod hashes;
pub mod nutcracker;
pub mod policy;
pub mod proxy;
pub mod ring;
pub mod route;
pub mod serve;
pub mod statistics;
