//! Backends and directors of a program, as `backend.list` shows them.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use accelerator::directors::{Director, Neighbours as _, Policy};
use balance::{
    ServerId,
    probe::{Family, ProbeHistory},
};
use live::{Running, Verdict};
use net::Target;
use varnishcli::{AdminHealth, BackendDetails, BackendEntry, DirectorDetails, MemberEntry, ProbeDetails};
use varnishd::backends::section_name;
use vcl::{
    program::{BackendIndex, ObjectIndex},
    run::Backend,
};

/// The entry of a declared backend.
pub(super) fn of_backend(program: &Running, index: BackendIndex, name: String) -> BackendEntry {
    let declared = program.loaded.program.backends.get(index.0 as usize);
    let probe = declared.and_then(|declared| match declared.health {
        vcl::program::Health::Probe(probe) => program.loaded.program.probes.get(probe.0 as usize),
        vcl::program::Health::Unprobed => None,
    });
    let admin = match program.targets.verdict(index) {
        Verdict::Sick => Some(AdminHealth::Sick),
        Verdict::Healthy => Some(AdminHealth::Healthy),
        Verdict::Auto => probe.map(|_| AdminHealth::Auto),
    };
    let proxy = program.targets.proxy(Backend::Declared(index));
    let history = proxy.as_ref().and_then(|proxy| proxy.farm().probes(ServerId::new(0)));
    // NOTE: as in Varnish this is what the probe says, whatever the administrator does.
    let is_healthy = match (&history, program.targets.verdict(index)) {
        (Some(history), _) => history.is_healthy(),
        (None, Verdict::Auto) => program.loaded.is_healthy(Backend::Declared(index)),
        (None, _) => true,
    };
    let family = match proxy.and_then(|proxy| proxy.servers.with(0, |server| server.target())) {
        Some(Target::Inet(SocketAddr::V6(_))) => Family::Ipv6,
        Some(Target::Inet(SocketAddr::V4(_)) | Target::Unresolved) | None => Family::Ipv4,
        Some(Target::Unix(_) | Target::Abstract(_)) => Family::Unix,
    };
    BackendEntry {
        name,
        kind: "backend".to_owned(),
        admin,
        good_of: history.map_or((0, 0), |history| (history.good_count(), u32::from(history.window().size))),
        is_healthy,
        last_change: last_change(program, Backend::Declared(index)),
        details: Some(history.map_or(BackendDetails::Nothing, |history| of_probe(&history, family))),
    }
}

fn of_probe(history: &ProbeHistory, family: Family) -> BackendDetails {
    let window = history.window();
    BackendDetails::Probe(ProbeDetails {
        lines: history.lines(family),
        bits: history.all_bits(family),
        good: history.good_count(),
        threshold: u32::from(window.threshold),
        window: u32::from(window.size),
    })
}

/// When a backend, or one of a director's, last became healthy or sick: at the latest when the program was loaded.
fn last_change(program: &Running, backend: Backend) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs_f64(program.loaded.changed(backend).max(0.0))
}

/// Directors that a program has declared or made.
pub(super) fn of_directors(program: &Running) -> Vec<BackendEntry> {
    let loaded = &program.loaded;
    let declared = (0..).map(Backend::Director).zip(loaded.program.directors.iter().map(|director| &director.name));
    let made = (0..).map(|place| Backend::Object(ObjectIndex(place))).zip(&loaded.program.objects);
    let made = made.map(|(backend, object)| (backend, &object.name));
    declared
        .chain(made)
        .filter_map(|(backend, name)| {
            let director = loaded.director(backend)?;
            let members = director.members();
            let healthy = members.iter().filter(|member| loaded.is_healthy(**member)).count();
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            Some(BackendEntry {
                name: section_name(&loaded.name, name),
                kind: director.kind().to_owned(),
                admin: Some(AdminHealth::Auto),
                good_of: (count(healthy), count(members.len())),
                is_healthy: healthy > 0,
                last_change: last_change(program, backend),
                details: of_director(program, director),
            })
        })
        .collect()
}

/// What a director has to say; one by a key says nothing, as in Varnish.
fn of_director(program: &Running, director: &Director) -> Option<BackendDetails> {
    let loaded = &program.loaded;
    let member = |backend: Backend| MemberEntry {
        name: loaded.name_of(backend).unwrap_or_default().to_owned(),
        is_healthy: loaded.is_healthy(backend),
        ..MemberEntry::default()
    };
    let (about, members) = match director {
        Director::Members(members) => {
            let about = match members.policy() {
                Policy::RoundRobin => DirectorDetails::RoundRobin,
                Policy::Random => DirectorDetails::Random,
                Policy::Fallback { sticky } => DirectorDetails::Fallback { sticky },
                Policy::Hash | Policy::OldHash => return None,
            };
            let current = members.current();
            let entry = |(place, (backend, weight)): (usize, (Backend, f64))| MemberEntry {
                weight,
                is_current: place == current,
                ..member(backend)
            };
            (about, members.all().into_iter().enumerate().map(entry).collect())
        }
        Director::Shard(shard) => {
            let (warmup, rampup) = shard.ramp();
            let now = basics::clock::seconds();
            let entry = |(backend, ident, ramp): (Backend, String, f64)| {
                let member = member(backend);
                let since = (now - loaded.changed(backend)).max(0.0);
                let rampup = match member.is_healthy {
                    false => (0.0, 0.0),
                    true if since < ramp => (since / ramp, ramp - since),
                    true => (1.0, 0.0),
                };
                MemberEntry { ident, rampup, ..member }
            };
            (DirectorDetails::Shard { warmup, rampup }, shard.described().into_iter().map(entry).collect())
        }
    };
    Some(BackendDetails::Members(about, members))
}
