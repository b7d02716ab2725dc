//! What stick tables know of the value that comes in.

use stick::{DataType, Query};

use crate::arguments::ArgumentType;
use crate::context::{StickAnswer, StickKey};
use crate::keyword::{Call, Converter};
use crate::value::{Type, Value};

const TABLE: &[ArgumentType] = &[ArgumentType::Table];
const TABLE_DEFAULT: &[ArgumentType] = &[ArgumentType::Table, ArgumentType::Sint];
const INDEX_TABLE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Table];

/// Those of one number for an entry.
macro_rules! tables {
    ($($name:literal, $query:expr, $doc:literal;)*) => {
        &[$(
            Converter::new(concat!("table_", $name), Type::Any, Type::Sint, |value, call| answer(value, call, 0, $query))
                .takes(TABLE, 1)
                .doc($doc, concat!("acl a src,table_", $name, "(clients) gt 10")),
        )*
        Converter::new("in_table", Type::Any, Type::Bool, |value, call| {
            match call.context.stick(StickKey::Value(value), call.name(0), Query::Exists) {
                StickAnswer::NoKey => None,
                answer => Some(Value::Bool(matches!(answer, StickAnswer::Value(_)))),
            }
        })
        .takes(TABLE, 1)
        .doc("Whether it is in a stick table.", "http-request deny if { src,in_table(banned) }"),
        Converter::new("table_expire", Type::Any, Type::Sint, |value, call| time(value, call, Query::Expire))
            .takes(TABLE_DEFAULT, 1)
            .doc("Milliseconds until an entry expires.", "http-request set-var(txn.left) src,table_expire(banned,0)"),
        Converter::new("table_idle", Type::Any, Type::Sint, |value, call| time(value, call, Query::Idle))
            .takes(TABLE_DEFAULT, 1)
            .doc("Milliseconds since an entry was last used.", "acl stale src,table_idle(clients,0) gt 60000"),
        Converter::new("table_gpc", Type::Any, Type::Sint, |value, call| indexed(value, call, DataType::Gpc))
            .takes(INDEX_TABLE, 2)
            .doc("A general counter of an entry.", "acl a src,table_gpc(1,clients) gt 10"),
        Converter::new("table_gpc_rate", Type::Any, Type::Sint, |value, call| indexed(value, call, DataType::GpcRate))
            .takes(INDEX_TABLE, 2)
            .doc("Rate of a general counter of an entry.", "acl a src,table_gpc_rate(1,clients) gt 10"),
        Converter::new("table_gpt", Type::Any, Type::Sint, |value, call| indexed(value, call, DataType::Gpt))
            .takes(INDEX_TABLE, 2)
            .doc("A general tag of an entry.", "acl a src,table_gpt(1,clients) eq 2"),
        Converter::new("table_trackers", Type::Any, Type::Sint, |value, call| {
            match call.context.stick(StickKey::Value(value), call.name(0), Query::Trackers) {
                StickAnswer::NoKey | StickAnswer::NotStored => None,
                StickAnswer::NoEntry => Some(Value::Sint(0)),
                // As in HAProxy, whoever asks counts among those who track an entry.
                StickAnswer::Value(trackers) => Some(Value::Sint(trackers + 1)),
            }
        })
        .takes(TABLE, 1)
        .doc("Streams that track an entry.", "acl busy src,table_trackers(clients) gt 10"),
        ]
    };
}

pub(super) const CONVERTERS: &[Converter] = tables! {
    "bytes_in_rate", Query::Value(DataType::BytesInRate, 0), "Rate of bytes from the client, of an entry.";
    "bytes_out_rate", Query::Value(DataType::BytesOutRate, 0), "Rate of bytes to the client, of an entry.";
    "conn_cnt", Query::Value(DataType::ConnCnt, 0), "Connections so far, of an entry.";
    "conn_cur", Query::Value(DataType::ConnCur, 0), "Connections now, of an entry.";
    "conn_rate", Query::Value(DataType::ConnRate, 0), "Rate of connections, of an entry.";
    "gpc0", Query::Value(DataType::Gpc0, 0), "The first general counter of an entry.";
    "gpc0_rate", Query::Value(DataType::Gpc0Rate, 0), "Rate of the first general counter of an entry.";
    "gpc1", Query::Value(DataType::Gpc1, 0), "The second general counter of an entry.";
    "gpc1_rate", Query::Value(DataType::Gpc1Rate, 0), "Rate of the second general counter of an entry.";
    "gpt0", Query::Value(DataType::Gpt0, 0), "The first general tag of an entry.";
    "http_err_cnt", Query::Value(DataType::HttpErrCnt, 0), "Requests that were in error, of an entry.";
    "http_err_rate", Query::Value(DataType::HttpErrRate, 0), "Rate of requests that were in error, of an entry.";
    "http_fail_cnt", Query::Value(DataType::HttpFailCnt, 0), "Requests that servers failed, of an entry.";
    "http_fail_rate", Query::Value(DataType::HttpFailRate, 0), "Rate of requests that servers failed, of an entry.";
    "http_req_cnt", Query::Value(DataType::HttpReqCnt, 0), "Requests so far, of an entry.";
    "http_req_rate", Query::Value(DataType::HttpReqRate, 0), "Rate of requests, of an entry.";
    "kbytes_in", Query::Kilobytes(DataType::BytesInCnt), "Kilobytes from the client, of an entry.";
    "kbytes_out", Query::Kilobytes(DataType::BytesOutCnt), "Kilobytes to the client, of an entry.";
    "server_id", Query::Value(DataType::ServerId, 0), "The number of the server that an entry sticks to.";
    "sess_cnt", Query::Value(DataType::SessCnt, 0), "Sessions so far, of an entry.";
    "sess_rate", Query::Value(DataType::SessRate, 0), "Rate of sessions, of an entry.";
};

/// What is not known is zero, so that it can be compared with; what is not stored is not there.
fn answer<'a>(value: Value<'_>, call: &Call<'_>, table: usize, query: Query) -> Option<Value<'a>> {
    match call.context.stick(StickKey::Value(value), call.name(table), query) {
        StickAnswer::NoKey | StickAnswer::NotStored => None,
        StickAnswer::NoEntry => Some(Value::Sint(0)),
        StickAnswer::Value(value) => Some(Value::Sint(value)),
    }
}

fn indexed<'a>(value: Value<'_>, call: &Call<'_>, data: DataType) -> Option<Value<'a>> {
    let index = u32::try_from(call.integer(0)?).ok()?;
    answer(value, call, 1, Query::Value(data, index))
}

/// A time of an entry, or what is to be said where there is none.
fn time<'a>(value: Value<'_>, call: &Call<'_>, query: Query) -> Option<Value<'a>> {
    match call.context.stick(StickKey::Value(value), call.name(0), query) {
        StickAnswer::NoKey | StickAnswer::NotStored => None,
        StickAnswer::NoEntry => call.integer(1).map(Value::Sint),
        StickAnswer::Value(value) => Some(Value::Sint(value)),
    }
}
