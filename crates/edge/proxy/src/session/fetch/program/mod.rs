//! Programs that answer requests: what they are told, and how what they say becomes a response.

mod answer;
mod body;
pub mod cgi;
mod complaints;
pub mod fastcgi;
pub mod gateway;
pub mod plugin;
mod request;

pub use self::{
    answer::ProgramAnswer,
    body::RequestBody,
    complaints::Complaints,
    request::{ProgramRequest, describe},
};
