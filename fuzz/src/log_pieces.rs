//! Pieces of another shard's log, as a replica may be sent them.

use commands::groups;
use oplog::{Entry, Offset};
use shard::{effects::Effects, follow::check_piece};

/// A piece is refused, or has whole commands alone: so many as the same bytes without their last command, and one.
pub fn piece(data: &[u8]) {
    let table = groups::table();
    let mut effects = Effects::default();
    let entry = |commands| Entry { offset: Offset(7), time_ms: 1, commands };
    let Ok(count) = check_piece(&mut effects, (&table, 16), &entry(data)) else { return };
    let mut commands = Vec::new();
    let take = |effect: shard::effects::Effect<'_>| {
        commands.push(effect.offset.0 - 7);
        Ok::<_, String>(())
    };
    effects.each(&entry(data), take, |_, reason| reason).expect("it was checked");
    assert_eq!(commands.len(), count);
    assert!(commands.windows(2).all(|pair| pair[0] < pair[1]), "in order");
    // Any beginning of it that ends with a command is refused, if a transaction is open there, or has fewer.
    for (before, end) in commands.iter().enumerate() {
        let end = usize::try_from(*end).unwrap_or(usize::MAX);
        if let Ok(fewer) = check_piece(&mut effects, (&table, 16), &entry(data.get(..end).unwrap_or_default())) {
            assert_eq!(fewer, before);
        }
    }
}
