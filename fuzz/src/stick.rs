//! What a process says that it leaves of its stick tables.

use std::sync::Arc;

use stick::{
    DataType, Definition, KeyType, Kind, Layout, ServerKey, Table,
    handover::{Reader, Writer},
};

const SIZE: u32 = 32;

fn table(name: &str, key: KeyType) -> Arc<Table> {
    let mut layout = Layout::default();
    for data in DataType::ALL {
        let period = (data.kind() == Kind::Rate).then_some(10_000);
        layout.store(data, data.is_array().then_some(2), period).unwrap();
    }
    let definition = Definition {
        name: name.into(),
        key,
        key_len: key.fixed_len().unwrap_or(16),
        size: SIZE,
        expire_ms: 60_000,
        nopurge: false,
        server_key: ServerKey::Name,
        layout,
    };
    Arc::new(Table::new(definition, 7))
}

/// Takes any bytes over; what was taken is handed on and taken over again as it is.
pub fn handover(data: &[u8]) {
    let names = ["ips", "names", "blobs"];
    let make = || [table(names[0], KeyType::Ip), table(names[1], KeyType::String), table(names[2], KeyType::Binary)];
    let read = |bytes: &[u8], tables: &[Arc<Table>]| {
        let find = |name: &str| tables.iter().find(|table| &*table.definition().name == name).cloned();
        let mut reader = Reader::new(bytes).ok()?;
        while reader.read(3, 1_000, find).ok()? {}
        Some(())
    };
    let write = |tables: &[Arc<Table>]| {
        let mut writer = Writer::new(1 << 20);
        tables.iter().for_each(|table| writer.table(table, 1_000));
        writer.finish().0
    };
    let tables = make();
    let _ = read(data, &tables);
    assert!(tables.iter().all(|table| table.len() <= SIZE), "it takes no more than there is room for");
    let first = write(&tables);
    let again = make();
    assert_eq!(read(&first, &again), Some(()), "what it writes it reads");
    let shown = |tables: &[Arc<Table>]| {
        let mut entries = Vec::new();
        for table in tables {
            table.entries(1_000, |key, remaining, mut values| {
                // The lowest bit of when a rate began is not kept, and what is local is left out.
                values.retain(|(data, ..)| !data.is_local() && data.kind() != Kind::Rate);
                entries.push((key.to_vec(), remaining, values));
            });
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries
    };
    assert_eq!(shown(&tables), shown(&again));
}
