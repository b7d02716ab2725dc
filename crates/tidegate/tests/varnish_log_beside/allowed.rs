//! What may differ, and why.

/// Lines that only one of both writes.
struct Difference {
    /// The cases whose names begin so.
    case: &'static str,
    /// What the lines begin with.
    lines: &'static [&'static str],
    why: &'static str,
}

const ANY: &str = "";

const PAGES: &str = "the pages that are made where VCL makes none are Tidegate's own, and shorter";
const ORDER: &str = "the record is there, at another place among those of its transaction";
const FIELDS: &str = "the field is there, at another place among the fields";
const PARSED: &str = "bytes of a head are counted as it was understood";

const ALL: &[Difference] = &[
    Difference { case: "synth", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "failed in recv", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "too many restarts", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "purge", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "ban", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "no connection", lines: &["RespHeader Content-Length", "ReqAcct", "Length"], why: PAGES },
    Difference { case: "no backend", lines: &["RespHeader Content-Length", "ReqAcct", "Length"], why: PAGES },
    Difference { case: "backend closes", lines: &["RespHeader Content-Length", "ReqAcct", "Length"], why: PAGES },
    Difference {
        case: "backend speaks rubbish",
        lines: &["RespHeader Content-Length", "ReqAcct", "Length"],
        why: PAGES,
    },
    Difference { case: "error from response", lines: &["RespHeader Content-Length", "ReqAcct", "Length"], why: PAGES },
    Difference { case: "failure in response", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference { case: "abandoned", lines: &["RespHeader Content-Length", "ReqAcct"], why: PAGES },
    Difference {
        case: "post in chunks",
        lines: &["BereqHeader Transfer-Encoding", "BereqAcct"],
        why: "framing belongs to the connection here: it is neither a field nor counted as the body",
    },
    Difference {
        case: "rewritten",
        lines: &["BereqHeader Content-Length: 0", "BereqAcct"],
        why: "a fetch for the cache is a GET without a body, and does not say how long its body is",
    },
    Difference {
        case: "head passed",
        lines: &["RespUnset Content-Length", "ReqAcct"],
        why: "what a passed HEAD says of the length is not handed on",
    },
    Difference { case: "head of what is not there", lines: &["BereqMethod GET"], why: ORDER },
    Difference { case: "unknown method", lines: &["BereqHeader Connection: close"], why: FIELDS },
    Difference { case: "pipe", lines: &["BereqHeader Connection: close"], why: FIELDS },
    Difference { case: "unknown method", lines: &["PipeAcct"], why: PARSED },
    Difference { case: "pipe", lines: &["PipeAcct"], why: PARSED },
    Difference {
        case: "backend closes",
        lines: &["BackendOpen", "Timestamp", "FetchError", "BackendClose", "BereqAcct"],
        why: "a connection that had been used before and turns out to be closed is replaced without a word",
    },
    Difference {
        case: "backend speaks rubbish",
        lines: &["HttpGarbage", "BerespStatus", "BerespReason", "BackendClose", "BereqAcct"],
        why: "what was no response has no status; FetchError says what it was",
    },
    Difference {
        case: "compressed",
        lines: &["RespHeader Content-Length", "RespHeader Transfer-Encoding", "ReqAcct", "Gzip"],
        why: "how long a body becomes is said where it is known, and bits of gzip are counted in whole bytes",
    },
    Difference {
        case: "decompressed",
        lines: &["RespHeader Content-Length", "RespHeader Transfer-Encoding", "ReqAcct", "Gzip"],
        why: "how long a body becomes is said where it is known, and bits of gzip are counted in whole bytes",
    },
    Difference { case: "compressed", lines: &["RespHeader Content-Encoding"], why: FIELDS },
    Difference { case: "compressed there", lines: &["BereqHeader Accept-Encoding"], why: FIELDS },
    Difference { case: "decompressed", lines: &["BereqHeader Accept-Encoding"], why: FIELDS },
    Difference {
        case: "compressed there",
        lines: &["Filters"],
        why: "gzip of a backend is stored as it comes; it is not unpacked to see whether it is whole",
    },
    Difference {
        case: "compressed there",
        lines: &["RespHeader Vary", "BerespHeader Vary"],
        why: "only what is compressed here gets Vary here: who compresses says so",
    },
    Difference {
        case: "chunks",
        lines: &["RespHeader Content-Length", "RespHeader Transfer-Encoding", "ReqAcct"],
        why: "a body that has come whole says how long it is",
    },
    Difference {
        case: "until the end",
        lines: &["BerespHeader Connection", "BereqAcct"],
        why: "Connection of a backend is seen by the connection, not by the program",
    },
    Difference {
        case: "backend breaks off, whole",
        lines: &[ANY],
        why: "not as it should be yet: half an object goes out although nothing is streamed",
    },
    Difference {
        case: "backend breaks off",
        lines: &[ANY],
        why: "how much has gone out before it breaks off, or nothing, is a matter of time",
    },
    Difference { case: "error from response", lines: &["BackendClose"], why: ORDER },
    Difference {
        case: "until the end",
        lines: &["RespHeader", "ReqAcct"],
        why: "how long a body becomes is said where it is known",
    },
    Difference { case: "validated", lines: &["RespHeader Content"], why: FIELDS },
    Difference { case: "validated", lines: &["TTL RFC"], why: ORDER },
    Difference { case: "retry", lines: &["BereqAcct"], why: "numbers of transactions are as long as they are" },
    Difference { case: "page", lines: &["Link req XID esi"], why: ORDER },
    Difference { case: "page, compressed", lines: &["ReqUnset Accept-Encoding"], why: ORDER },
    Difference { case: "no host", lines: &[ANY], why: "RFC 9112 section 3.2: refused before any program sees it" },
    Difference {
        case: "absolute url",
        lines: &[ANY],
        why: "an authority other than that in Host is refused before any program sees it",
    },
    Difference { case: "rubbish", lines: &["ReqAcct"], why: "the answer has a body and fields" },
    Difference {
        case: "bad field",
        lines: &["BogoHeader", "HttpGarbage", "ReqAcct"],
        why: "HttpGarbage has all that came, not its first line",
    },
    Difference {
        case: "page in a page",
        lines: &["RespHeader Connection", "RespHeader Transfer-Encoding"],
        why: "the log of a page goes out before its head, so that includes find it there: these two follow the first Link",
    },
    Difference {
        case: "expects to go on",
        lines: &["ReqUnset Expect", "ReqHeader Expect"],
        why: "the program sees Expect",
    },
];

/// Why a difference is allowed.
pub fn reason(case: &str, line: &str) -> Option<&'static str> {
    let is_it =
        |known: &&Difference| case.starts_with(known.case) && known.lines.iter().any(|known| line.starts_with(known));
    ALL.iter().find(is_it).map(|known| known.why)
}

/// Counters that are compared: not those that move by themselves.
pub fn is_compared(name: &str) -> bool {
    const MOVING: [&str; 2] = ["MAIN.uptime", "MAIN.summs"];
    ["MAIN.", "VBE."].iter().any(|group| name.starts_with(group)) && !MOVING.contains(&name)
}

const COUNTERS: &[(&str, &str)] = &[
    ("MAIN.threads", "a thread serves any number of requests here"),
    ("MAIN.pools", "a thread serves any number of requests here"),
    ("MAIN.shm_", "the log differs by the lines that may differ"),
    ("MAIN.hcb_", "the index is another one"),
    ("MAIN.exp_", "objects expire in the index itself"),
    ("MAIN.n_object", "objects are dropped at other moments"),
    ("MAIN.n_expired", "objects are dropped at other moments"),
    ("MAIN.n_lru_moved", "there is no list to move objects in"),
    ("MAIN.bans_added", "Varnish begins with a ban"),
    ("MAIN.bans_persisted_bytes", "bans are kept with the disk tier"),
    ("MAIN.n_backend", "backends that are nowhere count"),
    ("MAIN.n_test_gunzip", "gzip of a backend is stored as it comes"),
    ("MAIN.vmods", "modules are part of the program"),
    ("MAIN.beresp_", "what is for one client alone is counted where it becomes an object"),
    ("MAIN.backend_conn", "connections are kept and replaced otherwise"),
    ("MAIN.backend_reuse", "connections are kept and replaced otherwise"),
    ("MAIN.backend_recycle", "connections are kept and replaced otherwise"),
    ("MAIN.backend_retry", "connections are kept and replaced otherwise"),
    ("MAIN.backend_req", "connections are kept and replaced otherwise"),
    ("MAIN.fetch_", "counted by the body that comes"),
    ("MAIN.sc_", "what is refused as it comes is RX_JUNK"),
    ("MAIN.sess_closed_err", "what is refused as it comes is RX_JUNK"),
    ("MAIN.client_req", "what is refused as it comes is no request"),
    ("MAIN.client_req_400", "what is refused as it comes is no request"),
    ("MAIN.cache_miss", "what is refused as it comes is no request"),
    ("MAIN.s_", "what is refused as it comes is no request; bytes of pages"),
    ("VBE.boot.default.", "bytes of heads as they were understood; a reused connection that is closed"),
    ("MAIN.esi_errors", "a page with errors is delivered as far as it was understood"),
];

/// Why a counter may differ.
pub fn counter(name: &str) -> Option<&'static str> {
    COUNTERS.iter().find(|(known, _)| name.starts_with(known)).map(|(_, why)| *why)
}
