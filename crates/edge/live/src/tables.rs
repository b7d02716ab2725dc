//! The tables of an instance.

use std::sync::Arc;

use haproxycfg::model::{Config, StickTable, TableIndex};
use stick::{Definition, Table, handover::Writer};

/// Tables in the order of [`Config::stick_tables`].
#[derive(Debug, Default)]
pub struct Tables(Vec<Arc<Table>>);

impl Tables {
    /// Those of a configuration. A table that was there before with the same definition stays, and its contents with it. One
    /// of another definition takes over of its contents what fits.
    #[must_use]
    pub fn new(config: &Config, previous: Option<&Tables>, seed: u64, now: u64) -> Self {
        let made = |definition: &Definition| {
            let table = Table::new(definition.clone(), seed);
            if let Some(before) = previous.and_then(|previous| previous.named(&definition.name)) {
                table.adopt_all(before, now);
            }
            Arc::new(table)
        };
        let same = |definition| previous?.0.iter().find(|table| table.definition() == definition).map(Arc::clone);
        let tables = config.stick_tables.iter().map(|table| &table.definition);
        Self(tables.map(|definition| same(definition).unwrap_or_else(|| made(definition))).collect())
    }

    /// What tables hold, for the process that serves after this one, and how many entries had no room in `len_max` bytes;
    /// none without anything to tell. Tables that are shared with peers are not among them: the local peer learns them.
    #[must_use]
    pub fn handover(&self, config: &Config, len_max: usize, now: u64) -> Option<(Vec<u8>, u64)> {
        let is_shared = |table: &StickTable| {
            let section = config.peers.iter().find(|section| table.peers.as_ref() == Some(&section.name));
            section.is_some_and(|section| !section.disabled)
        };
        let wanted = config.stick_tables.iter().zip(&self.0).filter(|(settings, _)| !is_shared(settings));
        let mut tables = wanted.map(|(_, table)| table).filter(|table| !table.is_empty()).peekable();
        tables.peek()?;
        let mut writer = Writer::new(len_max);
        for table in tables {
            writer.table(table, now);
        }
        Some(writer.finish())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table at a place.
    #[must_use]
    pub fn get(&self, index: TableIndex) -> Option<&Arc<Table>> {
        self.0.get(index.0 as usize)
    }

    /// The table of a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Table>> {
        self.0.iter().find(|table| &*table.definition().name == name)
    }

    /// All, in the order in which HAProxy lists them: the last one declared first.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().rev()
    }
}
