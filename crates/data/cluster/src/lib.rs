//! Many stores as one: what a cluster is, what may be changed about it, and who decides when a server dies. No socket, no file, no
//! clock, no random number: times, names and what others say are handed in.
//!
//! | module | what |
//! |---|---|
//! | [`model`] | groups of servers, and the cluster they are |
//! | [`slots`] | the states of a slot, and how it gets from one to the other |
//! | [`change`] | what an operator may change, and why something is refused |
//! | [`plan`] | which slots move so that groups have the same share |
//! | [`undo`] | what takes a change back |
//! | [`nodes`] | the cluster as lines of `CLUSTER NODES` |
//! | [`fence`] | what proxies may send to a Redis, and who of them has heard |
//! | [`ballot`] | what agents say to each other about who may serve |
//! | [`voter`] | a host's vote for masters |
//! | [`hosts`] | machines that come, go and get other addresses |
//! | [`leading`] | who of the agents leads the others |
//! | [`history`] | the changes behind a record: whether one goes on from another one |
//! | [`record`] | a copy of the coordinator's record, and how the coordinator's own stands to it |
//! | [`rescue`] | what is made of what hosts know when the coordinator is gone |
//! | [`controller`] | what an agent decides: whether it leads, and what is done about all groups |
//! | [`keeper`] | who of a group serves: leases, replicas in sync, failover, handing over |
//! | [`heights`] | how far logs were, as hosts remember it |
//! | [`migration`] | a range of slots on its way to another group |
//! | [`moving`] | what is seen of such a range, and what is to be done |
//! | [`pauses`] | what tells pauses of commands from each other |
//! | [`pace`] | how fast slots move |
//! | [`settings`] | settings of stores that the cluster keeps |

pub mod ballot;
pub mod change;
pub mod controller;
pub mod fence;
pub mod heights;
pub mod history;
pub mod hosts;
pub mod keeper;
pub mod leading;
pub mod migration;
pub mod model;
pub mod moving;
pub mod nodes;
pub mod pace;
pub mod pauses;
pub mod plan;
pub mod policy;
pub mod record;
pub mod rescue;
pub mod settings;
pub mod slots;
pub mod undo;
pub mod voter;

pub use change::Refusal;
pub use model::{Address, Cluster, Epoch, Group, GroupId, Server, ServerKind};
pub use slots::{SLOTS, SlotMap, SlotRange, SlotState};
