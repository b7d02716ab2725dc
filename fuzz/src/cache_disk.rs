//! The disk tier's files: whatever stands in them, the cache starts, and delivers nothing that does not match its checksum.

use std::task::{Context, Poll, Waker};

use cache::{
    body::Cursor,
    index::Cache,
    storage::{
        Stevedore,
        disk::{Files, MemoryFiles},
    },
};

const SIZE: u64 = 1 << 16;
const FRAME: usize = 12;

/// The first byte says whether the checksums of the journal's records are put right first; the rest is the journal.
pub fn journal(data: &[u8]) {
    let [repairs, journal @ ..] = data else { return };
    let mut journal = journal.to_vec();
    if repairs & 1 == 1 {
        repair(&mut journal);
    }
    let contents: Vec<u8> = (0..SIZE).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let files = MemoryFiles::of(contents, journal);
    let started = start(&files);
    // What it has made of the journal is read in the same way.
    let journal = files.read_journal().unwrap_or_default();
    assert_eq!(start(&files), started);
    assert_eq!(files.read_journal().unwrap_or_default(), journal);
}

/// Starts with these files, reads all objects; their number.
fn start(files: &MemoryFiles) -> usize {
    let cache = Cache::new();
    let Ok((storage, recovered)) = Stevedore::file("s0", Box::new(files.clone()), SIZE, &cache, 1000.0) else {
        unreachable!("these files do not fail")
    };
    assert!(storage.used() <= storage.limit());
    let mut found = 0;
    for part in 0.. {
        let Some(objects) = cache.objects_of(part) else { break };
        found += objects.len();
        for object in objects {
            let _ = object.head();
            let mut cursor = Cursor::default();
            let mut context = Context::from_waker(Waker::noop());
            let mut length = 0;
            while let Poll::Ready(Ok(Some(bytes))) = object.poll_next(&mut cursor, &mut context) {
                length += bytes.len() as u64;
            }
            assert!(length <= SIZE && (object.body().is_broken() || object.body().length() == Some(length)));
        }
    }
    assert_eq!(found, recovered.objects);
    let free = storage.disk().map_or(0, |disk| disk.free());
    assert!(free <= SIZE && cache.bans().all().len() <= recovered.bans + 2);
    found
}

fn repair(journal: &mut [u8]) {
    let sum = |bytes: &[u8]| crc32c::crc32c(bytes).to_le_bytes();
    let Some((header, mut rest)) = journal.split_at_mut_checked(32) else { return };
    let (start, end) = header.split_at_mut(24);
    end.iter_mut().zip(sum(start)).for_each(|(to, from)| *to = from);
    while let Some((frame, behind)) = rest.split_at_mut_checked(FRAME) {
        let length = frame.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        let (contents, next) = behind.split_at_mut(length.min(behind.len()));
        let sums = sum(frame.get(..4).unwrap_or_default()).into_iter().chain(sum(contents));
        frame.iter_mut().skip(4).zip(sums).for_each(|(to, from)| *to = from);
        rest = next;
    }
}

/// A journal with something of everything in it.
pub fn example() -> Vec<u8> {
    use cache::{
        bans::Expression,
        index::{Found, Query},
        object::{Kind, Lifetime, Object, Variant},
    };
    let files = MemoryFiles::default();
    let cache = Cache::new();
    let Ok((storage, _)) = Stevedore::file("s0", Box::new(files.clone()), SIZE, &cache, 1000.0) else {
        unreachable!("these files do not fail")
    };
    for key in 0..5_u8 {
        let mut request = http::Headers::new();
        request.add(b"accept", b"a");
        let Found::Miss { mut fetch, .. } = cache.lookup(&Query::new([key; 32], b"/", &request, 1000.0)) else {
            continue;
        };
        fetch.varies_by(Variant::of(vec![b"accept".to_vec()], &request));
        let mut head = http::ResponseHead::new();
        head.start(http::Version::Http11, 200);
        head.headers.add(b"etag", b"\"1\"");
        let lifetime = Lifetime { origin: 1000.0, ttl: 120.0, grace: 10.0, keep: 0.0 };
        let Ok((object, mut filler)) = Object::start(&cache, &storage, Kind::Ordinary, head, lifetime) else {
            continue;
        };
        let _ = (object.add_tag(&cache, b"tag"), filler.write(&[key; 3000]));
        filler.finish();
        fetch.publish(object);
        if let Ok(ban) = Expression::parse("req.url ~ ^/a && obj.status == 404") {
            cache.bans().add(ban, 1000.0 + f64::from(key));
        }
        cache.soft_purge_tag(b"tag", 1001.0);
    }
    cache.purge(cache::index::Digest([3; 32]));
    files.contents().1
}
