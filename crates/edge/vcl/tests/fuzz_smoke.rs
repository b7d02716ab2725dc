//! A short run of this crate's fuzz target: programs, and seeded mutations of them.

#[path = "../../../../fuzz/src/vcl.rs"]
mod target;

const SEEDS: &[&str] = &[
    include_str!("../src/builtin.vcl"),
    "vcl 4.1; import std; import directors; backend a { .host = \"192.0.2.1\"; .port = \"80\"; .probe = { .url = \"/\"; } }
    acl l { \"192.0.2.0\"/24; ! \"192.0.2.7\"; }
    sub vcl_init { new d = directors.round_robin(); d.add_backend(a); }
    sub vcl_recv { set req.backend_hint = d.backend(); if (client.ip ~ l && req.url ~ \"^/(a|b)\") { return (synth(404, \"a\" + now)); }
    set req.http.x = regsub(req.url, \"a\", {\"b\"}) + std.integer(req.http.y, 1) + :Zm9v:; unset req.http.z; call f; }
    sub f { set req.ttl = 1.5h; }",
    "backend a { .host = \"a\"; } director d random { { .backend = a; .weight = 2; } }
    sub vcl_recv { if (req.request == \"PURGE\") { error 405 \"no\"; } set req.backend = d; return (lookup); }
    sub vcl_fetch { if (beresp.ttl < 1s) { return (hit_for_pass); } restart; }",
];

#[test]
fn any_text_is_a_program_or_an_error() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap_or(0)
    };
    for seed in SEEDS {
        target::source(seed.as_bytes());
        for _ in 0..300 {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.drain(at..(at + random(12)).min(bytes.len()))),
                    2 => {
                        let other = SEEDS.get(random(SEEDS.len())).copied().unwrap_or_default().as_bytes();
                        let from = random(other.len());
                        let piece = other.get(from..(from + random(30)).min(other.len())).unwrap_or_default();
                        bytes.splice(at..at, piece.iter().copied());
                    }
                    _ => {
                        if let Some(byte) = bytes.get_mut(at) {
                            *byte = *b"{}();=.\"~!&|+-*/%<>,aC: 0".get(random(25)).unwrap_or(&b' ');
                        }
                    }
                }
            }
            target::source(&bytes);
        }
    }
}
