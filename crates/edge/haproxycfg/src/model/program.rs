//! `program` sections.

use std::sync::Arc;

use super::{Identity, Location};

/// A program that the master runs beside the workers.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Where its section begins.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// `command`: the program and its arguments.
    pub command: Vec<String>,
    /// `user`, and where it stands.
    pub user: Option<(Identity, Location)>,
    /// `group`, and where it stands.
    pub group: Option<(Identity, Location)>,
    /// `option start-on-reload`: whether a reload starts another one.
    pub start_on_reload: bool,
}
