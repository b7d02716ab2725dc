//! Client connections and their exchanges, on the worker threads that serve them.
//!
//! A [`Worker`] has all that belongs to one thread: pools, connections, records, its copy of the running instance.
//! [`session::serve`] is the life of a client's connection. What this room needs of those above is handed to the worker at
//! construction ([`Neighbours`]): the pages that this process answers itself, and the other workers.

mod parking;
mod pool;
mod registry;
mod remembered;
pub mod session;
mod stick;
mod tunnel;
mod worker;

pub use self::{
    parking::keep as keep_parking,
    registry::{Handle, Order},
    session::{
        borrow::{IdleConnectionRequest, OtherWorkers},
        descriptors::CloseIdleRequest,
        pages::{PageReply, PageRequest, Pages},
    },
    worker::{Neighbours, Worker},
};

// So that helpers of tests can be part of this crate's tests.
#[cfg(test)]
#[path = "../../live/src/test_instance.rs"]
pub mod test_instance;
