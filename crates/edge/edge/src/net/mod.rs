//! Sockets, buffers and timers as the data path uses them.

pub mod buffer;
pub mod connect;
pub mod splice;
pub mod stream;
pub mod timer;

pub use buffer::{Buffer, BufferPool};
pub use stream::Stream;
pub use timer::Deadline;
