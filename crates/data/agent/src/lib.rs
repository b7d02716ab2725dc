//! The role that looks after a cluster's servers on a machine: starts them, gives masters their leases, replaces those that die, moves
//! slots. What is decided is decided in `cluster`; here are sockets, processes, the clock.
//!
//! | module | what |
//! |---|---|
//! | [`claims`] | what an agent steers, no other one does |
//! | [`names`] | addresses that may be names |
//! | [`chance`] | what nobody else has, as text |
//! | [`options`] | where the cluster's folder is and how it is begun |
//! | [`clock`] | milliseconds that go on while the host sleeps |
//! | [`secrets`] | the stores' password, by files |
//! | [`board`] | what the threads of an agent share: its vote, what agents tell each other |
//! | [`voting`] | gives the host's vote to masters |
//! | [`peers`] | talks to other agents |
//! | [`watching`] | hears of changes from the coordinator |
//! | [`health`] | whether the coordinator answers, and is the one of before |
//! | [`heights`] | how far servers were, in the folder |
//! | [`home`] | opens the coordinator, of one machine or of many |
//! | [`identity`] | who a host is, whatever its address |
//! | [`connection`] | a connection to a server |
//! | [`link`] | a thread for each server: one round of commands after the other |
//! | [`redis_link`] | the same for each Redis |
//! | [`proxy_link`] | a thread for each proxy: what it has done of its orders |
//! | [`credentials`] | what Redis servers let the agent and the proxies in by |
//! | [`probe`] | what a running server is that is to join |
//! | [`processes`] | programs that run, as the folder says |
//! | [`backups`] | the seam to what makes backups of this host's stores |
//! | [`adopting`] | a store that stood alone becomes a cluster |
//! | [`beginning`] | a new cluster: ports, groups, the first change |
//! | [`figures`] | what a server says that it does and takes |
//! | [`copies`] | a copy of that in the folder |
//! | [`stranded`] | a folder whose coordinator is gone, and how the cluster is made anew |
//! | [`records`] | the cluster as the coordinator has it |
//! | [`conductor`] | the loop that all comes together in, how things are, and what can be asked |
//! | [`api`] | what can be asked, as a table, and its description |
//! | [`http`] | requests on the folder's socket and by TCP, who may ask, and who asks them |
//! | [`page`] | the files of the page |
//! | [`dry_run`] | what `up` would do |
//! | [`said`] | what `up` was told, beside a cluster that is there |
//! | [`settings`] | the seam to what knows stores' settings, and how stores are told of them |
//! | [`metrics`] | the state of the cluster for Prometheus |
//! | [`mover`] | the seam to what copies slots |

pub mod adopting;
pub mod api;
pub mod backups;
pub mod beginning;
pub mod board;
pub mod chance;
pub mod claims;
pub mod clock;
pub mod conductor;
pub mod connection;
pub mod copies;
pub mod credentials;
pub mod dry_run;
pub mod error;
pub mod figures;
pub mod health;
pub mod heights;
pub mod home;
pub mod http;
pub mod identity;
pub mod link;
pub mod metrics;
pub mod mover;
pub mod names;
pub mod options;
pub mod page;
pub mod peers;
pub mod probe;
pub mod processes;
pub mod proxy_link;
pub mod records;
pub mod redis_link;
pub mod said;
pub mod secrets;
pub mod settings;
pub mod stranded;
pub mod survey;
pub mod voting;
pub mod watching;

pub use conductor::run;
pub use error::AgentError;
pub use options::Options;
