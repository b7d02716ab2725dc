//! HTTP caching, without a clock, a socket or a file: `now` is an argument, and what is decided comes with its reason.
//!
//! - [`policy`] is RFC 9111 for a shared cache: what may be stored, how long it is fresh, when it may be used again, what validates
//!   it and what makes it invalid.
//! - [`index`] finds objects by the digest of a request, for any number of threads, and has one of the requests that miss fetch
//!   for all of them.
//! - [`object`] is what is stored: a head, times, and a [`body`] that many read while one fills it.
//! - [`storage`] bounds what objects take, and says which of them leave.
//! - [`bans`] removes objects by what they are.
//! - [`esi`] finds in a body what is replaced when it is delivered (Edge Side Includes).
//!
//! A miss, a hit, and what waits for the same object:
//!
//! ```
//! use std::sync::Arc;
//! use cache::{
//!     index::{Cache, Found, Query},
//!     object::{Kind, Lifetime, Object},
//!     storage::Stevedore,
//! };
//! use http::{Headers, ResponseHead, Version};
//!
//! let memory = Arc::new(Stevedore::malloc("s0", 1 << 20));
//! let cache = Cache::new();
//! let request = Headers::new();
//! let query = Query::new([7; 32], b"/", &request, 1000.0);
//!
//! // The first one is to fetch; the second one waits for it.
//! let Found::Miss { fetch, .. } = cache.lookup(&query) else { panic!() };
//! let Found::Busy(waiting) = cache.lookup(&query) else { panic!() };
//!
//! // The head has come: everybody may have the object, and reads its body while it arrives.
//! let mut head = ResponseHead::new();
//! head.start(Version::Http11, 200);
//! let lifetime = Lifetime { origin: 1000.0, ttl: 120.0, grace: 10.0, keep: 0.0 };
//! let (object, mut filler) = Object::start(&cache, &memory, Kind::Ordinary, head, lifetime).unwrap();
//! fetch.publish(Arc::clone(&object));
//! assert!(waiting.outcome().is_some());
//! assert!(matches!(cache.lookup(&query), Found::Hit(found) if Arc::ptr_eq(&found, &object)));
//!
//! filler.write(b"hello").unwrap();
//! filler.finish();
//! assert_eq!(object.body().length(), Some(5));
//! ```

pub mod bans;
pub mod body;
pub mod esi;
pub mod index;
pub mod object;
pub mod policy;
pub mod storage;

/// Seconds since 1970, as VCL counts time.
pub type Time = f64;
