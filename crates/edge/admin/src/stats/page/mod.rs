//! The statistics page (`stats enable` and its siblings): who may see it, in which form, and what it does.
//!
//! The page itself is ours: a live view that fetches `<uri>;json;live` once a second and draws it, and the classic table,
//! which needs no script. URIs, options, forms and results of actions are HAProxy's, so that its exporters and scripts
//! work.

mod assets;
mod html;
mod live;
mod options;
mod post;
mod respond;
mod table;
#[cfg(test)]
mod tests;

pub use options::{Form, PageOptions};
pub use post::Outcome;
pub use respond::{PageReply, PageRequest, PageSettings, is_own_request, matches, respond};
