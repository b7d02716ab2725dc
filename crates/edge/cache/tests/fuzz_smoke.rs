//! A short run of this crate's fuzz targets: what is valid, and seeded mutations of it.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/bans.rs"]
mod bans;
#[path = "../../../../fuzz/src/cache_disk.rs"]
mod cache_disk;
#[path = "../../../../fuzz/src/esi.rs"]
mod esi;

/// Calls `target` with each seed and with `rounds` mutations of it.
fn mutate(seeds: &[Vec<u8>], rounds: usize, target: fn(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    for seed in seeds {
        target(seed);
        for _ in 0..rounds {
            let mut bytes = seed.clone();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(5) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.drain(at..(at + random(12)).min(bytes.len()))),
                    2 => {
                        let other = seeds.get(random(seeds.len())).unwrap();
                        let from = random(other.len());
                        let piece = other.get(from..(from + random(60)).min(other.len())).unwrap();
                        bytes.splice(at..at, piece.iter().copied());
                    }
                    3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random(8)),
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = u8::try_from(random(256)).unwrap()),
                }
            }
            target(&bytes);
        }
    }
}

#[test]
fn any_body_has_one_plan() {
    let seeds = [
        "<p>1<esi:include src=\"/a?b&amp;c\" alt='http://h/d' onerror=continue />2<esi:remove><b>3</b></esi:remove>",
        "<!--esi <esi:comment text='4'/> <!-- 5 --> --> <![CDATA[ <esi:include> ]]><esi:include src=https://h/x />",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| [&[0, 3], seed.as_bytes()].concat()).collect();
    mutate(&seeds, 4000, esi::body);
}

#[test]
fn any_journal_can_be_started_with() {
    let example = cache_disk::example();
    assert!(example.len() > 1000);
    let seeds = [[&[0][..], &example].concat(), [&[1][..], &example].concat()];
    mutate(&seeds, 900, cache_disk::journal);
}

#[test]
fn any_text_is_a_ban_or_refused() {
    let seeds = [
        "req.url ~ ^/news(/.*)?$ && obj.http.X-Tag == \"a b\"",
        "obj.age > 1.5h && obj.ttl <= 20ms && obj.grace != 3d && obj.keep < 1w && obj.status !~ ^4",
        "req.http.host != example.com && obj.http.set-cookie ~ .",
    ];
    mutate(&seeds.map(|seed| seed.as_bytes().to_vec()), 3000, bans::expression);
}
