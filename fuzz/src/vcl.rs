//! VCL: any text is a program or an error with a place.

use vcl::{Options, compile};

/// Compiles what comes; a message can always be shown.
pub fn source(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let options = Options { unused_is_error: false, ..Options::default() };
    match compile("fuzzed.vcl", text, &options) {
        Ok(compiled) => {
            // Whatever compiles has every subroutine of the cache.
            assert_eq!(compiled.program.entries.len(), vcl::subroutine::Subroutine::ALL.len());
            for note in &compiled.notes {
                assert!(!note.render(&compiled.program.sources).is_empty());
            }
        }
        Err(rejected) => assert!(!rejected.message().is_empty()),
    }
}
