//! Readers of Varnish's shared memory: index, log, descriptions of counters.

use vsm::reader;

/// The bytes are an index, the words of a log, and a description.
pub fn vsm_reader(data: &[u8]) {
    reader::survives(data);
}
