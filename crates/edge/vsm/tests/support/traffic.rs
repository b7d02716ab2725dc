//! An instance that serves nobody and says that it does.

use std::{path::Path, sync::Arc};

use telemetry::vsl::VslTag;
use vsm::{
    Publisher, VsmError, WorkingDirectory,
    counters::{Counters, Main, Mgt, Sma, Vbe},
    log::{Log, LogBuffer, LogId, LogWriter},
};

/// All that an instance publishes.
#[allow(dead_code, reason = "the example needs less than the tests")]
pub struct Instance {
    pub main: Counters<Main>,
    pub management: Counters<Mgt>,
    pub storage: Counters<Sma>,
    pub backend: Counters<Vbe>,
    pub log: Arc<Log>,
    pub worker: Publisher,
    pub manager: Publisher,
    directory: WorkingDirectory,
}

impl Instance {
    /// Begins in that folder.
    pub fn begin(folder: &Path, log_bytes: usize) -> Result<Self, VsmError> {
        let directory = WorkingDirectory::create(folder)?;
        let mut manager = directory.manager()?;
        let management = manager.counters::<Mgt>("MGT")?;
        manager.publish("Arg", "-T", b"127.0.0.1 6082\n")?;
        let mut worker = directory.worker()?;
        let main = worker.counters::<Main>("MAIN")?;
        let log = worker.log(log_bytes)?;
        let storage = worker.counters::<Sma>("SMA.s0")?;
        let backend = worker.counters::<Vbe>("VBE.boot.default")?;
        Ok(Self { main, management, storage, backend, log, worker, manager, directory })
    }

    /// A request of a client that misses, and its fetch: transactions `vxid` (session), `vxid + 1` and `vxid + 2`.
    pub fn request(&self, writer: &LogWriter, vxid: u32) {
        let (session, request, fetch) = (vxid, vxid + 1, vxid + 2);
        let mut buffer = LogBuffer::new(LogId::client(session), 16 * 1024);
        let write = |buffer: &mut LogBuffer, records: &[(VslTag, String)]| {
            for (tag, text) in records {
                buffer.record(writer, *tag, text.as_bytes());
            }
        };
        let text = str::to_owned;
        write(
            &mut buffer,
            &[
                (VslTag::Begin, text("sess 0 HTTP/1")),
                (VslTag::SessOpen, text("127.0.0.1 40000 a0 127.0.0.1 6081 1795440260.000000 20")),
                (VslTag::Link, format!("req {request} rxreq")),
            ],
        );
        buffer.flush(writer);
        buffer.reuse(LogId::backend(fetch));
        write(
            &mut buffer,
            &[
                (VslTag::Begin, format!("bereq {request} fetch")),
                (VslTag::BereqMethod, text("GET")),
                (VslTag::BereqURL, format!("/page/{vxid}")),
                (VslTag::BereqProtocol, text("HTTP/1.1")),
                (VslTag::BerespStatus, text("200")),
            ],
        );
        buffer.end(writer);
        buffer.reuse(LogId::client(request));
        write(
            &mut buffer,
            &[
                (VslTag::Begin, format!("req {session} rxreq")),
                (VslTag::Timestamp, text("Start: 1795440260.100000 0.000000 0.000000")),
                (VslTag::ReqStart, text("127.0.0.1 40000 a0")),
                (VslTag::ReqMethod, text("GET")),
                (VslTag::ReqURL, format!("/page/{vxid}")),
                (VslTag::ReqProtocol, text("HTTP/1.1")),
                (VslTag::VCL_call, text("RECV")),
                (VslTag::VCL_return, text("hash")),
                (VslTag::VCL_call, text("MISS")),
                (VslTag::Link, format!("bereq {fetch} fetch")),
                (VslTag::RespProtocol, text("HTTP/1.1")),
                (VslTag::RespStatus, text("200")),
                (VslTag::RespReason, text("OK")),
            ],
        );
        buffer.pieces(writer, VslTag::ReqHeader, &[b"Host", b": ", b"example.com"]);
        buffer.record(writer, VslTag::Timestamp, b"Resp: 1795440260.150000 0.050000 0.050000");
        buffer.record(writer, VslTag::ReqAcct, b"80 0 80 120 1000 1120");
        buffer.end(writer);
        buffer.reuse(LogId::client(session));
        buffer.record(writer, VslTag::SessClose, b"REM_CLOSE 0.051");
        buffer.end(writer);
        self.main.add(Main::client_req, 1);
        self.main.add(Main::cache_miss, 1);
    }
}
