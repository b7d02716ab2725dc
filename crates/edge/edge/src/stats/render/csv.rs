//! HAProxy's CSV: a header with every column, then a line for each row.

use crate::stats::{
    columns::Column,
    row::{Row, Selection, proxy_rows},
    view::ProxyView,
};

/// The statistics as CSV. A lone `-` column ends those that HAProxy defines itself; modules would add theirs behind it.
#[must_use]
pub fn csv(proxies: &[ProxyView], selection: Selection) -> String {
    let mut out = String::with_capacity(1_024 + proxies.len() * 1_024);
    out.push_str("# ");
    for column in Column::ALL {
        out.push_str(column.name());
        out.push(',');
    }
    out.push_str("-,\n");
    for row in proxies.iter().flat_map(|proxy| proxy_rows(proxy, selection)) {
        line(&mut out, &row);
    }
    out
}

fn line(out: &mut String, row: &Row) {
    for (_, value) in row.cells() {
        value.write_csv(out);
        out.push(',');
    }
    out.push_str("-,\n");
}
