//! A cache with a disk tier, and objects whose contents say what they are.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use cache::{
    body::Cursor,
    index::{Cache, Found, Query},
    object::{Kind, Lifetime, Object},
    storage::{
        Stevedore,
        disk::{Disk, Files, MemoryFiles, Recovered},
    },
};
use http::{Headers, ResponseHead, Version};

pub const NOW: f64 = 1_000_000.0;

pub struct Place {
    pub cache: Arc<Cache>,
    pub storage: Arc<Stevedore>,
    pub recovered: Recovered,
}

pub fn digest(key: u8) -> [u8; 32] {
    let mut digest = [key; 32];
    digest[1] = 7;
    digest
}

pub fn head(key: u8, length: usize) -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    head.headers.add(b"key", key.to_string().as_bytes());
    head.headers.add(b"content-length", length.to_string().as_bytes());
    head
}

pub fn body_of(key: u8, length: usize) -> Vec<u8> {
    let mixed = |place: usize| place.wrapping_mul(31).wrapping_add(length).wrapping_add(usize::from(key)) % 251;
    (0..length).map(|place| u8::try_from(mixed(place)).unwrap()).collect()
}

/// The whole body; `None` if it is broken.
pub fn read(object: &Object) -> Option<Vec<u8>> {
    let mut cursor = Cursor::default();
    let mut body = Vec::new();
    loop {
        match object.poll_next(&mut cursor, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            Poll::Ready(Ok(None)) => return Some(body),
            Poll::Ready(Err(_)) => return None,
            Poll::Pending => panic!("not whole"),
        }
    }
}

impl Place {
    pub fn open(files: &MemoryFiles, size: u64) -> Self {
        Self::open_at(files, size, NOW)
    }

    pub fn open_at(files: &MemoryFiles, size: u64, now: f64) -> Self {
        Self::of(Cache::new(), Box::new(files.clone()), size, now)
    }

    pub fn of(cache: Arc<Cache>, files: Box<dyn Files>, size: u64, now: f64) -> Self {
        let (storage, recovered) = Stevedore::file("s0", files, size, &cache, now).unwrap();
        Self { cache, storage, recovered }
    }

    /// Another tier of the same cache.
    pub fn beside(&self, files: &MemoryFiles, size: u64) -> Self {
        Self::of(Arc::clone(&self.cache), Box::new(files.clone()), size, NOW)
    }

    pub fn disk(&self) -> &Arc<Disk> {
        self.storage.disk().unwrap()
    }

    pub fn place_bans(&self) -> Vec<String> {
        self.cache.bans().all().iter().map(|ban| ban.expression().to_string()).filter(|text| !text.is_empty()).collect()
    }

    /// Stores an object of so many bytes.
    pub fn put(&self, key: u8, length: usize, tags: &[&str]) {
        let headers = Headers::new();
        let url = format!("/{key}");
        let mut query = Query::new(digest(key), url.as_bytes(), &headers, NOW);
        query.always_misses = true;
        query.is_impatient = true;
        let Found::Miss { fetch, .. } = self.cache.lookup(&query) else { panic!() };
        let lifetime = Lifetime { origin: NOW, ttl: 100.0, grace: 10.0, keep: 0.0 };
        let (object, mut filler) =
            Object::start(&self.cache, &self.storage, Kind::Ordinary, head(key, length), lifetime).unwrap();
        tags.iter().for_each(|tag| object.add_tag(&self.cache, tag.as_bytes()).unwrap());
        let body = body_of(key, length);
        if length.is_multiple_of(2) {
            filler.expect(length as u64);
        }
        for piece in body.chunks(50_000) {
            filler.write(piece).unwrap();
        }
        filler.finish();
        fetch.publish(object);
    }

    pub fn lookup(&self, key: u8, now: f64) -> Found {
        let headers = Headers::new();
        let url = format!("/{key}");
        let mut query = Query::new(digest(key), url.as_bytes(), &headers, now);
        query.is_impatient = true;
        self.cache.lookup(&query)
    }

    pub fn state(&self, key: u8, now: f64) -> &'static str {
        match self.lookup(key, now) {
            Found::Hit(_) => "hit",
            Found::Grace { .. } => "grace",
            Found::Miss { .. } => "miss",
            other => panic!("{other:?}"),
        }
    }

    /// The length of the object with this key, all of which has been read and compared; `None` without one.
    pub fn find(&self, key: u8, now: f64) -> Option<usize> {
        let Found::Hit(object) = self.lookup(key, now) else { return None };
        let body = read(&object)?;
        assert_eq!(object.head().first(b"key"), Some(key.to_string().as_bytes()));
        assert_eq!(object.head().first(b"content-length"), Some(body.len().to_string().as_bytes()));
        assert!(body == body_of(key, body.len()), "the body of {key}");
        Some(body.len())
    }
}
