//! A worker's records: the ring that it writes, and what is written of sessions and checks. Requests are recorded by
//! whoever serves them.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};

use balance::ServerStats;
use haproxycfg::model::{BindAddress, Mode};
use telemetry::ring::{RingWriter, Tag, Transaction as Records};

use crate::proxy::LiveProxy;

/// The ring that one worker writes.
pub struct Ring {
    writer: RingWriter,
    records: RefCell<Records>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn now_us() -> u64 {
    microseconds(basics::clock::since_1970())
}

impl Ring {
    /// The ring of worker `index`, unless it is turned off or there is no memory for it: serving goes on without.
    #[must_use]
    pub fn open(index: usize, bytes: usize) -> Option<Rc<Self>> {
        if bytes == 0 {
            return None;
        }
        let writer = RingWriter::anonymous(u32::try_from(index).unwrap_or(u32::MAX), bytes, now_us()).ok()?;
        let records = RefCell::new(writer.transaction());
        Some(Rc::new(Self { writer, records }))
    }

    /// Lends the writer and the buffer to gather records in.
    pub fn with(&self, work: impl FnOnce(&RingWriter, &mut Records)) {
        work(&self.writer, &mut self.records.borrow_mut());
    }

    fn write(&self, id: u64, fill: impl FnOnce(&mut Records)) {
        self.with(|writer, records| {
            records.begin(id, now_us());
            fill(records);
            writer.commit(records);
        });
    }

    /// A client has connected.
    pub fn session_begins(&self, id: u64, source: Option<SocketAddr>, frontend: &LiveProxy, listener: usize) {
        let settings = frontend.settings();
        let kind: &[u8] = if settings.mode == Mode::Http { b"sess 0 HTTP/1" } else { b"sess 0 TCP" };
        let name = frontend.listeners.get(listener).map_or("-", |listener| &*listener.name);
        let place = match settings.binds.get(listener).map(|bind| &bind.address) {
            Some(BindAddress::Inet(address) | BindAddress::Quic(address)) => {
                format!("{} {}", address.ip(), address.port())
            }
            _ => "unix 0".to_owned(),
        };
        self.write(id, |records| {
            records.record(Tag::Begin, kind);
            match source {
                Some(source) => {
                    let (ip, port) = (source.ip(), source.port());
                    records.record_fmt(Tag::SessOpen, format_args!("{ip} {port} {name} {place}"));
                }
                None => records.record_fmt(Tag::SessOpen, format_args!("unix 0 {name} {place}")),
            }
            records.record(Tag::Frontend, settings.name.as_bytes());
        });
    }

    /// A client's connection has ended, for this reason and after so long.
    pub fn session_ends(&self, id: u64, reason: &str, lasted: Duration) {
        self.write(id, |records| {
            let (seconds, micros) = (lasted.as_secs(), lasted.subsec_micros());
            records.record_fmt(Tag::SessClose, format_args!("{reason} {seconds}.{micros:06}"));
            records.record(Tag::End, b"");
        });
    }

    /// A check has ended, and this is what the farm made of it.
    pub fn checked(&self, id: u64, backend: &str, server: &ServerStats) {
        let Some(check) = &server.check else { return };
        let (name, code, took) = (&server.name, check.code.unwrap_or(0), check.duration_ms.unwrap_or(0));
        self.write(id, |records| {
            records.record_fmt(Tag::Begin, format_args!("check 0 {backend}/{name}"));
            let state = server.status.to_string().replace(' ', "_");
            let text = format_args!("{backend}/{name} {state} {} {code} {took} {}", check.status.info(), check.info);
            records.record_fmt(Tag::Health, text);
            records.record(Tag::End, b"");
        });
    }
}
