//! What `up` was told of a new cluster, beside a cluster that is there already: what differs is no wish that is quietly left undone.

use std::collections::BTreeMap;

use cluster::{Cluster, Group, GroupId, settings::Scope};

use crate::{
    error::AgentError,
    options::Options,
    settings::{KeptValue, SettingProblem},
};

/// Reads the settings that were said (`--set`): by name, with the words that were used.
///
/// # Errors
///
/// One makes no sense, cannot be that of all stores, or is there twice.
pub fn settings(options: &Options) -> Result<BTreeMap<String, (KeptValue, String)>, SettingProblem> {
    let mut found = BTreeMap::new();
    for (name, value) in &options.set {
        let wrong = |problem: &str| SettingProblem(format!("--set {name}={value}: {problem}"));
        let kept = options.settings.read(name, value).map_err(|problem| wrong(&problem.to_string()))?;
        if kept.is_of_one_store {
            return Err(wrong(
                "no two stores can have the same: `tidegate cluster config set NAME VALUE --server ADDRESS` sets it later",
            ));
        }
        if found.insert(kept.name.clone(), (kept, value.clone())).is_some() {
            return Err(wrong("this setting is said twice"));
        }
    }
    Ok(found)
}

/// Puts the settings that were said into a new cluster.
///
/// # Errors
///
/// Those of [`settings`].
pub fn with_settings(options: &Options, mut cluster: Cluster) -> Result<Cluster, AgentError> {
    let said = settings(options).map_err(|problem| AgentError::Other(problem.to_string()))?;
    for (name, (_, value)) in said {
        cluster.settings.set(&Scope::Cluster, &name, Some(value), cluster.epoch);
    }
    Ok(cluster)
}

/// What was said and is not so, each with the command that changes it.
fn differences(options: &Options, cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    let groups: Vec<(&GroupId, &Group)> = cluster.groups.iter().filter(|(_, group)| group.kind().is_store()).collect();
    let shape = options.shape;
    if let Some(wanted) = shape.groups.filter(|wanted| *wanted as usize != groups.len()) {
        found.push(format!(
            "--groups {wanted}: it has {} (`tidegate cluster server add-group`, `server remove-group GROUP`)",
            groups.len()
        ));
    }
    for (id, group) in groups {
        let replicas = group.replicas().count();
        if let Some(wanted) = shape.replicas.filter(|wanted| *wanted as usize != replicas) {
            found.push(format!(
                "--replicas {wanted}: group {id} has {replicas} (`tidegate cluster server add {id}`, `server remove {id} HOST:PORT`)"
            ));
        }
        if let Some(wanted) = shape.ack.filter(|wanted| *wanted != group.ack) {
            found.push(format!(
                "--ack {wanted}: writes of group {id} wait for {} (`tidegate cluster server remove {id} HOST:PORT --ack N` lowers that with a \
                 replica; nothing raises it: a new cluster can, with `cluster backup` and `cluster restore`)",
                group.ack
            ));
        }
    }
    let host = options.host_name();
    let ports: Vec<u16> =
        cluster.proxies.iter().filter(|proxy| proxy.host == host).map(|proxy| proxy.address.port()).collect();
    if options.is_port_said && !ports.is_empty() && !ports.contains(&options.port) {
        let shown: Vec<String> = ports.iter().map(u16::to_string).collect();
        found.push(format!(
            "--port {}: clients connect to port {} here (`tidegate cluster proxy add {}:{}`, then `proxy remove` if the other one is to go)",
            options.port,
            shown.join(", "),
            options.host,
            options.port
        ));
    }
    for server in options.redis.iter().filter(|server| cluster.group_of(server).is_none()) {
        found.push(format!(
            "--redis {server}: it belongs to no group (`tidegate cluster server add-group --redis {server}`, or `server add GROUP {server} \
             --redis`)"
        ));
    }
    // What makes no sense was refused before.
    for (name, (wanted, value)) in settings(options).unwrap_or_default() {
        let kept = cluster.settings.value(&Scope::Cluster, &name);
        let same =
            kept.and_then(|kept| options.settings.read(&name, kept).ok()).is_some_and(|kept| kept.text == wanted.text);
        if !same {
            let kept = kept.unwrap_or("the default");
            found.push(format!(
                "--set {name}={value}: it keeps {kept} (`tidegate cluster config set {name} '{value}'`)"
            ));
        }
    }
    found
}

/// Compares what was said of a new cluster with one that is there.
///
/// # Errors
///
/// It differs: what, and which commands change it.
pub fn compare(options: &Options, cluster: &Cluster) -> Result<(), AgentError> {
    let found = differences(options, cluster);
    if cluster.epoch == 0 || found.is_empty() {
        return Ok(());
    }
    Err(AgentError::Other(format!(
        "{} has a cluster already, which is not as it was said. Leave these options out, and change it while it runs:\n  {}",
        options.folder.path().display(),
        found.join("\n  ")
    )))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use super::*;
    use crate::{
        beginning::{self, Host},
        options::{Folder, Shape},
        settings::tests::Numbers,
    };

    fn options() -> Options {
        let set = vec![("size".to_owned(), "05".to_owned())];
        let shape = Shape { groups: Some(2), replicas: Some(1), ack: Some(1) };
        Options { settings: Arc::new(Numbers), set, shape, ..Options::of(Folder::new(PathBuf::from("c"))) }
    }

    fn cluster() -> Cluster {
        let host = Host { name: "local".into(), address: "127.0.0.1".into(), port: 6379, is_own: false };
        beginning::begin(&options(), &[host]).unwrap()
    }

    #[test]
    fn what_was_said_and_is_so_is_no_difference() {
        assert!(compare(&options(), &cluster()).is_ok());
        assert!(compare(&options(), &Cluster::default()).is_ok(), "there is none yet");
        let nothing = Options { shape: Shape::default(), set: Vec::new(), ..options() };
        assert!(compare(&nothing, &cluster()).is_ok());
        // The same value in other words.
        assert!(compare(&Options { set: vec![("size".into(), "5".into())], ..options() }, &cluster()).is_ok());
    }

    #[test]
    fn what_differs_is_told_with_the_command_that_changes_it() {
        let shape = Shape { groups: Some(3), replicas: Some(2), ack: Some(0) };
        let set = vec![("size".to_owned(), "6".to_owned()), ("wait".to_owned(), "1".to_owned())];
        let redis = vec!["127.0.0.1:1".parse().unwrap()];
        let other = Options { shape, set, redis, port: 7000, is_port_said: true, ..options() };
        let error = compare(&other, &cluster()).unwrap_err().to_string();
        for expected in [
            "c has a cluster already",
            "--groups 3: it has 2 (`tidegate cluster server add-group`",
            "--replicas 2: group 2 has 1 (`tidegate cluster server add 2`",
            "--ack 0: writes of group 1 wait for 1",
            "--port 7000: clients connect to port 6379 here (`tidegate cluster proxy add 127.0.0.1:7000`",
            "--redis 127.0.0.1:1: it belongs to no group",
            "--set size=6: it keeps 05 (`tidegate cluster config set size '6'`)",
            "--set wait=1: it keeps the default",
        ] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        // What nobody has said is as it is.
        assert!(compare(&Options { port: 7000, ..options() }, &cluster()).is_ok());
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_before_anything_begins() {
        let refused = |set: &[(&str, &str)]| {
            let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            settings(&Options { set, ..options() }).unwrap_err().to_string()
        };
        assert_eq!(refused(&[("size", "x")]), "--set size=x: 'size' is a number");
        assert_eq!(refused(&[("size", "1"), ("size", "2")]), "--set size=2: this setting is said twice");
    }
}
