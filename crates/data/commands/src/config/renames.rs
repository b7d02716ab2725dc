//! `rename-command`: names that clients and scripts have to use, and names that are gone. What is stored has Redis' own names.

use rustc_hash::FxHashMap;

use super::RenameError;

/// Finds the name of a command by that name in capitals; nothing if there is no such command.
pub type FindOwnName = fn(&[u8]) -> Option<&'static str>;

/// Commands that have other names, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renames {
    /// In capitals: the command's own name, or nothing if no command has that name any more.
    names: FxHashMap<Vec<u8>, Option<&'static str>>,
}

/// What a word is as the name of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    /// What it says.
    Same,
    /// A command of another name.
    To(&'static str),
    /// No command's.
    Gone,
}

impl Renames {
    /// Gives a command another name; none if that is empty. `known` has the names that commands have without this.
    ///
    /// # Errors
    ///
    /// There is no such command, or one that has the name already.
    pub fn add(&mut self, from: &[u8], to: &[u8], known: FindOwnName) -> Result<(), RenameError> {
        let (from, to) = (from.to_ascii_uppercase(), to.to_ascii_uppercase());
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let own = self.own(&from, known).ok_or_else(|| RenameError::Unknown(text(&from)))?;
        if !to.is_empty() && self.own(&to, known).is_some() {
            return Err(RenameError::Taken(text(&to)));
        }
        self.names.insert(from, None);
        if !to.is_empty() {
            self.names.insert(to, Some(own));
        }
        Ok(())
    }

    /// The command's own name that has this one.
    fn own(&self, name: &[u8], known: FindOwnName) -> Option<&'static str> {
        self.names.get(name).copied().unwrap_or_else(|| known(name))
    }

    /// What a word of a client is.
    pub fn look_up(&self, name: &[u8]) -> Renamed {
        if self.names.is_empty() {
            return Renamed::Same;
        }
        match self.names.get(&name.to_ascii_uppercase()) {
            None => Renamed::Same,
            Some(Some(own)) => Renamed::To(own),
            Some(None) => Renamed::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &[u8]) -> Option<&'static str> {
        ["GET", "SET", "KEYS", "CONFIG", "FLUSHALL"].into_iter().find(|known| known.as_bytes() == name)
    }

    #[test]
    fn names_move_in_the_order_in_which_they_are_said() {
        let mut renames = Renames::default();
        assert_eq!(renames.look_up(b"get"), Renamed::Same);
        renames.add(b"flushall", b"", known).unwrap();
        renames.add(b"Config", b"secret-cfg", known).unwrap();
        renames.add(b"SECRET-CFG", b"other", known).unwrap();
        renames.add(b"keys", b"config", known).unwrap();
        for (name, expected) in [
            (&b"FlushAll"[..], Renamed::Gone),
            (b"secret-cfg", Renamed::Gone),
            (b"OTHER", Renamed::To("CONFIG")),
            (b"config", Renamed::To("KEYS")),
            (b"keys", Renamed::Gone),
            (b"get", Renamed::Same),
        ] {
            assert_eq!(renames.look_up(name), expected, "{name:?}");
        }
        assert!(renames.add(b"flushall", b"x", known).is_err_and(|reason| matches!(reason, RenameError::Unknown(_))));
        assert!(renames.add(b"get", b"set", known).is_err_and(|reason| matches!(reason, RenameError::Taken(_))));
    }
}
