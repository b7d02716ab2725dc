//! Chooses servers, queues requests and decides health.
//!
//! A [`Farm`] is the state of one backend: its servers, the algorithm that chooses among them, their limits and
//! queues, and what checks and people say about them. It is pure: it opens no socket and reads no clock; time is an
//! argument, in milliseconds of any monotonic clock, and random numbers come from a seed. It is meant to sit behind a
//! mutex that several worker threads take for a moment.
//!
//! Where HAProxy 2.6's choice is deterministic, the farm's equals it: same servers, same requests, same sequence.
//!
//! It parts from HAProxy only where HAProxy breaks its own rules:
//! - a server that comes up takes requests from the backend's queue up to its `maxconn` and no further;
//! - whoever can serve the backend's queue after a change does so at once, be it another server than the one that
//!   changed, such as a backup; in HAProxy such requests may wait until their time is over;
//! - on a ring, turns without a key never go to backup servers while there are active ones, and a full first server
//!   does not hide the others;
//! - an `option redispatch` interval that HAProxy would divide by zero for never redispatches.
//!
//! - [`Farm::pick`] chooses for a request, or queues it; [`Farm::release`] gives the slot back; [`Farm::claim`] and
//!   [`Farm::cancel`] end the wait in a queue.
//! - [`Farm::check_begin`] and [`Farm::check_end`] bracket a health check, [`Farm::check_begin`] and [`Farm::agent_end`]
//!   a question to an agent; [`Farm::observe`] counts what traffic tells.
//! - [`Farm::poll_wake`] and [`Farm::poll_event`] give what is to be done outside, after each call.
//! - [`Hasher`] computes the keys of the hashing algorithms, without the lock.
//! - [`RetryPolicy`] says what to do after a failure.

pub mod agent;
pub mod config;
mod event;
mod farm;
pub mod hash;
pub mod health;
mod id;
mod lb;
pub mod message;
mod order;
mod pool;
pub mod probe;
mod retry;
mod rng;
mod server;

pub use config::{
    Algorithm, CheckConfig, FarmConfig, Forced, HashConfig, HashFunction, HashType, Observe, OnError, ProxyType,
    ServerConfig, UriOptions,
};
pub use event::{ConsoleLevel, Event, LogLevel, Message, ShutdownReason};
pub use farm::{
    AdminFlagError, AgentSnapshot, BackendStats, CheckView, Claim, Farm, Followed, Pick, QueuePosition, RemovalError,
    Request, ServerSnapshot, ServerStats, ServerStatus, WeightChange, WeightError,
};
pub use hash::Hasher;
pub use health::{AgentReport, CheckKind, CheckReport, CheckResult, CheckStatus, Observation};
pub use id::{ServerId, Ticket};
pub use retry::{FailedAttempt, Failure, Retry, RetryAfter, RetryOn, RetryPolicy, RetrySituation};
pub use rng::Rng;
pub use server::{AdminState, OperationalState};
