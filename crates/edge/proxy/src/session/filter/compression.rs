//! `compression`: a response's body is written in another coding while it passes.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use compress::Encoder;
use haproxycfg::model::Compression as Settings;
use http::{BodyLength, Coding, write_chunk};
use live::{LiveProxy, ProcessRates, counters::CompressionTraffic};

use super::of;
use crate::{session::transaction::Transaction, worker::Worker};

/// The settings that count for a stream: those of its backend before those of its frontend.
fn settings<'a, T: ?Sized>(
    frontend: &'a LiveProxy,
    backend: &'a LiveProxy,
    part: impl Fn(&'a Settings) -> Option<&'a T>,
) -> Option<&'a T> {
    let of = |proxy: &'a LiveProxy| proxy.settings().compression.as_ref();
    of(backend).and_then(&part).or_else(|| of(frontend).and_then(&part))
}

/// Chooses the coding by the request, which is then no longer offered to servers with `offload`.
pub fn choose(transaction: &mut Transaction, backend: &LiveProxy) {
    let frontend = Arc::clone(&transaction.client.frontend);
    let codings = settings(&frontend, backend, |settings| {
        Some(settings.codings.as_slice()).filter(|codings| !codings.is_empty())
    });
    let filtered = || of(&frontend, backend).any(|filter| matches!(filter, haproxycfg::model::Filter::Compression));
    let Some(codings) = codings.filter(|_| filtered()) else { return };
    let coding = http::accepted_coding(&transaction.request, codings);
    if coding.is_some_and(|coding| coding != Coding::Identity)
        && settings(&frontend, backend, |settings| settings.offload.then_some(settings)).is_some()
    {
        transaction.request.headers.remove(b"accept-encoding");
    }
    if coding.is_some() {
        transaction.stream_filters().coding.set(coding);
    }
}

/// Decides whether the response that has come will be compressed.
pub fn judge(worker: &Worker, transaction: &Transaction, backend: &LiveProxy, body: BodyLength) {
    let Some(coding) = transaction.by_rules.filters.get().and_then(|filters| filters.coding.get()) else { return };
    let frontend = Arc::clone(&transaction.client.frontend);
    let types =
        settings(&frontend, backend, |settings| Some(settings.types.as_slice()).filter(|types| !types.is_empty()));
    let Transaction { request, response, asked, .. } = transaction;
    let judged = http::may_compress(request, asked.version, response, body, types.unwrap_or_default());
    let compresses = judged.is_ok() && has_room(worker, coding, &transaction.instance.config.global.tune);
    transaction.stream_filters().compresses.set(compresses);
}

fn has_room(worker: &Worker, coding: Coding, tune: &haproxycfg::model::Tune) -> bool {
    let process = &worker.shared.process;
    let limits = &process.compression;
    let memory = limits.memory.load(Relaxed) + Encoder::memory_bytes(coding) as u64;
    let is_slow_enough = is_below_rate(worker, |rates| &rates.compression_in, |traffic| traffic.compression_in.value());
    is_slow_enough
        && is_idle_enough(worker, tune.compression_cpu_max)
        && (tune.compression_memory_max == 0 || memory <= tune.compression_memory_max)
}

fn is_below_rate(
    worker: &Worker,
    window: impl Fn(&ProcessRates) -> &live::rates::RateWindow,
    number: fn(&live::counters::ProcessTraffic) -> u64,
) -> bool {
    let process = &worker.shared.process;
    let most = process.compression.rate_max.load(Relaxed);
    most == 0 || window(&process.rates).rate(process.traffic.sum(number), worker.now_ms()) <= most
}

fn is_idle_enough(worker: &Worker, cpu_max: u32) -> bool {
    cpu_max >= 100 || worker.shared.process.idle_percent().is_none_or(|idle| idle >= 100 - cpu_max)
}

/// Memory that is counted as long as it is in use.
struct Memory {
    worker: Rc<Worker>,
    bytes: u64,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.worker.shared.process.compression.memory.fetch_sub(self.bytes, Relaxed);
    }
}

/// One body that is compressed, as chunks.
pub struct Compression {
    encoder: Encoder,
    worker: Rc<Worker>,
    proxies: [Arc<LiveProxy>; 2],
    cpu_max: u32,
    /// What has been compressed and is not part of a chunk yet.
    coded: Vec<u8>,
    /// Whether the encoder may hold something back.
    holds: bool,
    _memory: Memory,
}

impl std::fmt::Debug for Compression {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compression").field("encoder", &self.encoder).finish_non_exhaustive()
    }
}

impl Compression {
    /// Begins with the body of a response that qualifies, whose head is changed. `None` leaves it as it is.
    pub fn begin(worker: &Rc<Worker>, transaction: &mut Transaction, backend: &Arc<LiveProxy>) -> Option<Self> {
        let coding = transaction.by_rules.filters.get().filter(|filters| filters.compresses.get())?.coding.get()?;
        let Ok(encoder) = Encoder::new(coding) else {
            transaction.stream_filters().compresses.set(false);
            return None;
        };
        http::mark_compressed(&mut transaction.response, coding);
        let bytes = Encoder::memory_bytes(coding) as u64;
        worker.shared.process.compression.memory.fetch_add(bytes, Relaxed);
        Some(Self {
            encoder,
            worker: Rc::clone(worker),
            proxies: [Arc::clone(&transaction.client.frontend), Arc::clone(backend)],
            cpu_max: transaction.instance.config.global.tune.compression_cpu_max,
            coded: Vec::new(),
            holds: false,
            _memory: Memory { worker: Rc::clone(worker), bytes },
        })
    }

    fn count(&self, count: impl Fn(&CompressionTraffic)) {
        let [frontend, backend] = &self.proxies;
        let worker = self.worker.index;
        count(frontend.frontend.traffic.of(worker).compression.get_or_init(Box::default));
        count(backend.backend.traffic.of(worker).compression.get_or_init(Box::default));
    }

    /// Takes in data; what of it comes out waits for [`Compression::flush`].
    pub fn add(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if data.is_empty() {
            return;
        }
        let is_compressing = self.encoder.is_compressing();
        let before = self.coded.len();
        let failed = {
            let workspace = &mut *self.worker.compression.borrow_mut();
            self.encoder.add(workspace.get_or_insert_default(), data, &mut self.coded).is_err()
        };
        self.holds = true;
        let (taken, made) = (data.len() as u64, (self.coded.len() - before) as u64);
        let process = self.worker.traffic();
        if is_compressing {
            process.compression_in.add(taken);
            process.compression_out.add(made);
            self.count(|counters| {
                counters.taken.add(taken);
                counters.made.add(made);
            });
        } else {
            self.count(|counters| counters.bypassed.add(taken));
        }
        if failed {
            // The client must not take what it got for the whole: no end of the chunks will come.
            self.holds = false;
        }
        if self.coded.len() >= CHUNK_MAX {
            self.write(out);
        }
    }

    /// Appends what the client needs to read all that was taken in so far.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.holds) {
            let before = self.coded.len();
            let _ = self.encoder.flush(&mut self.coded);
            self.count_made(before);
            self.adapt();
        }
        self.write(out);
    }

    /// Appends the end.
    pub fn finish(&mut self, trailers: &[u8], out: &mut Vec<u8>) {
        let before = self.coded.len();
        let finished = self.encoder.finish(&mut self.coded).is_ok();
        self.count_made(before);
        self.write(out);
        if finished {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(trailers);
            out.extend_from_slice(b"\r\n");
        }
        self.count(|counters| counters.responses.increment());
    }

    fn count_made(&self, before: usize) {
        let made = (self.coded.len() - before) as u64;
        if self.encoder.is_compressing() {
            self.worker.traffic().compression_out.add(made);
            self.count(|counters| counters.made.add(made));
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        write_chunk(&self.coded, out);
        self.coded.clear();
    }

    /// Stops compressing while the limits of the process are exceeded.
    fn adapt(&mut self) {
        let within =
            is_below_rate(&self.worker, |rates| &rates.compression_out, |traffic| traffic.compression_out.value())
                && is_idle_enough(&self.worker, self.cpu_max);
        self.encoder.set_compressing(within);
    }
}

/// Bytes that are gathered for one chunk.
const CHUNK_MAX: usize = 16 * 1024;
