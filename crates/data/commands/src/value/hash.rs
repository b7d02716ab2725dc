//! Hashes: fields with values.

use crate::{
    Bytes,
    hash_index::{HashIndex, Hashed},
};

/// A field with its value.
#[derive(Debug, Clone)]
pub struct Field {
    /// The field's name.
    pub name: Bytes,
    /// What it holds.
    pub value: Bytes,
}

impl Hashed for Field {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Small ones are a list in the order of insertion, as Redis' listpacks are; larger ones are hashed.
#[derive(Debug, Clone)]
pub enum Hash {
    /// Few and short fields.
    Small(Vec<Field>),
    /// Many, or long ones.
    Large(HashIndex<Field>),
}
