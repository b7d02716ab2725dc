//! The role of a store in its folder: the file `replication`.
//!
//! ```text
//! tidegate replication 1
//! master 10.0.0.7 6379        who is followed; without the line nobody is
//! configured 10.0.0.5 6379    what the settings said at that time
//! boot 1b4e28ba-...           when the machine was started that wrote this
//! since 12                    the epoch since which that is the master, as the cluster's agent has said
//! node 6f0c...                which node of the cluster that is
//! bound                       all that is here was that master's
//! followed                    the log has, or had, what another server wrote
//! ```
//!
//! Commands change the role while the settings stay as they are, so what a command has said last counts, until the settings say something
//! else than they did then: whoever changes them means it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use commands::replication::Bond;

use crate::{messages, replace::replace};

const HEAD: &str = "tidegate replication 1";

/// A host and its port.
type Address = (String, u16);

/// What a start finds.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun {
    /// Who is followed.
    pub master: Option<Address>,
    /// What an agent has said of it.
    pub bond: Option<Bond>,
    /// The machine has been started anew since: what the log had not durably may be gone from it.
    pub may_have_lost: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct File {
    master: Option<Address>,
    configured: Option<Address>,
    boot: String,
    bond: Option<Bond>,
    has_followed: bool,
}

fn path(root: &Path) -> PathBuf {
    root.join("replication")
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn address(text: &str) -> Option<Address> {
    let (host, port) = text.split_once(' ')?;
    Some((host.to_owned(), port.parse().ok()?))
}

impl File {
    fn read(root: &Path) -> Option<Self> {
        let text = fs::read_to_string(path(root)).ok()?;
        let mut file = Self::default();
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return None;
        }
        for line in lines {
            match line.split_once(' ') {
                Some(("master", text)) => file.master = address(text),
                Some(("configured", text)) => file.configured = address(text),
                Some(("boot", text)) => file.boot = text.to_owned(),
                Some(("since", text)) => {
                    file.bond = text.parse().ok().map(|since| Bond { since, ..Bond::default() });
                }
                Some(("node", text)) => {
                    if let Some(bond) = &mut file.bond {
                        bond.node = Some(text.to_owned());
                    }
                }
                None if line == "bound" => {
                    if let Some(bond) = &mut file.bond {
                        bond.is_bound = true;
                    }
                }
                _ => file.has_followed |= line == "followed",
            }
        }
        Some(file)
    }

    fn write(&self, root: &Path) {
        let line = |name: &str, address: &Option<Address>| {
            address.as_ref().map(|(host, port)| format!("{name} {host} {port}\n")).unwrap_or_default()
        };
        let (master, configured) = (line("master", &self.master), line("configured", &self.configured));
        let followed = if self.has_followed { "followed\n" } else { "" };
        let bond = self.bond.as_ref().filter(|_| self.master.is_some());
        let since = bond.map(|bond| format!("since {}\n", bond.since)).unwrap_or_default();
        let node = bond.and_then(|bond| bond.node.as_ref()).map(|node| format!("node {node}\n")).unwrap_or_default();
        let bound = bond.filter(|bond| bond.is_bound).map_or("", |_| "bound\n");
        let text = format!("{HEAD}\n{master}{configured}boot {}\n{since}{node}{bound}{followed}", self.boot);
        if let Err(error) = replace(&path(root), text.as_bytes()) {
            messages::warn(&format!("the role cannot be written into {}: {error}", path(root).display()));
        }
    }
}

/// Whether another server has been followed at any time.
pub fn has_followed(root: &Path) -> bool {
    File::read(root).is_some_and(|file| file.has_followed)
}

/// Which role a store begins with, where its settings name this master; and notes it.
pub fn begin(root: &Path, configured: Option<Address>) -> Begun {
    let boot = boot();
    let former = File::read(root);
    let may_have_lost = former.as_ref().is_some_and(|file| file.boot != boot);
    let (master, bond) = match former {
        Some(file) if file.configured == configured => (file.master, file.bond),
        _ => (configured.clone(), None),
    };
    let bond = bond.filter(|_| master.is_some());
    let has_followed = master.is_some() || has_followed(root);
    File { master: master.clone(), configured, boot, bond: bond.clone(), has_followed }.write(root);
    Begun { master, bond, may_have_lost }
}

/// Notes that a master is followed from now on, or nobody, and what was said of it.
pub fn write(root: &Path, master: Option<(&str, u16)>, bond: Option<&Bond>) {
    let former = File::read(root).unwrap_or_default();
    let master = master.map(|(host, port)| (host.to_owned(), port));
    let has_followed = former.has_followed || master.is_some();
    File { master, configured: former.configured, boot: boot(), bond: bond.cloned(), has_followed }.write(root);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let at = |host: &str| Some((host.to_owned(), 6379));
        assert_eq!(begin(root, None), Begun { master: None, bond: None, may_have_lost: false });
        assert_eq!(begin(root, at("a")).master, at("a"), "settings that are changed");
        write(root, Some(("b", 6379)), None);
        assert_eq!(begin(root, at("a")).master, at("b"), "a command, and the settings as they were");
        assert_eq!(begin(root, at("a")).master, at("b"));
        write(root, None, None);
        assert_eq!(begin(root, at("a")).master, None, "it was promoted");
        assert_eq!(begin(root, at("c")).master, at("c"), "settings that are changed");
        assert_eq!(begin(root, None).master, None);
    }

    #[test]
    fn what_an_agent_has_said_of_the_master_is_known_after_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for is_bound in [false, true] {
            let bond = Bond { since: 12, node: Some("6f0c".to_owned()), is_bound, refusal: None };
            write(root, Some(("b", 6379)), Some(&bond));
            assert_eq!(begin(root, None).bond, Some(bond));
        }
        let text = fs::read_to_string(path(root)).unwrap();
        assert!(text.ends_with("\nsince 12\nnode 6f0c\nbound\nfollowed\n"), "{text}");
        write(root, None, None);
        assert_eq!(begin(root, None).bond, None);
    }

    #[test]
    fn a_machine_that_was_started_anew_may_have_lost_something() {
        let dir = tempfile::tempdir().unwrap();
        begin(dir.path(), None);
        assert!(!begin(dir.path(), None).may_have_lost);
        let text = fs::read_to_string(path(dir.path())).unwrap().replace(&boot(), "another");
        fs::write(path(dir.path()), text).unwrap();
        assert!(begin(dir.path(), None).may_have_lost);
        assert!(!begin(dir.path(), None).may_have_lost);
    }
}
