//! A short run of the fuzz target.

#[path = "../../../../fuzz/src/varnish_cli.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

const PIECES: &[&str] = &[
    "vcl.inline",
    "ping",
    "status",
    "param.set ",
    "default_ttl ",
    "feature ",
    "vsl_mask ",
    "+http2",
    "-VCL_call",
    " << ",
    "END",
    "\n",
    "\r\n",
    "\"",
    "\\",
    "\\n",
    "\\x41",
    "\\101",
    " ",
    "200 4       \n",
    "text",
    ",",
    "1.5",
    "80k",
    "-",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn lines(pieces in vec(piece(), 0..24)) {
        target::varnish_cli(&pieces.concat());
    }
}
