//! Redis' replication on the wire, without sockets and clocks: what a replica and its master say to each other.
//!
//! ```text
//! replica                                        master
//! PING, AUTH, REPLCONF ...          ---------->
//! PSYNC <history> <offset + 1>      ---------->   answer: what the replica has is part of the log, or not
//!                                   <----------   +CONTINUE, or +FULLRESYNC and all keys as an RDB file
//! pieces: whole commands            <----------   the log, from there on
//! REPLCONF ACK <offset>             ---------->   acknowledgements
//! ```
//!
//! [`replica::Link`] is the replica's end, a state machine that is given bytes and the time, and gives bytes and [`replica::Event`]s.
//! Of the master's end, [`master::answer`] is the one decision, [`master::Upstream`] what comes back from a replica, and
//! [`master::Patience`] when it is given up. What a server does about all that and when, [`conductor::Conductor`] decides: the store carries
//! it out. Sockets, threads, files and what becomes of keys are the store's.
//!
//! Offsets count bytes of the stream, as the log's do: [`Offset`](oplog::Offset) `n` is what Redis calls offset `n`, the number of
//! bytes that a replica has. `PSYNC` alone names the next byte that is wanted, which is one more.
//!
//! The other end is not trusted: lengths have limits, and whatever it sends ends no more than its link.

pub mod conductor;
pub mod cut;
pub mod failover;
pub mod following;
pub mod master;
pub mod parting;
pub mod promises;
pub mod replica;
pub mod retention;
