//! Running a program: the machine, the values it works on, and what it asks of its host.
//!
//! The machine has no state of its own. A host stands for one request or one fetch: it has the messages, knows the variables and does
//! what modules do. Everything that a run makes lives in a [`Workspace`], which is bounded and emptied between requests.

mod evaluate;
mod host;
mod machine;
pub mod pure;
mod text;
mod value;
mod workspace;

pub use host::{Failure, Host};
pub use machine::{Answer, run};
pub use text::{format_time, write_value};
pub use value::{Backend, Value};
pub use workspace::Workspace;
