//! Where an accepted response is kept, and what the index is told of it.

use std::sync::Arc;

use cache::{
    esi::Parser,
    index::Fetch,
    object::{Kind, Lifetime, Object, Variant},
    policy::vary,
};
use http::ResponseHead;
use telemetry::vsl::VslTag;
use vsm::counters::Main;

use super::{Accepted, AcceptedBody, Backend, IncludeFinder, Step, Stored, host::Decisions, judge::is_usable_vary};
use crate::{fields, modules::xkey, note};

impl Backend {
    /// Makes the object, and what the index is told.
    pub(super) fn store(&mut self, head: ResponseHead, body: AcceptedBody, passes_for: Option<f64>) -> Step {
        let decisions = self.host.decisions;
        // NOTE: what never was fresh answers nobody, whatever its grace, as in Varnish.
        let lives = decisions.ttl > 0.0;
        let is_illegal = !self.host.is_pass && !is_usable_vary(&head.headers);
        if is_illegal {
            self.host.common.record(VslTag::Error, b"Illegal 'Vary' header from backend, making this a pass.");
        }
        let is_private = is_illegal || self.host.is_pass || decisions.is_uncacheable || passes_for.is_some() || !lives;
        // What is replaced in a page is known when it is whole.
        let streams = decisions.streams && !decisions.has_includes;
        let lifetime = Lifetime {
            origin: self.host.received - decisions.age,
            ttl: decisions.ttl,
            grace: decisions.grace,
            keep: decisions.keep,
        };
        let fetch = self.fetch.take();
        if let Some(note) = &self.note {
            note.set(match (is_private, passes_for) {
                (false, _) => "stored",
                (true, Some(_)) => "not stored: the program passes such requests from now on (hit-for-pass)",
                (true, None) => note::unstored(&head, decisions.is_uncacheable, decisions.ttl),
            });
        }
        let (storage, lifetime) =
            if is_private { (&self.loaded.storages.transient, lifetime) } else { (self.storage(decisions), lifetime) };
        let storage = Arc::clone(storage);
        let varies = vary::names(&head.headers);
        let includes = self.include_finder(&head, &body);
        let transit = self.loaded.settings.transit_buffer;
        let is_in_transit = is_private && streams && transit > 0 && matches!(body, AcceptedBody::Backend(_));
        let started = if is_in_transit {
            Object::start_transit(&self.loaded.cache, &storage, head, lifetime, transit)
        } else {
            Object::start(&self.loaded.cache, &storage, Kind::Ordinary, head, lifetime)
        };
        let (object, filler) = match started {
            Ok(started) => started,
            Err(full) => {
                self.host.common.record(VslTag::FetchError, full.to_string().as_bytes());
                self.host.common.log.count(Main::fetch_failed);
                self.fetch = fetch;
                return Step::Abandon;
            }
        };
        object.set_xid(self.host.xid);
        let log = &mut self.host.common.log;
        log.write(VslTag::Storage, format_args!("malloc {}", storage.name()));
        if is_private {
            log.count(Main::beresp_uncacheable);
        } else if Arc::ptr_eq(&storage, &self.loaded.storages.transient) {
            log.count(Main::beresp_shortlived);
        }
        if fetch.is_some() && !is_private && self.loaded.program.imports("xkey") {
            for key in xkey::keys_of(&object.head().unpacked().headers) {
                if object.add_tag(&self.loaded.cache, key).is_err() {
                    self.host.common.record(VslTag::FetchError, b"no room for the object's keys");
                    self.fetch = fetch;
                    return Step::Abandon;
                }
            }
        }
        let fetch = match (fetch, is_private) {
            (Some(fetch), true) => {
                self.mark(fetch, passes_for, decisions.ttl);
                None
            }
            (fetch, _) => fetch.map(|fetch| self.with_variant(fetch, varies)),
        };
        let stored = Some(Stored { object, filler, fetch, streams, includes });
        Step::Accept(Box::new(Accepted { stored, head: ResponseHead::default(), body }))
    }

    fn include_finder(&self, head: &ResponseHead, body: &AcceptedBody) -> Option<IncludeFinder> {
        if !self.host.decisions.has_includes || !matches!(body, AcceptedBody::Backend(_)) {
            return None;
        }
        let parser = Parser::new(self.loaded.settings.esi, self.host.request.target());
        Some(IncludeFinder { parser, is_gzip: fields::is_gzip(&head.headers) })
    }

    fn with_variant(&self, mut fetch: Fetch, varies: Option<Vec<Vec<u8>>>) -> Fetch {
        // NOTE: `*` means that no request is like another one; the program above sees to that.
        let mut names = varies.unwrap_or_default();
        if self.loaded.settings.gzip {
            names.retain(|name| name != b"accept-encoding");
        }
        if !names.is_empty() {
            // NOTE: what the backend has seen, whatever the client's request says.
            fetch.varies_by(Variant::of(names, &self.host.request.headers));
        }
        fetch
    }

    /// Notes in the index that this is for one client alone.
    fn mark(&self, fetch: Fetch, passes_for: Option<f64>, ttl: f64) {
        let (kind, seconds, grace, keep) = match passes_for {
            Some(seconds) => (Kind::HitForPass, seconds, self.host.decisions.grace, self.host.decisions.keep),
            None => (Kind::HitForMiss, ttl, self.host.decisions.grace, self.host.decisions.keep),
        };
        if seconds <= 0.0 {
            return fetch.is_private();
        }
        let lifetime = Lifetime { origin: self.host.received, ttl: seconds, grace, keep };
        let transient = &self.loaded.storages.transient;
        match Object::start(&self.loaded.cache, transient, kind, ResponseHead::default(), lifetime) {
            Ok((marker, filler)) => {
                marker.set_xid(self.host.xid);
                filler.finish();
                fetch.publish(marker);
            }
            Err(_) => fetch.is_private(),
        }
    }

    fn storage(&self, decisions: Decisions) -> &Arc<cache::storage::Stevedore> {
        let storages = &self.loaded.storages;
        let named = decisions.storage.and_then(|index| self.loaded.program.storages.get(index.0 as usize));
        if let Some(storage) = named.and_then(|name| storages.of_name(name)) {
            return storage;
        }
        let lives = decisions.ttl + decisions.grace + decisions.keep;
        if lives < self.loaded.settings.shortlived { &storages.transient } else { storages.at(decisions.turn) }
    }
}
