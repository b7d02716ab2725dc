//! HyperLogLogs: how many different elements were added, in 12 KB and within 0.8%. They are strings in Redis' own form, to
//! the byte, so that what one server wrote another one reads.
//!
//! ```text
//! header     "HYLL" | encoding u8 (0 dense, 1 sparse) | 3 bytes 0 | count u64 LE; the highest bit: out of date
//! dense      16384 registers of 6 bits, the lowest bits first
//! sparse     runs of registers: 00nnnnnn zeros (n+1) | 01nnnnnn nnnnnnnn zeros (n+1) | 1vvvvvnn the value v+1 (n+1 times)
//! ```

mod count;
mod hash;
mod registers;
mod sparse;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use count::count;
use registers::Dense;
pub use sparse::Run;

/// How many registers there are.
pub const REGISTERS: usize = 1 << 14;
/// The bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
/// The greatest value of a register: the bits of a hash that are left, and one.
const VALUE_MAX: usize = 51;
const HEADER_LEN: usize = 16;
const DENSE_LEN: usize = HEADER_LEN + REGISTERS * 6 / 8;
const MAGIC: &[u8] = b"HYLL";

/// The registers' values.
pub type Registers = [u8; REGISTERS];

/// A sparse one whose runs make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

impl From<Corrupt> for crate::Failure {
    fn from(_: Corrupt) -> Self {
        Self::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// All registers.
    Dense,
    /// Runs of registers.
    Sparse,
}

/// A string in the form above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperLogLog<'a>(Cow<'a, [u8]>);

impl Default for HyperLogLog<'_> {
    /// An empty one.
    fn default() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.push(1);
        bytes.resize(HEADER_LEN, 0);
        Run::Zeros(REGISTERS).write(&mut bytes);
        Self(Cow::Owned(bytes))
    }
}

impl<'a> HyperLogLog<'a> {
    /// What a string holds, if it has the form.
    pub fn of(bytes: Cow<'a, [u8]>) -> Option<Self> {
        let is_one = bytes.starts_with(MAGIC)
            && bytes.len() >= HEADER_LEN
            && match bytes.get(4) {
                Some(0) => bytes.len() == DENSE_LEN,
                Some(1) => true,
                _ => false,
            };
        is_one.then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, taken out.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_owned()
    }

    /// Its form.
    pub fn encoding(&self) -> Encoding {
        if self.0.get(4) == Some(&0) { Encoding::Dense } else { Encoding::Sparse }
    }

    fn body(&self) -> &[u8] {
        self.0.get(HEADER_LEN..).unwrap_or_default()
    }

    /// The runs of a sparse one.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        sparse::runs(self.body())
    }

    /// The count that was kept, unless something was added since.
    pub fn kept_count(&self) -> Option<u64> {
        let count = u64::from_le_bytes(*self.0.get(8..HEADER_LEN)?.first_chunk()?);
        (count >> 63 == 0).then_some(count)
    }

    fn put_count(&mut self, count: u64) {
        if let Some(place) = self.0.to_mut().get_mut(8..HEADER_LEN) {
            place.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Keeps a count.
    pub fn keep_count(&mut self, count: u64) {
        self.put_count(count & (u64::MAX >> 1));
    }

    /// The count that was kept is out of date.
    pub fn invalidate(&mut self) {
        if let Some(last) = self.0.to_mut().get_mut(HEADER_LEN - 1) {
            *last |= 0x80;
        }
    }

    /// Calls with each register that is not zero.
    fn each(&self, mut each: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
        if self.encoding() == Encoding::Dense {
            (0..REGISTERS).for_each(|index| each(index, registers::value(self.body(), index)));
            return Ok(());
        }
        let mut at = 0;
        for run in self.runs() {
            let end = at + run.len();
            if let Run::Value { value, .. } = run {
                if end > REGISTERS {
                    return Err(Corrupt);
                }
                (at..end).for_each(|index| each(index, value));
            }
            at = end;
        }
        if at == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    /// Raises registers to those of this one.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupt> {
        self.each(|index, value| {
            if let Some(register) = registers.get_mut(index) {
                *register = value.max(*register);
            }
        })
    }

    /// Estimates the number of elements.
    pub fn count(&self) -> Result<u64, Corrupt> {
        let mut registers = [0; REGISTERS];
        self.merge_into(&mut registers)?;
        Ok(count(&registers))
    }

    /// Becomes dense.
    pub fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.encoding() == Encoding::Dense {
            return Ok(());
        }
        let mut bytes = self.0.get(..HEADER_LEN).unwrap_or_default().to_vec();
        bytes.resize(DENSE_LEN, 0);
        if let Some(encoding) = bytes.get_mut(4) {
            *encoding = 0;
        }
        let mut dense = Dense(bytes.get_mut(HEADER_LEN..).unwrap_or_default());
        self.each(|index, value| dense.set(index, value))?;
        self.0 = Cow::Owned(bytes);
        Ok(())
    }

    /// Adds an element; returns whether a register changed. A sparse one that outgrows `sparse_max` bytes becomes dense.
    pub fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
        let (index, value) = hash::register_of(element);
        self.raise(index, value, sparse_max)
    }

    /// Raises a register to a value; returns whether it was lower.
    pub fn raise(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        if self.encoding() == Encoding::Sparse {
            match sparse::raise(self.0.to_mut(), index, value, sparse_max)? {
                sparse::Raised::Yes => {
                    self.invalidate();
                    return Ok(true);
                }
                sparse::Raised::No => return Ok(false),
                sparse::Raised::NoRoom => self.make_dense()?,
            }
        }
        let mut dense = Dense(self.0.to_mut().get_mut(HEADER_LEN..).unwrap_or_default());
        let lower = dense.get(index) < value;
        if lower {
            dense.set(index, value);
        }
        Ok(lower)
    }
}
