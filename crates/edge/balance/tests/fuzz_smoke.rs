//! A short run of the fuzz target of this crate: messages as servers send them, and seeded mutations of them.

#[path = "../../../../fuzz/src/check_messages.rs"]
mod check_messages;

const MUTATIONS: usize = 3_000;

/// Answers of MySQL, LDAP, SPOP and agents, whole.
const CORPUS: &[&[u8]] = &[
    b"\x0a\0\0\0\n8.0.19\0\x01\x02\x03\0\0\x02\0\0\0",
    b"\x0a\0\0\0\n8.0.19\0\x01\x02\x09\0\0\x02\xff\x15\x04#28000",
    b"\x05\0\0\0\xff\x69\x04No",
    b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0",
    b"\x30\x84\0\0\0\x10\x02\x01\x01\x61\x84\0\0\0\x07\x0a\x01\0\x04\0\x04\0",
    b"\0\0\0\x37\x65\0\0\0\x01\0\0\x07version\x08\x032.0\x0emax-frame-size\x03\xfc\xf0\x06\x0ccapabilities\x08\0",
    b"\0\0\0\x15\x66\0\0\0\x01\0\0\x0bstatus-code\x03\x02",
    b"75%,maxconn:30 up ready # all is well\n",
    b"stopped\r\n",
];

#[test]
fn broken_messages_never_break_a_decoder() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 11).unwrap_or(0) % most
    };
    for message in CORPUS {
        check_messages::messages(message);
        for _ in 0..MUTATIONS {
            let mut broken = message.to_vec();
            for _ in 0..=random(3) {
                let at = random(broken.len() + 1);
                match random(3) {
                    0 => broken.truncate(at),
                    1 => broken.insert(at, u8::try_from(random(256)).unwrap_or(0)),
                    _ => broken.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
                }
            }
            check_messages::messages(&broken);
        }
    }
}
