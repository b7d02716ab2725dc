//! A short run of the fuzz target.

#[path = "../../../../fuzz/src/queries.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

/// What queries are made of.
const PIECES: &[&str] = &[
    "RespStatus",
    "ReqHeader",
    "Req*",
    "*URL",
    "*",
    "vxid",
    "Zebra",
    ":host",
    ":",
    "[2]",
    "[",
    "]",
    "{1+}",
    "{2-}",
    "{",
    "}",
    "(",
    ")",
    " and ",
    " or ",
    " not ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " eq ",
    " ne ",
    " ~ ",
    " !~ ",
    "503",
    "-1",
    "1.5",
    "1e9",
    "\"a b\"",
    "'a(?=b)'",
    "\"(a|b)+\"",
    "\"\\\\d\"",
    "\"\\d\"",
    "\"",
    "'",
    "\\",
    "\\\n",
    "\n",
    "#",
    ",",
    "é",
    "\0",
    " ",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn queries(pieces in vec(piece(), 0..24), text in vec(any::<u8>(), 0..40)) {
        let mut data = pieces.concat();
        data.push(0);
        data.extend(text);
        target::query(&data);
    }
}
