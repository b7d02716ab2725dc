//! How the path of a request is spelled.
//!
//! Conditions see a path as it is spelled. What they are about must not be there under another spelling: a script that is for whoever runs
//! scripts, or what a rule refuses.

use web::{
    path::is_usual_spelling,
    respond::{Asked, asked},
};

use crate::session::transaction::Transaction;

/// How the path of a request that a file or a folder answers is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As it usually is, or the method asks for nothing.
    Usual,
    /// Otherwise, by the client: it is told the usual one.
    OfClient,
    /// Otherwise, by a rule: the lines are asked again with the usual one.
    OfRule,
}

impl Spelling {
    pub(super) fn of(transaction: &Transaction) -> Self {
        let request = &transaction.request;
        if asked(request.method_kind()) != Asked::File || is_usual_spelling(request.path()) {
            return Self::Usual;
        }
        // The request line stands there as it came.
        let line = &transaction.line;
        let of_client = line.text.get(line.method_len + 1..).unwrap_or_default();
        let is_of_client = of_client
            .strip_prefix(&*transaction.asked.url_prefix)
            .and_then(|rest| rest.strip_prefix(request.target()))
            .is_some_and(|rest| rest.first() == Some(&b' '));
        if is_of_client { Self::OfClient } else { Self::OfRule }
    }
}
