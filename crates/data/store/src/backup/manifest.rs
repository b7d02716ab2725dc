//! What a backup says about itself: docs/formats/backup.md.

use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The longest manifest that is read.
const LEN_MAX: u64 = 256 << 20;

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format: 1.
    pub version: u32,
    /// When it was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// The id of the log's history.
    pub replication_id: String,
    /// Up to which offset of the log the tables are true.
    pub applied: u64,
    /// Where the log in it ends.
    pub log_end: u64,
    /// When the last of it was appended, in milliseconds since 1970; 0 if it is empty.
    pub log_end_ms: u64,
    /// The files of the tables.
    pub tables: Vec<Item>,
    /// The files of the log, in order.
    pub log: Vec<Item>,
    /// All records of the tables.
    pub records: Records,
}

/// A file of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its path within `tables` or `log`.
    pub path: String,
    /// Its bytes: of the log, those that are good.
    pub len: u64,
    /// SHA-256 of them in hexadecimal digits, by which the archive has it.
    pub digest: String,
    /// What it was known by in the store: one that is still known so is not read again.
    pub seen: Seen,
}

/// Inode and time of the last change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The inode.
    pub inode: u64,
    /// Nanoseconds since 1970.
    pub changed_ns: i64,
}

/// What all records come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// How many there are.
    pub count: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sum of their hashes, in hexadecimal digits.
    pub digest: String,
}

impl From<engine::Summary> for Records {
    fn from(summary: engine::Summary) -> Self {
        Self { count: summary.records, bytes: summary.bytes, digest: format!("{:032x}", summary.digest) }
    }
}

impl Item {
    /// The name of the file in the archive.
    pub fn name(&self) -> String {
        format!("files/{}", self.digest)
    }
}

/// Why a description of a backup cannot be used. But for [`Version`](Self::Version) the backup is damaged, or its place cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It has no line of its own and a checksum.
    #[error("it is cut off, or no description of a backup")]
    Cut,
    /// Its bytes are others than were written.
    #[error("its checksum does not match")]
    Checksum,
    /// It is no JSON, or lacks what it has to have.
    #[error("{0}")]
    Json(String),
    /// It is of another version of the format.
    #[error(
        "it is of version {0}, and this program reads version {VERSION}: use the program that made it, or a later one"
    )]
    Version(u32),
    /// It names a file that no store has, or one elsewhere.
    #[error("it names the file '{0}', which is none of a store")]
    File(String),
    /// The archive does not give it.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

impl ManifestError {
    #[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
    fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl Manifest {
    /// The name of the backup: sorted by name, backups are in order of time.
    pub fn name(&self) -> String {
        let time: String = crate::point::time_text(self.created_ms).replace([':', '-', '.'], "");
        format!("backups/{time}-{}", self.applied)
    }

    /// Where its log ends, and the time of that if it has anything of the log that the tables have not.
    pub fn log_end_text(&self) -> String {
        match self.log_end_ms {
            0 => self.log_end.to_string(),
            time_ms => format!("{} ({})", self.log_end, crate::point::time_text(time_ms)),
        }
    }

    /// Its bytes: JSON in a line, and the SHA-256 of it.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        let digest = basics::hex::lower(&Sha256::digest(&bytes));
        bytes.push(b'\n');
        bytes.extend_from_slice(digest.as_bytes());
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        /// What every version has.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or(ManifestError::Cut)?;
        let (json, digest) = bytes.split_at(line);
        if digest.trim_ascii() != basics::hex::lower(&Sha256::digest(json)).as_bytes() {
            return Err(ManifestError::Checksum);
        }
        let versioned: Versioned = serde_json::from_slice(json).map_err(ManifestError::json)?;
        if versioned.version != VERSION {
            return Err(ManifestError::Version(versioned.version));
        }
        let manifest: Self = serde_json::from_slice(json).map_err(ManifestError::json)?;
        for item in manifest.tables.iter().chain(&manifest.log) {
            let is_digest = item.digest.len() == 64 && item.digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_inside = item.path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
            if !is_digest || !is_inside {
                return Err(ManifestError::File(item.path.clone()));
            }
        }
        Ok(manifest)
    }

    /// Reads one of an archive.
    pub fn read(archive: &dyn crate::archive::Archive, name: &str) -> Result<Self, ManifestError> {
        let mut bytes = Vec::new();
        let read =
            archive.get(name).and_then(|file| io::Read::read_to_end(&mut io::Read::take(file, LEN_MAX), &mut bytes));
        read.map_err(|error| ManifestError::Unreadable(error.to_string()))?;
        Self::decode(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let item = Item {
            path: "tree/current".into(),
            len: 3,
            digest: "ab".repeat(32),
            seen: Seen { inode: 4, changed_ns: 5 },
        };
        Manifest {
            version: VERSION,
            created_ms: 1_772_366_400_123,
            replication_id: "0".repeat(40),
            applied: 77,
            log_end: 99,
            log_end_ms: 1_772_366_400_000,
            tables: vec![item],
            log: Vec::new(),
            records: Records { count: 1, bytes: 2, digest: "0f".repeat(16) },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = manifest();
        assert_eq!(manifest.name(), "backups/20260301T120000123Z-77");
        assert_eq!(manifest.log_end_text(), "99 (2026-03-01T12:00:00.000Z)");
        assert_eq!(Manifest { log_end_ms: 0, ..manifest.clone() }.log_end_text(), "99");
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for len in 0..bytes.len() - 1 {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "{len}");
        }
        for place in 0..bytes.len() - 1 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(Manifest::decode(&damaged).is_err(), "{place}");
        }
    }

    #[test]
    fn the_layout_of_version_1() {
        let json = format!(
            concat!(
                r#"{{"version":1,"created_ms":1772366400123,"replication_id":"{}","applied":77,"log_end":99,"#,
                r#""log_end_ms":1772366400000,"tables":[{{"path":"tree/current","len":3,"digest":"{}","#,
                r#""seen":{{"inode":4,"changed_ns":5}}}}],"log":[],"records":{{"count":1,"bytes":2,"digest":"{}"}}}}"#,
            ),
            "0".repeat(40),
            "ab".repeat(32),
            "0f".repeat(16)
        );
        let digest = basics::hex::lower(&Sha256::digest(&json));
        assert_eq!(String::from_utf8(manifest().encode().unwrap()).unwrap(), format!("{json}\n{digest}\n"));
    }

    #[test]
    fn what_is_not_sound_is_refused() {
        let refused = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Manifest::decode(&manifest.encode().unwrap()).unwrap_err().to_string()
        };
        assert!(refused(&|manifest| manifest.version = 2).contains("it is of version 2"));
        for path in ["../tree", "/etc/passwd", "", "tree//x", "tree/../../x"] {
            let text = refused(&|manifest| manifest.tables[0].path = path.into());
            assert!(text.contains("none of a store"), "{path}: {text}");
        }
        assert!(refused(&|manifest| manifest.tables[0].digest = "../x".into()).contains("none of a store"));
    }
}
