//! HAProxy's CSV: a header with every column, then a line for each row.

use crate::stats::{
    columns::Column,
    row::{Row, Selection, proxy_rows},
    view::ProxyView,
};

/// The statistics as CSV. As in HAProxy, a lone `-` stands between the columns of proxies and those of protocols.
#[must_use]
pub fn csv(proxies: &[ProxyView], selection: Selection) -> String {
    let mut out = String::with_capacity(1_024 + proxies.len() * 1_024);
    out.push_str("# ");
    for column in Column::ALL {
        out.push_str(column.name());
        end_cell(&mut out, *column);
    }
    out.push('\n');
    for row in proxies.iter().flat_map(|proxy| proxy_rows(proxy, selection)) {
        line(&mut out, &row);
    }
    out
}

fn line(out: &mut String, row: &Row) {
    for (column, value) in row.cells() {
        value.write_csv(out);
        end_cell(out, column);
    }
    out.push('\n');
}

fn end_cell(out: &mut String, column: Column) {
    out.push_str(if column == Column::LAST_OF_PROXIES { ",-," } else { "," });
}
