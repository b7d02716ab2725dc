//! What is to be asked of stick tables by each fetch and converter.

use stick::{DataType, Gpc, Query};

/// Numbers of an entry: the name without prefix and what it asks for.
const NUMBERS: &[(&str, Query)] = &[
    ("bytes_in_rate", Query::Value(DataType::BytesInRate, 0)),
    ("bytes_out_rate", Query::Value(DataType::BytesOutRate, 0)),
    ("conn_cnt", Query::Value(DataType::ConnCnt, 0)),
    ("conn_cur", Query::Value(DataType::ConnCur, 0)),
    ("conn_rate", Query::Value(DataType::ConnRate, 0)),
    ("gpc0_rate", Query::Value(DataType::Gpc0Rate, 0)),
    ("gpc1_rate", Query::Value(DataType::Gpc1Rate, 0)),
    ("http_err_cnt", Query::Value(DataType::HttpErrCnt, 0)),
    ("http_err_rate", Query::Value(DataType::HttpErrRate, 0)),
    ("http_fail_cnt", Query::Value(DataType::HttpFailCnt, 0)),
    ("http_fail_rate", Query::Value(DataType::HttpFailRate, 0)),
    ("http_req_cnt", Query::Value(DataType::HttpReqCnt, 0)),
    ("http_req_rate", Query::Value(DataType::HttpReqRate, 0)),
    ("kbytes_in", Query::Kilobytes(DataType::BytesInCnt)),
    ("kbytes_out", Query::Kilobytes(DataType::BytesOutCnt)),
    ("sess_cnt", Query::Value(DataType::SessCnt, 0)),
    ("sess_rate", Query::Value(DataType::SessRate, 0)),
    ("trackers", Query::Trackers),
];

/// General counters and tags, which have other names in fetches than in converters.
const GENERAL: &[(&str, Query)] = &[
    ("clr_gpc0", Query::Clear(Gpc::First)),
    ("clr_gpc1", Query::Clear(Gpc::Second)),
    ("get_gpc0", Query::Value(DataType::Gpc0, 0)),
    ("get_gpc1", Query::Value(DataType::Gpc1, 0)),
    ("get_gpt0", Query::Value(DataType::Gpt0, 0)),
    ("inc_gpc0", Query::Increment(Gpc::First)),
    ("inc_gpc1", Query::Increment(Gpc::Second)),
];

/// Elements of arrays, asked for by their number 3.
const ELEMENTS: &[(&str, Query)] = &[
    ("clr_gpc", Query::Clear(Gpc::Element(3))),
    ("get_gpc", Query::Value(DataType::Gpc, 3)),
    ("get_gpt", Query::Value(DataType::Gpt, 3)),
    ("gpc_rate", Query::Value(DataType::GpcRate, 3)),
    ("inc_gpc", Query::Increment(Gpc::Element(3))),
];

/// An expression, the key, the table that is named, and the question.
pub type Case = (String, &'static str, Option<&'static str>, Query);

/// Every fetch of stick tables, with and without what may be left out.
pub fn fetches() -> Vec<Case> {
    let mut cases = Vec::new();
    let tracked = [("tracked", Query::Exists)];
    for (name, query) in NUMBERS.iter().chain(GENERAL).chain(&tracked).copied() {
        cases.push((format!("sc_{name}(2)"), "counter 2", None, query));
        cases.push((format!("sc_{name}(1,t)"), "counter 1", Some("t"), query));
        for (prefix, key) in [("sc0", "counter 0"), ("sc1", "counter 1"), ("sc2", "counter 2")] {
            cases.push((format!("{prefix}_{name}"), key, None, query));
            cases.push((format!("{prefix}_{name}(t)"), key, Some("t"), query));
        }
        if !matches!(name, "tracked" | "trackers") {
            cases.push((format!("src_{name}(t)"), "source", Some("t"), query));
        }
    }
    for (name, query) in ELEMENTS.iter().copied() {
        cases.push((format!("sc_{name}(3,2)"), "counter 2", None, query));
        cases.push((format!("sc_{name}(3,0,t)"), "counter 0", Some("t"), query));
        cases.push((format!("src_{name}(3,t)"), "source", Some("t"), query));
    }
    cases.push(("sc1_clr_gpc(3)".to_owned(), "counter 1", None, Query::Clear(Gpc::Element(3))));
    cases.push(("src_updt_conn_cnt(t)".to_owned(), "source", Some("t"), Query::CountConnection));
    cases
}

/// Every converter of stick tables, for the value `a`.
pub fn converters() -> Vec<Case> {
    let mut cases: Vec<Case> =
        NUMBERS.iter().map(|(name, query)| (format!("str(a),table_{name}(t)"), "value a", Some("t"), *query)).collect();
    for (name, query) in [
        ("in_table(t)", Query::Exists),
        ("table_expire(t)", Query::Expire),
        ("table_expire(t,5)", Query::Expire),
        ("table_idle(t)", Query::Idle),
        ("table_gpc0(t)", Query::Value(DataType::Gpc0, 0)),
        ("table_gpc1(t)", Query::Value(DataType::Gpc1, 0)),
        ("table_gpt0(t)", Query::Value(DataType::Gpt0, 0)),
        ("table_server_id(t)", Query::Value(DataType::ServerId, 0)),
        ("table_gpc(3,t)", Query::Value(DataType::Gpc, 3)),
        ("table_gpc_rate(3,t)", Query::Value(DataType::GpcRate, 3)),
        ("table_gpt(3,t)", Query::Value(DataType::Gpt, 3)),
    ] {
        cases.push((format!("str(a),{name}"), "value a", Some("t"), query));
    }
    cases
}

/// The name of the fetch or of the last converter in an expression.
pub fn name(text: &str) -> &str {
    let last = text.strip_prefix("str(a),").unwrap_or(text);
    last.split('(').next().unwrap_or_default()
}
