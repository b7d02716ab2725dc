//! The persistence cookie: which server a client's cookie names, and what the client is given.
//!
//! Pure over header blocks. The value of a server may be followed by two dates (`srv|last|first`) when `maxidle` or
//! `maxlife` ask for them; in prefix mode it stands before a `~` and the application's own value follows. All of this is
//! HAProxy's form to the letter, so that clients keep their server when one takes the other's place.

mod date;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use self::{
    date::Dates,
    request::{Lookup, follow},
    response::{Given, ResponseSide, give},
};
