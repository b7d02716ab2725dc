//! The classic table of a proxy: HAProxy's columns, with what each means from the one table of columns.

use std::fmt::Write as _;

use crate::stats::{
    columns::{Column, Object},
    row::Row,
    text::escape_html,
    value::Value,
    view::ProxyView,
};

struct Group {
    title: &'static str,
    columns: &'static [(Column, &'static str)],
}

const GROUPS: &[Group] = &[
    Group {
        title: "Queue",
        columns: &[(Column::QueueNow, "Cur"), (Column::QueueMax, "Max"), (Column::QueueLimit, "Limit")],
    },
    Group {
        title: "Session rate",
        columns: &[(Column::Rate, "Cur"), (Column::RateMax, "Max"), (Column::RateLimit, "Limit")],
    },
    Group {
        title: "Sessions",
        columns: &[
            (Column::SessionsNow, "Cur"),
            (Column::SessionsMax, "Max"),
            (Column::SessionsLimit, "Limit"),
            (Column::SessionsTotal, "Total"),
            (Column::Balanced, "LbTot"),
            (Column::LastSession, "Last"),
        ],
    },
    Group { title: "Bytes", columns: &[(Column::BytesIn, "In"), (Column::BytesOut, "Out")] },
    Group { title: "Denied", columns: &[(Column::DeniedRequests, "Req"), (Column::DeniedResponses, "Resp")] },
    Group {
        title: "Errors",
        columns: &[
            (Column::RequestErrors, "Req"),
            (Column::ConnectionErrors, "Conn"),
            (Column::ResponseErrors, "Resp"),
        ],
    },
    Group { title: "Warnings", columns: &[(Column::Retries, "Retr"), (Column::Redispatches, "Redis")] },
    Group {
        title: "Server",
        columns: &[
            (Column::Status, "Status"),
            (Column::CheckStatus, "LastChk"),
            (Column::Weight, "Wght"),
            (Column::Active, "Act"),
            (Column::Backup, "Bck"),
            (Column::ChecksFailed, "Chk"),
            (Column::Downs, "Dwn"),
            (Column::Downtime, "Dwntme"),
            (Column::Throttle, "Thrtle"),
        ],
    },
];

/// `stats show-modules`.
const MODULES: &[Group] = &[Group {
    title: "HTTP/1",
    columns: &[
        (Column::Http1Connections, "Conn"),
        (Column::Http1ConnectionsTotal, "Total"),
        (Column::Http1StreamsTotal, "Exch"),
        (Column::Http1BytesIn, "In"),
        (Column::Http1BytesOut, "Out"),
        (Column::Http1SplicedIn, "Spl in"),
        (Column::Http1SplicedOut, "Spl out"),
    ],
}];

/// What a table has beside the columns that each has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// Numbers of proxies.
    pub(super) legends: bool,
    /// The columns of HTTP/1.
    pub(super) modules: bool,
    /// Boxes to choose servers with, or their room: columns are to stand below each other in all tables.
    pub(super) boxes: bool,
}

impl Shown {
    fn groups(self) -> impl Iterator<Item = &'static Group> {
        let modules: &[Group] = if self.modules { MODULES } else { &[] };
        GROUPS.iter().chain(modules)
    }
}

/// The actions of HAProxy's form in its order.
const ACTIONS: &[(&str, &str)] = &[
    ("ready", "Ready: take part again"),
    ("drain", "Drain: no new visitors"),
    ("maint", "Maintenance: serve nothing"),
    ("dhlth", "Checks: stop"),
    ("ehlth", "Checks: start"),
    ("hrunn", "Health: up"),
    ("hnolb", "Health: up, no new visitors"),
    ("hdown", "Health: down"),
    ("dagent", "Agent: stop asking"),
    ("eagent", "Agent: ask"),
    ("arunn", "Agent: up"),
    ("adown", "Agent: down"),
    ("shutdown", "End all sessions"),
];

/// Writes the table of a proxy, within a form that posts to `action` if servers may be changed.
pub(super) fn write(out: &mut String, proxy: &ProxyView, rows: &[Row], action: Option<&str>, shown: Shown) {
    let name = escape_html(&proxy.name);
    let _ = write!(
        out,
        "<section class=\"classic\" data-proxy=\"{name}\" data-number=\"{}\"><h2 id=\"{name}\"><a href=\"#{name}\">{name}</a>",
        proxy.id
    );
    let _ = write!(out, " <small>{}", proxy.mode());
    if shown.legends {
        let _ = write!(out, ", number {}", proxy.id);
    }
    out.push_str("</small></h2>");
    if let Some(description) = &proxy.description {
        let _ = write!(out, "<p>{}</p>", escape_html(description));
    }
    if let Some(action) = action {
        let _ = write!(out, "<form method=\"post\" action=\"{}\">", escape_html(action));
    }
    out.push_str("\n<div class=\"frame\"><table><colgroup>");
    write_widths(out, shown);
    let choose = "<th rowspan=\"2\" scope=\"col\"><span class=\"hidden\">Choose</span></th>";
    let _ = write!(
        out,
        "</colgroup><thead><tr>{}<th rowspan=\"2\" scope=\"col\" class=\"corner\">Name</th>",
        if shown.boxes { choose } else { "" }
    );
    for group in shown.groups() {
        let _ = write!(out, "<th colspan=\"{}\" scope=\"colgroup\">{}</th>", group.columns.len(), group.title);
    }
    out.push_str("</tr><tr>");
    for group in shown.groups() {
        for (index, (column, title)) in group.columns.iter().enumerate() {
            let first = if index == 0 { " class=\"first\"" } else { "" };
            let doc = column.definition().doc;
            let _ =
                write!(out, "<th scope=\"col\"{first}><abbr title=\"{}: {doc}\">{title}</abbr></th>", column.name());
        }
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        write_row(out, row, action.is_some(), shown);
    }
    out.push_str("</tbody></table></div>\n");
    if action.is_some() {
        write_actions(out, proxy.id);
    }
    out.push_str("</section>\n");
}

/// Columns are as wide in every table, so that one can look down a column through all of them.
fn write_widths(out: &mut String, shown: Shown) {
    out.push_str(if shown.boxes { "<col class=pick><col class=name>" } else { "<col class=name>" });
    let columns = shown.groups().flat_map(|group| group.columns).map(|(column, _)| width(*column));
    let mut widths: Vec<(&str, usize)> = Vec::new();
    for class in columns {
        match widths.last_mut() {
            Some((last, count)) if *last == class => *count += 1,
            _ => widths.push((class, 1)),
        }
    }
    for (class, count) in widths {
        let _ = write!(out, "<col class={class} span={count}>");
    }
}

/// How wide a column is, as a class of the style sheet.
fn width(column: Column) -> &'static str {
    match column {
        Column::QueueLimit | Column::RateLimit | Column::SessionsLimit | Column::RateMax | Column::SessionsMax => {
            "limit"
        }
        Column::SessionsTotal | Column::Balanced | Column::BytesIn | Column::BytesOut => "sum",
        Column::LastSession | Column::Downtime => "age",
        Column::Status => "state",
        Column::CheckStatus => "check",
        Column::Http1Connections | Column::Http1ConnectionsTotal | Column::Http1StreamsTotal => "sum",
        Column::Http1BytesIn | Column::Http1BytesOut | Column::Http1SplicedIn | Column::Http1SplicedOut => "sum",
        _ => "count",
    }
}

/// From where on a number has no room in its column.
fn most(column: Column) -> u64 {
    match width(column) {
        "sum" => 10_000_000,
        "limit" => 1_000_000,
        _ => 100_000,
    }
}

fn write_actions(out: &mut String, id: u32) {
    let _ = write!(
        out,
        "<p class=\"act\"><label for=\"action-{id}\">With the chosen servers</label> \
         <select name=\"action\" id=\"action-{id}\"><option value=\"\"></option>"
    );
    for (value, text) in ACTIONS {
        let _ = write!(out, "<option value=\"{value}\">{text}</option>");
    }
    let _ = writeln!(
        out,
        "</select> <input type=\"hidden\" name=\"b\" value=\"#{id}\"><button type=\"submit\">Apply</button></p></form>"
    );
}

/// How a state is marked beside its words.
fn mark(status: &str) -> &'static str {
    match status {
        "UP" | "OPEN" => "good",
        "no check" => "plain",
        other if other.starts_with("UP") => "wary",
        other if other.starts_with("DRAIN") || other.starts_with("NOLB") || other == "FULL" => "wary",
        other if other.starts_with("MAINT") || other == "WAITING" || other == "PAUSED" || other == "STOP" => "idle",
        _ => "bad",
    }
}

fn write_row(out: &mut String, row: &Row, choose: bool, shown: Shown) {
    let service = row.value(Column::ServiceName).as_text().unwrap_or_default();
    let name = match row.object {
        Object::Frontend => "Frontend",
        Object::Backend => "Backend",
        Object::Server | Object::Listener => service,
    };
    let escaped = escape_html(name);
    let kind = row.object.name().to_ascii_lowercase();
    let state = mark(row.value(Column::Status).as_text().unwrap_or_default());
    let _ = write!(out, "<tr class=\"{kind} {state}\">");
    if shown.boxes {
        if choose && row.object == Object::Server {
            let _ = write!(out, "<td><input type=checkbox name=s value=\"{escaped}\" aria-label=\"Choose {escaped}\">");
        } else {
            out.push_str("<td>");
        }
    }
    let _ = write!(out, "<th scope=row>{escaped}");
    for column in [Column::Address, Column::Cookie] {
        if let Some(text) = row.value(column).as_text() {
            let _ = write!(out, " <small>{}</small>", escape_html(text));
        }
    }
    for group in shown.groups() {
        for (index, (column, _)) in group.columns.iter().enumerate() {
            write_cell(out, row, *column, index == 0);
        }
    }
    out.push('\n');
}

/// Opens a cell with these classes, if any. A page has thousands of cells, so nothing is written that HTML can do without
/// (end tags of cells and rows, quotes around single words).
fn open_cell(out: &mut String, first: bool, class: &str) {
    let _ = match (first, class) {
        (false, "") => write!(out, "<td>"),
        (false, class) => write!(out, "<td class=\"{class}\">"),
        (true, "") => write!(out, "<td class=first>"),
        (true, class) => write!(out, "<td class=\"{class} first\">"),
    };
}

fn write_cell(out: &mut String, row: &Row, column: Column, first: bool) {
    let value = row.value(column);
    let server = row.object == Object::Server;
    match (column, value) {
        (Column::Status, Value::Text(status)) => {
            let since = row.value(Column::LastChange).number().map(|seconds| format!(" {}", age(seconds)));
            open_cell(out, first, &format!("state {}", mark(status)));
            let _ = write!(out, "<span>{}</span>{}", escape_html(status), since.unwrap_or_default());
        }
        (Column::CheckStatus, Value::Text(status)) => {
            let text = |column| row.value(column).as_text().unwrap_or_default();
            let code = row.value(Column::CheckCode).number().map(|code| format!("/{code}")).unwrap_or_default();
            let took = row.value(Column::CheckDuration).number().map(|ms| format!(" in {ms} ms")).unwrap_or_default();
            let (meaning, seen) = (text(Column::CheckDescription), text(Column::LastCheck));
            open_cell(out, first, "text");
            let _ = write!(
                out,
                "<span title=\"{}: {}\">{}{code}{took}</span>",
                escape_html(meaning),
                escape_html(seen),
                escape_html(status)
            );
        }
        (Column::Active | Column::Backup, value) if server => {
            open_cell(out, first, "");
            out.push_str(if value.number() == Some(1) { "Y" } else { "–" });
        }
        (Column::RateLimit, value) if value.number() == Some(0) => open_cell(out, first, ""),
        (_, value) if value.number() == Some(0) => {
            open_cell(out, first, "zero");
            out.push('0');
        }
        (
            Column::BytesIn
            | Column::BytesOut
            | Column::Http1BytesIn
            | Column::Http1BytesOut
            | Column::Http1SplicedIn
            | Column::Http1SplicedOut,
            value,
        ) if !value.is_empty() => {
            open_cell(out, first, "");
            out.push_str(&bytes(value.number().unwrap_or(0)));
        }
        (Column::LastSession, Value::S32(seconds)) => {
            open_cell(out, first, "");
            out.push_str(&u64::try_from(*seconds).map_or_else(|_| "–".to_owned(), age));
        }
        (Column::Downtime, value) if !value.is_empty() => {
            open_cell(out, first, "");
            out.push_str(&age(value.number().unwrap_or(0)));
        }
        (Column::Throttle, value) if !value.is_empty() => {
            open_cell(out, first, "");
            let _ = write!(out, "{} %", value.number().unwrap_or(0));
        }
        // What has no room is short, with all digits behind it.
        (column, value) if value.number().is_some_and(|number| number >= most(column)) => {
            let number = value.number().unwrap_or(0);
            let _ = write!(out, "<td title={number}{}>{}", if first { " class=first" } else { "" }, bytes(number));
        }
        (_, value) => {
            open_cell(out, first, "");
            let mut text = String::new();
            value.write_plain(&mut text);
            out.push_str(&escape_html(&text));
        }
    }
}

/// `45s`, `3m 20s`, `5h 2m`, `4d 7h`.
pub(super) fn age(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// `512`, `1.5 k`, `20 M`: in thousands.
pub(super) fn bytes(count: u64) -> String {
    let mut unit = 1_u64;
    let mut name = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        if count / unit < 1_000 {
            break;
        }
        unit *= 1_000;
        name = next;
    }
    let whole = count / unit;
    if whole >= 100 || unit == 1 {
        return if name.is_empty() { whole.to_string() } else { format!("{whole} {name}") };
    }
    format!("{whole}.{} {name}", count % unit / (unit / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (200, "3m 20s"), (18_120, "5h 2m"), (371_000, "4d 7h")] {
            assert_eq!(age(seconds), expected);
        }
        for (count, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0 k"),
            (1_550, "1.5 k"),
            (99_999, "99.9 k"),
            (123_456, "123 k"),
            (20_000_000, "20.0 M"),
            (u64::MAX, "18.4 E"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn states_are_marked() {
        for (status, expected) in [
            ("UP", "good"),
            ("UP 1/3", "wary"),
            ("DOWN", "bad"),
            ("DOWN 1/2", "bad"),
            ("MAINT (via a/b)", "idle"),
            ("DRAIN", "wary"),
            ("no check", "plain"),
            ("OPEN", "good"),
        ] {
            assert_eq!(mark(status), expected, "{status}");
        }
    }
}
