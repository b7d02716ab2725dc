//! Definitions of tables, as peers tell each other.

use stick::{DataType, Definition, KeyType, Kind};

use crate::varint::{self, Reader};

/// The number of a type of keys.
const fn key_number(key: KeyType) -> u64 {
    match key {
        KeyType::Integer => 2,
        KeyType::Ip => 4,
        KeyType::Ipv6 => 5,
        KeyType::String => 6,
        KeyType::Binary => 7,
    }
}

/// The length of keys, of which that of a string counts its end.
fn key_len(definition: &Definition) -> u64 {
    definition.key_len as u64 + u64::from(definition.key == KeyType::String)
}

/// What a peer says of one of its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteTable {
    /// The number that it has there.
    pub id: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// The type of its keys.
    pub key: Option<KeyType>,
    /// Their length.
    pub key_len: u64,
    /// The types of data that its updates have, a bit each.
    pub data: u64,
    /// Elements of arrays, by type.
    elements: [u64; DataType::COUNT],
}

impl RemoteTable {
    /// Reads a definition. What is told of arrays and rates may be missing where it does not matter; then, and if it is
    /// wrong, the second is false, and no update of the table can be read.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<(Self, bool)> {
        let mut reader = Reader::new(payload);
        let id = reader.integer()?;
        let name_len = reader.integer()?;
        let name = reader.bytes(name_len).filter(|name| !name.is_empty())?.to_vec();
        let key = reader.integer()?;
        let key = KeyType::ALL.into_iter().find(|known| key_number(*known) == key);
        let mut table = Self { id, name, key, key_len: reader.integer()?, data: reader.integer()?, ..Self::default() };
        let is_readable = match reader.integer() {
            Some(_expire) => table.parameters(&mut reader).is_some(),
            // Versions before arrays say nothing of rates.
            None => !table.types().any(DataType::is_array),
        };
        Some((table, is_readable))
    }

    fn parameters(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        for data in DataType::ALL.into_iter().filter(|data| self.data >> (*data as u32) & 1 == 1) {
            let is_rate = data.kind() == Kind::Rate;
            if !data.is_array() && !is_rate {
                continue;
            }
            if reader.integer()? != data as u64 {
                return None;
            }
            if data.is_array() {
                *self.elements.get_mut(data as usize)? = reader.integer()?;
            }
            if is_rate {
                let _period = reader.integer()?;
            }
        }
        Some(())
    }

    /// The types of its data, in order.
    pub(crate) fn types(&self) -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().filter(|data| self.data >> (*data as u32) & 1 == 1)
    }

    /// How many values an update has of a type.
    pub(crate) fn elements(&self, data: DataType) -> u64 {
        if data.is_array() { self.elements.get(data as usize).copied().unwrap_or(0) } else { 1 }
    }

    /// Whether its keys are those of a table here.
    pub(crate) fn fits(&self, definition: &Definition) -> bool {
        self.key == Some(definition.key) && self.key_len == key_len(definition)
    }
}

/// What is said of a table here, by number and name.
pub(crate) fn encode(definition: &Definition, name: &str, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, id);
    varint::put(&mut out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
    varint::put(&mut out, key_number(definition.key));
    varint::put(&mut out, key_len(definition));
    let layout = &definition.layout;
    varint::put(&mut out, layout.types().fold(0, |bits, data| bits | 1 << (data as u32)));
    varint::put(&mut out, u64::from(definition.expire_ms));
    for data in layout.types() {
        let is_rate = data.kind() == Kind::Rate;
        if data.is_array() || is_rate {
            varint::put(&mut out, data as u64);
        }
        if data.is_array() {
            varint::put(&mut out, u64::from(layout.len(data)));
        }
        if is_rate {
            varint::put(&mut out, u64::from(layout.period_ms(data)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::definition;

    #[test]
    fn definitions_come_back() {
        for key in KeyType::ALL {
            let definition = definition(key, &DataType::ALL);
            let bytes = encode(&definition, "clients", 3);
            let (table, is_readable) = RemoteTable::decode(&bytes).unwrap();
            assert!(is_readable && table.fits(&definition));
            assert_eq!((table.id, &table.name[..], table.data), (3, &b"clients"[..], (1 << DataType::COUNT) - 1));
            assert_eq!(table.elements(DataType::Gpt), 3);
            assert_eq!(table.elements(DataType::Gpc0), 1);
            for len in 0..bytes.len() {
                assert!(RemoteTable::decode(&bytes[..len]).is_none_or(|(_, is_readable)| !is_readable), "{len}");
            }
        }
    }

    #[test]
    fn old_versions_say_less() {
        let definition = definition(KeyType::Ip, &[DataType::ConnRate]);
        let bytes = encode(&definition, "clients", 3);
        // Without expiry and period.
        let expire_at = 2 + 7 + 2 + 2;
        let (table, is_readable) = RemoteTable::decode(&bytes[..expire_at]).unwrap();
        assert!(is_readable);
        assert_eq!(table.types().collect::<Vec<_>>(), [DataType::ConnRate]);
    }
}
