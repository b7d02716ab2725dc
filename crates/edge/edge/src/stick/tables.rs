//! The tables of an instance.

use std::sync::Arc;

use haproxycfg::model::{Config, TableIndex};
use stick::Table;

/// Tables in the order of [`Config::stick_tables`].
#[derive(Debug, Default)]
pub struct Tables(Vec<Arc<Table>>);

impl Tables {
    /// Those of a configuration. A table that was there before with the same definition stays, and its contents with it.
    #[must_use]
    pub fn new(config: &Config, previous: Option<&Tables>, seed: u64) -> Self {
        let same = |definition| previous?.0.iter().find(|table| table.definition() == definition).map(Arc::clone);
        let tables = config.stick_tables.iter().map(|table| {
            same(&table.definition).unwrap_or_else(|| Arc::new(Table::new(table.definition.clone(), seed)))
        });
        Self(tables.collect())
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
