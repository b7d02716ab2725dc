//! A short run of every fuzz target of this crate: seeds, and seeded mutations of them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/web.rs"]
mod web_promises;

const MUTATIONS: usize = 1_500;

/// Pieces that make an input interesting where random bytes would not.
const PIECES: &[&[u8]] = &[
    b"/",
    b"..",
    b".",
    b"%2e",
    b"%2f",
    b"%00",
    b"%",
    b"\\",
    b"a",
    b"bytes=",
    b"-",
    b",",
    b"0-1",
    b"18446744073709551615",
    b"{",
    b"}",
    b";",
    b"#",
    b"\n",
    b"\r",
    b"text/html",
    b"html",
    b"types",
    b"\"",
    b"'",
    b"<",
    b"&",
    b"{SHA}",
    b"$apr1$",
    b"$1$",
    b"$2y$",
    b"$6$rounds=",
    b":",
    b"\xff",
    b"\xe2\x80\xae",
    b"{SSHA}",
    b"_",
    b"\0",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

fn run(promise: fn(&[u8]), seeds: &[&[u8]]) {
    for seed in seeds {
        promise(seed);
    }
    let mut random = Random(42);
    for _ in 0..MUTATIONS {
        let mut input = seeds[random.below(seeds.len())].to_vec();
        for _ in 0..=random.below(6) {
            let at = random.below(input.len() + 1);
            match random.below(4) {
                0 => {
                    input.truncate(at);
                }
                1 if at < input.len() => input[at] = random.below(256) as u8,
                2 if at < input.len() => {
                    input.remove(at);
                }
                _ => {
                    let piece = PIECES[random.below(PIECES.len())];
                    input.splice(at..at, piece.iter().copied());
                }
            }
        }
        promise(&input);
    }
}

#[test]
fn paths() {
    run(web_promises::path, &[b"\0a/b", b"\x01a/../.git", b"\0%2e%2e/%2f..%5c", b"\0.well-known/x"]);
}

#[test]
fn ranges() {
    run(web_promises::ranges, &[b"\x64\0bytes=0-1,5-9", b"\0\0bytes=-1", b"\xff\xffbytes=10-,0-0,-5"]);
}

#[test]
fn listings() {
    run(web_promises::listing, &[b"a/b.txt/<script>", b"\"onx=/'&/\xff\xfe", b"a10/a2/\xe2\x80\xaex"]);
}

#[test]
fn mime_types() {
    run(
        web_promises::mime_types,
        &[b"types {\n text/html html htm; # c\n}\n", b"text/html html htm\n# c\nimage/png png\n"],
    );
}

#[test]
fn htpasswd() {
    run(
        web_promises::htpasswd,
        &[
            b"a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n",
            b"a:$apr1$x$12YdXEY0/hH4rDNkmZupO0\n# c\n",
            b"b:4/CxA7rvzrt/2:comment\r\n",
            b"c:$1$a$cHJi5PXp/ki/ktXzqlk6I1",
        ],
    );
}
