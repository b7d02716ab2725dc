//! What a table is, as the configuration says it.

use std::sync::Arc;

use crate::{data::Layout, key::KeyType};

/// Length of keys of `string` and `binary` when none is given: HAProxy's 32, of which a string loses one to its end.
pub const KEY_LEN_DEFAULT: usize = 32;

/// Longest key.
pub const KEY_LEN_MAX: usize = 16_384;

/// Most entries.
pub const SIZE_MAX: u32 = u32::MAX;

/// By what a table names servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKey {
    /// `srvkey name`.
    #[default]
    Name,
    /// `srvkey addr`.
    Address,
}

/// What a table is. Two tables of the same definition can take each other's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: Arc<str>,
    /// `type`.
    pub key: KeyType,
    /// The most bytes of a key, or exactly as many: 4 and 16 for addresses, 4 for integers.
    pub key_len: usize,
    /// `size`.
    pub size: u32,
    /// `expire` in milliseconds; 0 is never.
    pub expire_ms: u32,
    /// `nopurge`: a full table takes no more.
    pub nopurge: bool,
    /// `srvkey`.
    pub server_key: ServerKey,
    /// `store`.
    pub layout: Layout,
}
