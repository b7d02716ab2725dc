//! HAProxy's typed output: a line for each value with its object, column, tags and type.

use std::fmt::Write as _;

use crate::stats::{
    columns::Column,
    row::{Selection, proxy_rows},
    view::ProxyView,
};

/// The statistics with types, each with its description on demand.
#[must_use]
pub fn typed(proxies: &[ProxyView], selection: Selection, descriptions: bool) -> String {
    let mut out = String::with_capacity(proxies.len() * 4_096);
    for row in proxies.iter().flat_map(|proxy| proxy_rows(proxy, selection)) {
        let proxy = row.value(Column::ProxyId).number().unwrap_or(0);
        let service = row.value(Column::ServiceId).number().unwrap_or(0);
        for (column, value) in row.cells().filter(|(_, value)| !value.is_empty()) {
            let (letter, position) = (row.object.letter(), column.position());
            let _ = write!(out, "{letter}.{proxy}.{service}.{position}.{}.1:", column.name());
            column.tags(row.object).write_letters(&mut out);
            let _ = write!(out, ":{}:", value.type_name());
            value.write_plain(&mut out);
            if descriptions {
                let _ = write!(out, ":\"{}\"", column.definition().doc);
            }
            out.push('\n');
        }
    }
    out
}
