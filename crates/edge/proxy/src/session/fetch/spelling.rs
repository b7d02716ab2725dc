//! How the path of a request is spelled.
//!
//! Conditions see a path as it is spelled. What they are about must not be there under another spelling: a script that is for whoever runs
//! scripts, or what a rule refuses. So files and programs have one spelling, and a client that uses another one is told that.

use std::sync::Arc;

use web::{CleanPath, PathRules, path::is_usual_spelling};

use crate::session::transaction::Transaction;

/// How the path of a request is spelled that a file, a folder or a program answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As it usually is.
    Usual,
    /// Otherwise, by the client: the usual spelling of what it asked for is here. Empty if that names nothing.
    OfClient(Arc<[u8]>),
    /// Otherwise, by a rule: the lines are asked again with the usual one.
    OfRule,
}

impl Spelling {
    /// Notes how a client spells the path, before a rule makes another one of it.
    pub fn note(transaction: &mut Transaction) {
        let Transaction { asked, request, .. } = transaction;
        if !is_usual_spelling(request.path()) {
            let path = CleanPath::of_target(request.path(), PathRules { hidden: true });
            asked.usual_location = Some(path.map(|path| path.location(request.query())).unwrap_or_default().into());
        }
    }

    /// How the path is spelled now.
    pub fn of(transaction: &Transaction) -> Self {
        match &transaction.asked.usual_location {
            _ if is_usual_spelling(transaction.request.path()) => Self::Usual,
            Some(location) => Self::OfClient(Arc::clone(location)),
            None => Self::OfRule,
        }
    }
}
