//! What connections have been agreed on with: the random bytes of both ends and, where a configuration asks for them, the secrets
//! that a captured connection is read with (the lines of NSS' key logs).

use std::{cell::RefCell, fmt};

use rustls::KeyLog;

use crate::records::{HEAD, kind};

/// Bytes of a random value.
const RANDOM: usize = 32;

/// The random bytes of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Randoms {
    /// The client's.
    pub client: Option<[u8; RANDOM]>,
    /// The server's.
    pub server: Option<[u8; RANDOM]>,
}

impl Randoms {
    /// Notes those of a hello at the beginning of this record, if it has one.
    pub fn note(&mut self, record: &[u8]) {
        // Before them stand the message's kind, its length and a version.
        let random = || record.get(HEAD + 6..).and_then(|rest| rest.first_chunk().copied());
        match record {
            [kind::HANDSHAKE, _, _, _, _, 1, ..] => self.client = random(),
            // Of a request to say hello once more the random bytes are fixed, and followed by others.
            [kind::HANDSHAKE, _, _, _, _, 2, ..] => self.server = random(),
            _ => {}
        }
    }
}

/// Secrets of a connection, by the labels of key logs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<(&'static str, Vec<u8>)>);

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets")
    }
}

/// The labels that there are.
const LABELS: &[&str] = &[
    "CLIENT_RANDOM",
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
];

impl Secrets {
    /// The one under a label.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == label).map(|(_, secret)| secret.as_slice())
    }

    /// Takes what the steps of a handshake on this thread have told.
    pub(crate) fn gather(&mut self) {
        self.0.append(&mut TOLD.take());
    }
}

thread_local! {
    /// What the step of a handshake that runs has told. rustls tells a whole configuration's secrets in one place; a step is that of
    /// one connection.
    static TOLD: RefCell<Vec<(&'static str, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Has rustls tell secrets.
#[derive(Debug)]
pub struct Told;

impl KeyLog for Told {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if let Some(label) = LABELS.iter().find(|known| **known == label) {
            TOLD.with_borrow_mut(|told| told.push((label, secret.to_vec())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randoms_are_those_of_hellos() {
        let record = |message: u8| [&[22, 3, 3, 0, 60, message, 0, 0, 56, 3, 3][..], &[message; 32], &[9; 24]].concat();
        let mut randoms = Randoms::default();
        randoms.note(&record(11));
        randoms.note(&record(1)[..20]);
        assert_eq!(randoms, Randoms::default());
        randoms.note(&record(1));
        randoms.note(&record(2));
        assert_eq!(randoms, Randoms { client: Some([1; 32]), server: Some([2; 32]) });
    }

    #[test]
    fn secrets_are_those_of_the_step_that_told_them() {
        let mut secrets = Secrets::default();
        Told.log("CLIENT_RANDOM", &[], &[5]);
        Told.log("SOMETHING_ELSE", &[], &[6]);
        secrets.gather();
        assert_eq!((secrets.get("CLIENT_RANDOM"), secrets.get("EXPORTER_SECRET")), (Some(&[5][..]), None));
        let mut others = Secrets::default();
        others.gather();
        assert_eq!(others, Secrets::default());
    }
}
