//! A peer that says anything.

use std::sync::Arc;

use peers::{Section, SectionConfig, SharedTable, Transmit};
use stick::{DataType, Definition, KeyType, Kind, Layout, ServerKey, Table};

/// Longest message that the section takes.
const MESSAGE_LEN_MAX: usize = 2_048;
/// Entries of the table.
const SIZE: u32 = 64;

fn table(name: &str, key: KeyType) -> Arc<Table> {
    let mut layout = Layout::default();
    for data in DataType::ALL {
        let period = (data.kind() == Kind::Rate).then_some(10_000);
        layout.store(data, data.is_array().then_some(2), period).unwrap();
    }
    let key_len = key.fixed_len().unwrap_or(16);
    let table = Table::new(
        Definition {
            name: name.into(),
            key,
            key_len,
            size: SIZE,
            expire_ms: 60_000,
            nopurge: false,
            server_key: ServerKey::Name,
            layout,
        },
        7,
    );
    table.follow(|| {});
    table.find_or_make(&vec![1; key_len], 1, |entry| entry.touch());
    Arc::new(table)
}

/// The first byte says whether the rest begins with the greeting, and into pieces of which size it is cut.
pub fn peer(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let tables = [table("ips", KeyType::Ip), table("names", KeyType::String)];
    let mut section = Section::new(SectionConfig {
        local: "A".into(),
        peers: vec!["A".into(), "B".into()],
        tables: tables
            .iter()
            .map(|table| SharedTable { name: Arc::clone(&table.definition().name), table: Arc::clone(table) })
            .collect(),
        message_len_max: MESSAGE_LEN_MAX,
        updates_max: 200,
        process: 1,
        has_predecessor: false,
        seed: 1,
    });
    section.handle_timeout(1_000);
    let id = section.handle_accepted(1_000).unwrap();
    if first & 1 == 0 {
        section.handle_bytes(id, b"HAProxyS 2.1\nA\nB 1 1\n", 1_000);
    }
    let mut now = 1_000;
    for piece in data.chunks(usize::from(first >> 1).max(1)) {
        now += 10;
        section.handle_bytes(id, piece, now);
        section.handle_timeout(now);
        let mut rounds = 0;
        loop {
            let mut out = Vec::new();
            let outcome = section.poll_transmit(id, &mut out, now);
            assert!(out.len() < 64 * 1024, "it never sends much at once");
            rounds += 1;
            assert!(rounds < 100, "it comes to an end");
            if outcome != Transmit::More {
                break;
            }
        }
        while section.poll_action().is_some() {}
    }
    for table in &tables {
        assert!(table.len() <= SIZE);
    }
    let _ = section.view(now);
}
