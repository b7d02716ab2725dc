//! What fetches and converters ask of stick tables, and what they make of the answers. The tables themselves are tested in
//! their own crate, and all together beside HAProxy in the program's tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::cell::RefCell;

use sample::{Context, Options, StickAnswer, StickKey, Value};
use stick::Query;
use support::{expression, stick as cases};

/// Notes what it is asked and gives one answer.
struct Tables {
    answer: StickAnswer,
    asked: RefCell<Vec<(String, Option<String>, Query)>>,
}

impl Tables {
    fn answering(answer: StickAnswer) -> Self {
        Self { answer, asked: RefCell::default() }
    }
}

impl Context for Tables {
    fn stick(&self, key: StickKey<'_>, table: Option<&str>, query: Query) -> StickAnswer {
        let key = match key {
            StickKey::Counter(number) => format!("counter {number}"),
            StickKey::Source => "source".to_owned(),
            StickKey::Value(Value::Str(text)) => format!("value {}", String::from_utf8_lossy(&text)),
            StickKey::Value(other) => format!("value {other:?}"),
        };
        self.asked.borrow_mut().push((key, table.map(str::to_owned), query));
        self.answer
    }

    fn stick_table_use(&self, table: &str) -> Option<(u32, u32)> {
        (table == "t").then_some((30, 100))
    }
}

fn integer(text: &str, tables: &Tables) -> Option<i64> {
    let expression = expression(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.integer(tables, Options::REQUEST)
}

#[test]
fn each_asks_for_its_own() {
    for (text, key, table, query) in cases::fetches().into_iter().chain(cases::converters()) {
        let tables = Tables::answering(StickAnswer::Value(7));
        let expected = match (query, cases::name(&text)) {
            (Query::Exists, _) => 1,
            // Whoever asks counts too.
            (Query::Trackers, "table_trackers") => 8,
            _ => 7,
        };
        assert_eq!(integer(&text, &tables), Some(expected), "{text}");
        let asked = tables.asked.into_inner();
        assert_eq!(asked, [(key.to_owned(), table.map(str::to_owned), query)], "{text}");
    }
}

#[test]
fn what_is_unknown_is_zero_and_what_is_not_stored_is_missing() {
    for (answer, number, tracked, in_table) in [
        (StickAnswer::NoKey, None, Some(0), None),
        (StickAnswer::NotStored, None, Some(1), Some(0)),
        (StickAnswer::NoEntry, Some(0), Some(1), Some(0)),
    ] {
        let tables = Tables::answering(answer);
        for text in ["sc_http_req_rate(0)", "sc1_conn_cur(t)", "src_get_gpc(0,t)", "str(a),table_conn_cnt(t)"] {
            assert_eq!(integer(text, &tables), number, "{text} {answer:?}");
        }
        assert_eq!(integer("sc_tracked(0)", &tables), tracked, "{answer:?}");
        assert_eq!(integer("str(a),in_table(t)", &tables), in_table, "{answer:?}");
    }
    let nobody = Tables::answering(StickAnswer::NoEntry);
    assert_eq!(integer("str(a),table_expire(t)", &nobody), None);
    assert_eq!(integer("str(a),table_expire(t,5)", &nobody), Some(5));
    assert_eq!(integer("str(a),table_idle(t,6)", &nobody), Some(6));
}

#[test]
fn how_full_a_table_is() {
    let tables = Tables::answering(StickAnswer::NoKey);
    for (text, expected) in
        [("table_cnt(t)", Some(30)), ("table_avl(t)", Some(70)), ("table_cnt(u)", None), ("table_avl(u)", None)]
    {
        assert_eq!(integer(text, &tables), expected, "{text}");
    }
}
