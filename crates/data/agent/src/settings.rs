//! The seam to what knows stores' settings: which there are, what their values may be, and which of them a cluster decides itself.

use std::{collections::BTreeMap, fmt};

use cluster::{
    Address, GroupId, Server,
    settings::{StoreSettings, Which},
};

/// Why a setting is not kept, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingProblem(pub String);

/// A value as its store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptValue {
    /// The setting, by its own name.
    pub name: String,
    /// The value as `CONFIG GET` gives it.
    pub text: String,
    /// The store takes it when it starts, and not while it runs.
    pub is_at_start: bool,
    /// No two stores may have the same.
    pub is_of_one_store: bool,
    /// Why it has no effect, if it has none.
    pub note: Option<String>,
}

/// What is known of stores' settings.
pub trait SettingsTable: fmt::Debug + Send + Sync {
    /// Reads what is to be kept of a setting.
    ///
    /// # Errors
    ///
    /// There is no such setting, the cluster decides it, or the value is none of it: what would be right.
    fn read(&self, name: &str, value: &str) -> Result<KeptValue, SettingProblem>;

    /// What a store has that was told nothing.
    fn default(&self, name: &str) -> Option<String>;
}

/// That of a program without stores: there are no settings.
#[derive(Clone, Copy, Debug)]
pub struct NoSettings;

impl SettingsTable for NoSettings {
    fn read(&self, name: &str, _: &str) -> Result<KeptValue, SettingProblem> {
        Err(SettingProblem(format!("there is no setting '{name}'")))
    }

    fn default(&self, _: &str) -> Option<String> {
        None
    }
}

/// The setting of a store that has the mark of what it was told.
pub const TOLD: &str = "cluster-settings-told";

/// The words of a store's command line that say what the cluster keeps for it.
#[must_use]
pub fn words(settings: &StoreSettings, which: Which<'_>, table: &dyn SettingsTable) -> Vec<String> {
    if settings.due(which, "").is_empty() {
        return Vec::new();
    }
    let (mut words, mut is_whole) = (Vec::new(), true);
    for (name, effective) in settings.effective(which) {
        // What another version has kept and this one does not know would keep the store from starting.
        match table.read(name, effective.value) {
            Ok(value) => words.extend([format!("--{}", value.name), value.text]),
            Err(_) => is_whole = false,
        }
    }
    if is_whole {
        words.extend([format!("--{TOLD}"), settings.mark(which)]);
    }
    words
}

/// The same of several stores, by where they listen; those that are told nothing are left out.
#[must_use]
pub fn of_stores<'a>(
    settings: &StoreSettings,
    servers: impl Iterator<Item = (GroupId, &'a Server)>,
    table: &dyn SettingsTable,
) -> BTreeMap<Address, Vec<String>> {
    let stores = servers.filter(|(_, server)| server.kind.is_store());
    let words =
        stores.map(|(group, server)| (server.address.clone(), words(settings, Which { group, id: &server.id }, table)));
    words.filter(|(_, words)| !words.is_empty()).collect()
}

/// The commands by which a running store is told what it does not know yet: all in one, and one by one. What it takes at its start alone
/// is left out.
#[must_use]
pub fn orders(
    settings: &StoreSettings,
    (which, mark): (Which<'_>, &str),
    table: &dyn SettingsTable,
) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let due = settings.due(which, mark);
    if due.is_empty() {
        return None;
    }
    let pairs = due.into_iter().filter_map(|(name, value)| {
        let text = value.map(str::to_owned).or_else(|| table.default(name))?;
        let value = table.read(name, &text).ok().filter(|value| !value.is_at_start)?;
        Some([value.name, value.text])
    });
    let pairs: Vec<[String; 2]> = pairs.collect();
    let set = || ["CONFIG", "SET"].map(str::to_owned).into_iter();
    let mark = [TOLD.to_owned(), settings.mark(which)];
    let all = set().chain(pairs.iter().flatten().cloned()).chain(mark).collect();
    Some((all, pairs.into_iter().map(|pair| set().chain(pair).collect()).collect()))
}

#[cfg(test)]
pub(crate) mod tests {
    use cluster::{Cluster, settings::Scope};

    use super::*;

    /// Numbers, of which `threads` counts at starts alone.
    #[derive(Debug)]
    pub(crate) struct Numbers;

    impl SettingsTable for Numbers {
        fn read(&self, name: &str, value: &str) -> Result<KeptValue, SettingProblem> {
            let number: u64 = value.parse().map_err(|_| SettingProblem(format!("'{name}' is a number")))?;
            if !["size", "wait", "threads"].contains(&name) {
                return Err(SettingProblem(format!("there is no setting '{name}'")));
            }
            let (is_at_start, text) = (name == "threads", number.to_string());
            Ok(KeptValue { name: name.into(), text, is_at_start, is_of_one_store: false, note: None })
        }

        fn default(&self, _: &str) -> Option<String> {
            Some("1".into())
        }
    }

    const WHICH: Which<'_> = Which { group: 1, id: "n1" };

    #[test]
    fn stores_are_started_and_told_with_what_is_kept() {
        let none = Cluster::default();
        assert_eq!(words(&none.settings, WHICH, &Numbers), Vec::<String>::new());
        assert_eq!(orders(&none.settings, (WHICH, ""), &Numbers), None);
        let kept = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let known = [kept("size", "05"), kept("threads", "2"), kept("wait", "9")];
        let some = none.with_settings(&Scope::Cluster, &known);
        assert_eq!(
            words(&some.settings, WHICH, &Numbers).join(" "),
            "--size 5 --threads 2 --wait 9 --cluster-settings-told 1 1"
        );
        let (all, each) = orders(&some.settings, (WHICH, ""), &Numbers).unwrap();
        assert_eq!(all.join(" "), "CONFIG SET size 5 wait 9 cluster-settings-told 1 1");
        assert_eq!(
            each.iter().map(|one| one.join(" ")).collect::<Vec<_>>(),
            ["CONFIG SET size 5", "CONFIG SET wait 9"]
        );
        // What another version has kept is left out, and is not said to be told.
        let more = none.with_settings(&Scope::Cluster, &[known.as_slice(), &[kept("gone", "3")]].concat());
        assert_eq!(words(&more.settings, WHICH, &Numbers).join(" "), "--size 5 --threads 2 --wait 9");
        let less = some.with_settings(&Scope::Cluster, &[("wait".into(), None)]);
        let (all, _) = orders(&less.settings, (WHICH, "1 1"), &Numbers).unwrap();
        assert_eq!(all.join(" "), "CONFIG SET wait 1 cluster-settings-told 2 1");
        assert_eq!(orders(&less.settings, (WHICH, "2 1"), &Numbers), None);
    }
}
