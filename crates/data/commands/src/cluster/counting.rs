//! Whose acknowledgements a master of a cluster counts: those that the agent that leads has named, and no others. So it acknowledges
//! nothing that only a replica has which nobody would make the master.

use super::{Membership, MembershipError};

/// An order of the agent that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Since when that agent leads.
    pub term: u64,
    /// Which of its orders it is: later ones have higher numbers.
    pub serial: u64,
    /// The replicas' hosts and ports.
    pub members: Vec<(String, u16)>,
}

impl Counted {
    /// Whether a replica's acknowledgements count.
    #[must_use]
    pub fn names(&self, host: &str, port: u16) -> bool {
        self.members.iter().any(|(named, its_port)| named == host && *its_port == port)
    }
}

impl Membership {
    /// Takes over whose acknowledgements count.
    ///
    /// # Errors
    ///
    /// A later order is known, or a later leader.
    pub fn take_count(&mut self, told: Counted) -> Result<(), MembershipError> {
        if told.term < self.term {
            return Err(MembershipError::StaleTerm { known: self.term, told: told.term });
        }
        if let Some(known) = self.counted.as_ref().filter(|known| (told.term, told.serial) < (known.term, known.serial))
        {
            return Err(MembershipError::StaleOrder { known: known.serial, told: told.serial });
        }
        self.counted = Some(told);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(term: u64, serial: u64) -> Counted {
        Counted { term, serial, members: vec![("a".into(), 1)] }
    }

    #[test]
    fn older_orders_are_refused() {
        let mut node = Membership::default();
        node.take_count(counted(3, 10)).unwrap();
        node.take_count(counted(3, 10)).unwrap();
        assert!(node.take_count(counted(3, 9)).unwrap_err().to_string().starts_with("STALEORDER"));
        // Another leader counts from its own clock.
        node.take_count(counted(4, 5)).unwrap();
        node.take_term(5).unwrap();
        assert!(node.take_count(counted(4, 6)).unwrap_err().to_string().starts_with("STALETERM"));
        assert_eq!(node.counted, Some(counted(4, 5)));
        assert!(counted(1, 1).names("a", 1) && !counted(1, 1).names("a", 2) && !counted(1, 1).names("b", 1));
    }
}
