//! The log of a client's connection, which lasts over all of its requests.

use std::{
    cell::Cell,
    fmt::{self, Write as _},
    rc::Rc,
};

use telemetry::vsl::VslTag;
use vsm::{counters::Main, log::LogId};

use super::{LogSink, vxid};

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Varnish's; `text` says what they mean")]
pub enum CloseReason {
    RemClose,
    ReqClose,
    ReqHttp10,
    ReqHttp20,
    RxBad,
    RxBody,
    RxJunk,
    RxOverflow,
    RxTimeout,
    RxCloseIdle,
    TxPipe,
    TxError,
    TxEof,
    RespClose,
    VclFailure,
}

impl CloseReason {
    /// Its name, its meaning, its counter, and whether it is a fault.
    const fn row(self) -> (&'static str, &'static str, Main, bool) {
        match self {
            Self::RemClose => ("REM_CLOSE", "Client Closed", Main::sc_rem_close, false),
            Self::ReqClose => ("REQ_CLOSE", "Client requested close", Main::sc_req_close, false),
            Self::ReqHttp10 => ("REQ_HTTP10", "Proto < HTTP.1.1", Main::sc_req_http10, true),
            Self::ReqHttp20 => ("REQ_HTTP20", "HTTP2 not accepted", Main::sc_req_http20, true),
            Self::RxBad => ("RX_BAD", "Received bad req/resp", Main::sc_rx_bad, true),
            Self::RxBody => ("RX_BODY", "Failure receiving req.body", Main::sc_rx_body, true),
            Self::RxJunk => ("RX_JUNK", "Received junk data", Main::sc_rx_junk, true),
            Self::RxOverflow => ("RX_OVERFLOW", "Received buffer overflow", Main::sc_rx_overflow, true),
            Self::RxTimeout => ("RX_TIMEOUT", "Receive timeout", Main::sc_rx_timeout, true),
            Self::RxCloseIdle => ("RX_CLOSE_IDLE", "timeout_idle reached", Main::sc_rx_close_idle, false),
            Self::TxPipe => ("TX_PIPE", "Piped transaction", Main::sc_tx_pipe, false),
            Self::TxError => ("TX_ERROR", "Error transaction", Main::sc_tx_error, true),
            Self::TxEof => ("TX_EOF", "EOF transmission", Main::sc_tx_eof, false),
            Self::RespClose => ("RESP_CLOSE", "Backend/VCL requested close", Main::sc_resp_close, false),
            Self::VclFailure => ("VCL_FAILURE", "VCL failure", Main::sc_vcl_failure, true),
        }
    }

    /// What it means.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.row().1
    }
}

/// The log of a client's connection. Dropping it ends it.
#[derive(Debug)]
pub struct SessionLog {
    sink: Rc<LogSink>,
    number: u64,
    opened: f64,
    reason: Cell<CloseReason>,
    now: fn() -> f64,
}

impl SessionLog {
    /// A connection that came at `opened`, on which `transport` is spoken first; `says` is what is known of it (`client-address port listener local-address port`), `now` is
    /// asked for the time of its end.
    #[must_use]
    pub fn begin(
        sink: &Rc<LogSink>,
        (number, transport): (u64, &str),
        says: fmt::Arguments<'_>,
        (opened, descriptor): (f64, i32),
        now: fn() -> f64,
    ) -> Self {
        let session = Self { sink: Rc::clone(sink), number, opened, reason: Cell::new(CloseReason::RemClose), now };
        session.write(VslTag::Begin, format_args!("sess 0 {transport}"));
        session.write(VslTag::SessOpen, format_args!("{says} {opened:.6} {descriptor}"));
        sink.count(Main::sess_conn, 1);
        sink.count(Main::s_sess, 1);
        session
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A request has come on it.
    pub fn link(&self, number: u64) {
        self.sink.link_request(self.number, number, b" rxreq");
    }

    /// A part of the next request has come with the last one.
    pub fn count_readahead(&self) {
        self.sink.count(Main::sess_readahead, 1);
    }

    /// Notes why it is going to end.
    pub fn closes(&self, reason: CloseReason) {
        self.reason.set(reason);
    }

    /// Writes a record.
    pub fn write(&self, tag: VslTag, text: fmt::Arguments<'_>) {
        self.sink.single(tag, LogId::client(vxid(self.number)), |record| {
            // A record takes what fits.
            let _ = record.write_fmt(text);
        });
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        let (name, _, counter, is_fault) = self.reason.get().row();
        let lasted = ((self.now)() - self.opened).max(0.0);
        self.write(VslTag::SessClose, format_args!("{name} {lasted:.3}"));
        self.write(VslTag::End, format_args!(""));
        self.sink.count(counter, 1);
        self.sink.count(Main::sess_closed, 1);
        if is_fault {
            self.sink.count(Main::sess_closed_err, 1);
        }
    }
}
