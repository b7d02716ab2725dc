//! HAProxy's JSON: an array of rows, each an array of values with their object, column, tags and type.

use std::fmt::Write as _;

use crate::stats::{
    columns::Column,
    row::{Row, Selection, proxy_rows},
    value::write_json_string,
    view::ProxyView,
};

/// The schema of `show info json` and `show stat json`.
pub const SCHEMA: &str = include_str!("../../../assets/stats/schema.json").trim_ascii_end();

/// The statistics as JSON.
#[must_use]
pub fn json(proxies: &[ProxyView], selection: Selection) -> String {
    let mut out = String::with_capacity(proxies.len() * 16_384);
    out.push('[');
    let mut first = true;
    for row in proxies.iter().flat_map(|proxy| proxy_rows(proxy, selection)) {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        write_row(&mut out, &row);
    }
    out.push(']');
    out
}

fn write_row(out: &mut String, row: &Row) {
    let proxy = row.value(Column::ProxyId).number().unwrap_or(0);
    let service = row.value(Column::ServiceId).number().unwrap_or(0);
    out.push('[');
    let mut first = true;
    for (column, value) in row.cells().filter(|(_, value)| !value.is_empty()) {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        let (object, position) = (row.object.name(), column.position());
        let _ = write!(
            out,
            r#"{{"objType":"{object}","proxyId":{proxy},"id":{service},"field":{{"pos":{position},"name":"#
        );
        write_json_string(out, column.name());
        out.push_str(r#"},"processNum":1,"tags":"#);
        column.tags(row.object).write_json(out);
        let _ = write!(out, r#","value":{{"type":"{}","value":"#, value.type_name());
        value.write_json(out);
        out.push_str("}}");
    }
    out.push(']');
}
