//! What an archive may hold where the description of a backup should be: anything.

use sha2::{Digest as _, Sha256};
use store::backup::Manifest;

/// Anything, and anything with a checksum that fits: what is accepted is written again as a description that is accepted.
pub fn description(data: &[u8]) {
    let line: Vec<u8> = data.iter().copied().filter(|byte| *byte != b'\n').collect();
    let digest: String = Sha256::digest(&line).iter().map(|byte| format!("{byte:02x}")).collect();
    let sealed = [&line, b"\n".as_slice(), digest.as_bytes(), b"\n"].concat();
    for input in [data, &sealed] {
        if let Ok(manifest) = Manifest::decode(input) {
            assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Ok(manifest));
        }
    }
}
