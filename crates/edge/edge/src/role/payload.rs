//! What the master ships to the worker: everything that the configuration was made of.
//!
//! The worker may have another root directory and another user, and the files may have changed since they were checked;
//! so it reads none of them again. The form is private to one version of the program: a length, that many bytes of JSON,
//! then the bundle.

use std::collections::BTreeMap;

use haproxycfg::{Parsed, source::Bundle};
use live::resolve::Recorded;
use serde::{Deserialize, Serialize};

/// A configuration as it was read.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// `-f` arguments.
    pub sources: Vec<String>,
    /// The environment that it was read in.
    pub environment: BTreeMap<String, String>,
    /// The machine's name.
    pub hostname: String,
    /// `-L`.
    pub localpeer: Option<String>,
    /// `-n`.
    pub maxconn: Option<u32>,
    /// `-N`.
    pub proxy_maxconn: Option<u32>,
    /// `-m`.
    pub memory_max_mb: u64,
    /// `-dr`.
    pub tolerates_unresolved: bool,
    /// Addresses of the names of hosts.
    pub addresses: Recorded,
    /// Every file and folder that was looked at.
    pub bundle: Bundle,
}

#[derive(Serialize, Deserialize)]
struct Head {
    sources: Vec<String>,
    environment: BTreeMap<String, String>,
    hostname: String,
    localpeer: Option<String>,
    maxconn: Option<u32>,
    proxy_maxconn: Option<u32>,
    memory_max_mb: u64,
    tolerates_unresolved: bool,
    addresses: Recorded,
}

impl Payload {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            sources: self.sources.clone(),
            environment: self.environment.clone(),
            hostname: self.hostname.clone(),
            localpeer: self.localpeer.clone(),
            maxconn: self.maxconn,
            proxy_maxconn: self.proxy_maxconn,
            memory_max_mb: self.memory_max_mb,
            tolerates_unresolved: self.tolerates_unresolved,
            addresses: self.addresses.clone(),
        };
        // Strings, numbers and maps with text keys always have a JSON form.
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let mut out = Vec::with_capacity(head.len() + 8);
        out.extend_from_slice(&(head.len() as u64).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.bundle.to_bytes());
        out
    }

    /// Reads what [`Payload::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let wrong = || "the master sent a configuration that this version cannot read".to_owned();
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| wrong())?;
        let (head, bundle) = rest.split_at_checked(length).ok_or_else(wrong)?;
        let head: Head = serde_json::from_slice(head).map_err(|_| wrong())?;
        let bundle = Bundle::from_bytes(bundle).map_err(|_| wrong())?;
        Ok(Self {
            sources: head.sources,
            environment: head.environment,
            hostname: head.hostname,
            localpeer: head.localpeer,
            maxconn: head.maxconn,
            proxy_maxconn: head.proxy_maxconn,
            memory_max_mb: head.memory_max_mb,
            tolerates_unresolved: head.tolerates_unresolved,
            addresses: head.addresses,
            bundle,
        })
    }

    /// Reads the configuration again from what was recorded.
    #[must_use]
    pub fn parse(&self) -> Parsed {
        let options = haproxycfg::Options {
            hostname: self.hostname.clone(),
            localpeer: self.localpeer.clone(),
            maxconn: self.maxconn,
            proxy_maxconn: self.proxy_maxconn,
            memory_max_mb: self.memory_max_mb,
            tolerates_unresolved: self.tolerates_unresolved,
            // The others matter only to who checks, and to what is listened on, which is settled.
            ..haproxycfg::Options::default()
        };
        haproxycfg::parse(&self.sources, &self.bundle, self.environment.clone(), &options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_trip() {
        let payload = Payload {
            sources: vec!["a.cfg".into()],
            environment: [("PORT".to_owned(), "80".to_owned())].into(),
            hostname: "box".into(),
            localpeer: None,
            maxconn: Some(7),
            proxy_maxconn: None,
            memory_max_mb: 64,
            tolerates_unresolved: true,
            addresses: Recorded::default(),
            bundle: Bundle::default().with("a.cfg", b"global\n"),
        };
        let back = Payload::from_bytes(&payload.to_bytes()).unwrap();
        assert_eq!(
            (back.sources, back.maxconn, back.memory_max_mb, back.tolerates_unresolved, back.bundle),
            (payload.sources, Some(7), 64, true, payload.bundle)
        );
        assert!(Payload::from_bytes(b"1234567").is_err());
        assert!(Payload::from_bytes(&[255; 40]).is_err());
    }
}
