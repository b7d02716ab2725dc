//! Stick tables: what tracked counters say, what is known of the client's address, and how full a table is.

use stick::{DataType, Gpc, Query};

use crate::arguments::ArgumentType;
use crate::context::{StickAnswer, StickKey};
use crate::keyword::{Call, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const INTERNAL: Sources = Sources::of(&[Source::Internal]);
const ADDRESS: Sources = Sources::of(&[Source::Client]);

const TABLE: &[ArgumentType] = &[ArgumentType::Table];
const INTEGER_TABLE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Table];
const TWO_INTEGERS_TABLE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Sint, ArgumentType::Table];

/// How full a table is.
pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("table_avl", Type::Sint, INTERNAL, |call, _| {
        let table = call.name(0).and_then(|name| call.context.stick_table_use(name));
        table.map(|(used, size)| Value::Sint(i64::from(size) - i64::from(used))).into()
    })
    .takes(TABLE, 1)
    .doc("Free entries of a stick table.", "acl table_full table_avl(clients) eq 0"),
    Fetch::new("table_cnt", Type::Sint, INTERNAL, |call, _| {
        let table = call.name(0).and_then(|name| call.context.stick_table_use(name));
        table.map(|(used, _)| Value::Sint(i64::from(used))).into()
    })
    .takes(TABLE, 1)
    .doc("Entries of a stick table.", "acl crowded table_cnt(clients) gt 50000"),
    Fetch::new("src_updt_conn_cnt", Type::Sint, ADDRESS, |call, _| source(call, 0, Query::CountConnection))
        .takes(TABLE, 1)
        .doc(
            "Adds one to the connections of the client's address; their number.",
            "acl many src_updt_conn_cnt(t) gt 5",
        ),
    Fetch::new("sc1_clr_gpc", Type::Sint, INTERNAL, |call, _| {
        numbered(call, 1, 1, |index| Query::Clear(Gpc::Element(index)))
    })
    .takes(INTEGER_TABLE, 1)
    .doc("Sets a general counter of counter 1 to zero and returns its former value.", "acl reset sc1_clr_gpc(0) ge 0"),
];

/// Those of one number for an entry.
macro_rules! counters {
    ($($name:literal $output:expr, $sources:expr, $query:expr, $doc:literal, [$($source:tt)*];)*) => {
        &[$(
            Fetch::new(concat!("sc_", $name), $output, $sources, |call, _| given(call, $query))
                .takes(INTEGER_TABLE, 1)
                .doc(concat!($doc, " The entry is that of the tracked counter with this number."), concat!("acl a sc_", $name, "(0) gt 10")),
            Fetch::new(concat!("sc0_", $name), $output, $sources, |call, _| counter(call, 0, 0, $query))
                .takes(TABLE, 0)
                .doc(concat!($doc, " The entry is that of tracked counter 0."), concat!("acl a sc0_", $name, " gt 10")),
            Fetch::new(concat!("sc1_", $name), $output, $sources, |call, _| counter(call, 1, 0, $query))
                .takes(TABLE, 0)
                .doc(concat!($doc, " The entry is that of tracked counter 1."), concat!("acl a sc1_", $name, " gt 10")),
            Fetch::new(concat!("sc2_", $name), $output, $sources, |call, _| counter(call, 2, 0, $query))
                .takes(TABLE, 0)
                .doc(concat!($doc, " The entry is that of tracked counter 2."), concat!("acl a sc2_", $name, " gt 10")),
            $(counters!(@source $source $name, $query, $doc),)*
        )*]
    };
    (@source src $name:literal, $query:expr, $doc:literal) => {
        Fetch::new(concat!("src_", $name), Type::Sint, ADDRESS, |call, _| source(call, 0, $query))
            .takes(TABLE, 1)
            .doc(concat!($doc, " The entry is that of the client's address."), concat!("acl a src_", $name, "(clients) gt 10"))
    };
}

/// Counters, each known under several prefixes.
pub(super) const COUNTERS: &[Fetch] = counters! {
    "bytes_in_rate" Type::Sint, INTERNAL, Query::Value(DataType::BytesInRate, 0), "Rate of bytes from the client.", [src];
    "bytes_out_rate" Type::Sint, INTERNAL, Query::Value(DataType::BytesOutRate, 0), "Rate of bytes to the client.", [src];
    "clr_gpc0" Type::Sint, INTERNAL, Query::Clear(Gpc::First), "Sets the first general counter to zero and returns its former value.", [src];
    "clr_gpc1" Type::Sint, INTERNAL, Query::Clear(Gpc::Second), "Sets the second general counter to zero and returns its former value.", [src];
    "conn_cnt" Type::Sint, INTERNAL, Query::Value(DataType::ConnCnt, 0), "Connections so far.", [src];
    "conn_cur" Type::Sint, INTERNAL, Query::Value(DataType::ConnCur, 0), "Connections now.", [src];
    "conn_rate" Type::Sint, INTERNAL, Query::Value(DataType::ConnRate, 0), "Rate of connections.", [src];
    "get_gpc0" Type::Sint, INTERNAL, Query::Value(DataType::Gpc0, 0), "The first general counter.", [src];
    "get_gpc1" Type::Sint, INTERNAL, Query::Value(DataType::Gpc1, 0), "The second general counter.", [src];
    "get_gpt0" Type::Sint, INTERNAL, Query::Value(DataType::Gpt0, 0), "The first general tag.", [src];
    "gpc0_rate" Type::Sint, INTERNAL, Query::Value(DataType::Gpc0Rate, 0), "Rate of the first general counter.", [src];
    "gpc1_rate" Type::Sint, INTERNAL, Query::Value(DataType::Gpc1Rate, 0), "Rate of the second general counter.", [src];
    "http_err_cnt" Type::Sint, INTERNAL, Query::Value(DataType::HttpErrCnt, 0), "Requests that were in error.", [src];
    "http_err_rate" Type::Sint, INTERNAL, Query::Value(DataType::HttpErrRate, 0), "Rate of requests that were in error.", [src];
    "http_fail_cnt" Type::Sint, INTERNAL, Query::Value(DataType::HttpFailCnt, 0), "Requests that servers failed.", [src];
    "http_fail_rate" Type::Sint, INTERNAL, Query::Value(DataType::HttpFailRate, 0), "Rate of requests that servers failed.", [src];
    "http_req_cnt" Type::Sint, INTERNAL, Query::Value(DataType::HttpReqCnt, 0), "Requests so far.", [src];
    "http_req_rate" Type::Sint, INTERNAL, Query::Value(DataType::HttpReqRate, 0), "Rate of requests.", [src];
    "inc_gpc0" Type::Sint, INTERNAL, Query::Increment(Gpc::First), "Adds one to the first general counter.", [src];
    "inc_gpc1" Type::Sint, INTERNAL, Query::Increment(Gpc::Second), "Adds one to the second general counter.", [src];
    "kbytes_in" Type::Sint, ADDRESS, Query::Kilobytes(DataType::BytesInCnt), "Kilobytes from the client.", [src];
    "kbytes_out" Type::Sint, ADDRESS, Query::Kilobytes(DataType::BytesOutCnt), "Kilobytes to the client.", [src];
    "sess_cnt" Type::Sint, INTERNAL, Query::Value(DataType::SessCnt, 0), "Sessions so far.", [src];
    "sess_rate" Type::Sint, INTERNAL, Query::Value(DataType::SessRate, 0), "Rate of sessions.", [src];
    "tracked" Type::Bool, INTERNAL, Query::Exists, "Whether the counter is tracked.", [];
    "trackers" Type::Sint, INTERNAL, Query::Trackers, "How many streams track the entry.", [];
};

/// Those of one element out of several.
macro_rules! indexed {
    ($($name:literal, $query:expr, $doc:literal;)*) => {
        &[$(
            Fetch::new(concat!("sc_", $name), Type::Sint, INTERNAL, |call, _| {
                let Some(number) = number(call, 1) else { return Fetched::Missing };
                numbered(call, number, 2, $query)
            })
            .takes(TWO_INTEGERS_TABLE, 2)
            .doc(concat!($doc, " The entry is that of the tracked counter with this number."), concat!("acl a sc_", $name, "(1,0) gt 10")),
            Fetch::new(concat!("src_", $name), Type::Sint, ADDRESS, |call, _| {
                let Some(index) = number(call, 0) else { return Fetched::Missing };
                source(call, 1, ($query)(index))
            })
            .takes(INTEGER_TABLE, 2)
            .doc(concat!($doc, " The entry is that of the client's address."), concat!("acl a src_", $name, "(1,clients) gt 10")),
        )*]
    };
}

/// Counters and tags of which there is an array.
pub(super) const INDEXED: &[Fetch] = indexed! {
    "clr_gpc", |index| Query::Clear(Gpc::Element(index)), "Sets a general counter to zero and returns its former value.";
    "get_gpc", |index| Query::Value(DataType::Gpc, index), "A general counter.";
    "get_gpt", |index| Query::Value(DataType::Gpt, index), "A general tag.";
    "gpc_rate", |index| Query::Value(DataType::GpcRate, index), "Rate of a general counter.";
    "inc_gpc", |index| Query::Increment(Gpc::Element(index)), "Adds one to a general counter.";
};

fn number(call: &Call<'_>, position: usize) -> Option<u32> {
    call.integer(position).and_then(|number| u32::try_from(number).ok())
}

/// Asks the counter whose number is the first argument.
fn given<'a>(call: &Call<'a>, query: Query) -> Fetched<'a> {
    match number(call, 0) {
        Some(number) => counter(call, number, 1, query),
        None if query == Query::Exists => Fetched::Value(Value::Bool(false)),
        None => Fetched::Missing,
    }
}

/// Asks a counter, in the table that is the argument at `position` if there is one.
fn counter<'a>(call: &Call<'a>, number: u32, position: usize, query: Query) -> Fetched<'a> {
    let answer = call.context.stick(StickKey::Counter(number), call.name(position), query);
    if query == Query::Exists {
        // A counter is tracked, whatever another table says of its key.
        return Fetched::Value(Value::Bool(answer != StickAnswer::NoKey));
    }
    found(answer)
}

/// Asks a counter about the element that the first argument names.
fn numbered<'a>(call: &Call<'a>, counted: u32, position: usize, query: impl Fn(u32) -> Query) -> Fetched<'a> {
    match number(call, 0) {
        Some(index) => counter(call, counted, position, query(index)),
        None => Fetched::Missing,
    }
}

/// Asks about the client's address in the table that is the argument at `position`.
fn source<'a>(call: &Call<'a>, position: usize, query: Query) -> Fetched<'a> {
    found(call.context.stick(StickKey::Source, call.name(position), query))
}

/// What is not known is zero, so that it can be compared with; what is not stored is not there.
fn found<'a>(answer: StickAnswer) -> Fetched<'a> {
    match answer {
        StickAnswer::NoKey | StickAnswer::NotStored => Fetched::Missing,
        StickAnswer::NoEntry => Fetched::Value(Value::Sint(0)),
        StickAnswer::Value(value) => Fetched::Value(Value::Sint(value)),
    }
}
