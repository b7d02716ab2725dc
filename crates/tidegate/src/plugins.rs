//! The plugins that this program has: a line for each. docs/plugins.md says how to write one.

use plugin::{Plugin, Plugins};

/// All of them, by the names that stand behind `use-service plugin.`.
pub const PLUGINS: Plugins = Plugins(&[Plugin { name: "whoami", answerer: &whoami::Whoami }]);
