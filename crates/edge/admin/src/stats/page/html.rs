//! The page without its scripts: the frame of the live view, and the classic tables, which are complete by themselves.

use std::fmt::Write as _;

use super::{
    assets,
    options::PageOptions,
    respond::PageSettings,
    table::{self, Shown},
};
use crate::stats::{
    info::uptime,
    row::{Selection, proxy_rows},
    text::{escape_html, link_html},
    view::{ProxyView, Snapshot},
};

/// Servers up to which the page has the tables in it. With more, a browser without scripts is sent on to them, and one with
/// scripts does not load megabytes for nothing.
const SERVERS_INLINE_MAX: usize = 250;

/// What stands at the top of the page beside the program's name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head<'a> {
    /// Name of the node, if it is to be shown.
    pub node: Option<&'a str>,
    /// Description, if it is to be shown.
    pub description: Option<&'a str>,
}

/// The whole page.
pub(super) fn page(
    snapshot: &Snapshot,
    settings: &PageSettings<'_>,
    options: &PageOptions,
    selection: Selection,
    head: Head<'_>,
) -> String {
    let mut out = String::with_capacity(32_768);
    let uri = escape_html(settings.uri);
    let carried = options.carried();
    let version = assets::version();
    let name = escape_html(head.node.unwrap_or(&snapshot.process.product.name));
    let refresh = settings.refresh.filter(|_| !options.no_refresh).map(|refresh| refresh.as_secs().max(1));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\" data-view=\"live\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{name} · statistics</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <link rel=\"icon\" href=\"{icon}\">\n\
         <link rel=\"stylesheet\" href=\"{uri};asset=look.css;v={version}\">\n\
         <link rel=\"stylesheet\" href=\"{uri};asset=page.css;v={version}\">\n<noscript>",
        icon = assets::ICON,
    );
    let _ = write!(out, "<link rel=\"stylesheet\" href=\"{uri};asset=noscript.css;v={version}\">");
    let servers: usize = snapshot.proxies.iter().map(|proxy| proxy.servers.len()).sum();
    let has_tables = options.tables || servers <= SERVERS_INLINE_MAX;
    if !has_tables {
        let carried = escape_html(&carried);
        let _ = write!(out, "<meta http-equiv=\"refresh\" content=\"0; url={uri};tables{carried}\">");
    } else if let Some(seconds) = refresh {
        let _ = write!(out, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
    }
    let _ = write!(
        out,
        "</noscript>\n<script src=\"{uri};asset=look.js;v={version}\" defer></script>\n\
         <script src=\"{uri};asset=page.js;v={version}\" defer></script>\n</head>\n\
         <body data-uri=\"{uri}\" data-options=\"{carried}\" data-admin=\"{admin}\" data-refresh=\"{refresh}\">\n\
         <a class=\"skip\" href=\"#main\">Skip to the statistics</a>\n",
        carried = escape_html(&carried),
        admin = u8::from(settings.may_admin),
        refresh = refresh.unwrap_or(0),
    );
    header(&mut out, snapshot, settings, head);
    toolbar(&mut out, settings, options);
    out.push_str("<main id=\"main\" tabindex=\"-1\">\n");
    notice(&mut out, options);
    // With scripts the tables come when they are wanted: a browser makes no elements of what is in `noscript`.
    out.push_str(
        "<section id=\"live\" aria-label=\"Live view\"></section>\n\
         <section id=\"table\" aria-label=\"Tables\"><noscript><div class=\"sheet\" tabindex=\"0\">\n",
    );
    if has_tables {
        out.push_str(&tables(snapshot, settings, options, selection));
    }
    out.push_str("</div></noscript></section>\n</main>\n");
    footer(&mut out, snapshot, settings);
    out.push_str("</body>\n</html>\n");
    out
}

fn header(out: &mut String, snapshot: &Snapshot, settings: &PageSettings<'_>, head: Head<'_>) {
    let process = &snapshot.process;
    out.push_str(
        "<header class=\"top\">\n<svg class=\"logo\" viewBox=\"0 0 32 32\" width=\"32\" height=\"32\" aria-hidden=\"true\">\
         <rect width=\"32\" height=\"32\" rx=\"8\"/><path class=\"wave\" d=\"M6 20q5-6 10 0t10 0\"/>\
         <path class=\"bars\" d=\"M10 13V7m6 6V7m6 6V7\"/></svg>\n<div class=\"title\"><h1>",
    );
    out.push_str(&escape_html(&process.product.name));
    if let Some(node) = head.node {
        let _ = write!(out, " <span class=\"node\">on {}</span>", escape_html(node));
    }
    out.push_str("</h1>");
    if let Some(description) = head.description {
        let _ = write!(out, "<p>{}</p>", link_html(description));
    }
    out.push_str("</div>\n<dl class=\"facts\">");
    let mut fact = |name: &str, id: &str, value: &str| {
        let _ = write!(out, "<div><dt>{name}</dt><dd id=\"{id}\">{}</dd></div>", escape_html(value));
    };
    fact("Up for", "fact-uptime", &uptime(process.uptime.as_secs()));
    fact("Workers", "fact-workers", &process.workers.to_string());
    fact("Process", "fact-pid", &process.pid.to_string());
    if !settings.hide_version {
        fact("Version", "fact-version", &process.product.version);
    }
    out.push_str("</dl>\n</header>\n");
}

fn toolbar(out: &mut String, settings: &PageSettings<'_>, options: &PageOptions) {
    let uri = escape_html(settings.uri);
    let scope = options.scope.as_deref().unwrap_or_default();
    let toggled = |set: bool, change: fn(&mut PageOptions, bool)| {
        let mut other = options.clone();
        change(&mut other, !set);
        format!("{uri}{}", escape_html(&other.carried()))
    };
    let _ = write!(
        out,
        "<nav class=\"toolbar\" aria-label=\"View\">\n\
         <div class=\"switch needs-script\" role=\"group\" aria-label=\"View\">\
         <button type=\"button\" id=\"view-live\" aria-pressed=\"true\">Live</button>\
         <button type=\"button\" id=\"view-table\" aria-pressed=\"false\">Table</button></div>\n\
         <form class=\"search\" method=\"get\" action=\"{uri}\" role=\"search\">\
         <label for=\"filter\" class=\"hidden\">Show only names that contain</label>\
         <input id=\"filter\" name=\"scope\" type=\"search\" maxlength=\"20\" placeholder=\"Name, address or state\" \
         value=\"{}\" autocomplete=\"off\"></form>\n\
         <button type=\"button\" id=\"problems\" class=\"needs-script\" aria-pressed=\"false\" \
         title=\"Only what has problems (x)\">Problems</button>\n\
         <div class=\"switch needs-script\" id=\"windows\" role=\"group\" aria-label=\"How far back charts look\">\
         <button type=\"button\" value=\"60\" aria-pressed=\"true\">1 min</button>\
         <button type=\"button\" value=\"600\" aria-pressed=\"false\">10 min</button>\
         <button type=\"button\" value=\"3600\" aria-pressed=\"false\">1 h</button></div>\n<div class=\"links\">",
        escape_html(scope)
    );
    for (set, words, change) in [
        (
            options.hide_down,
            ["Only up", "Show those that are down"],
            (|o, v| o.hide_down = v) as fn(&mut PageOptions, bool),
        ),
        (options.hide_maintenance, ["No maintenance", "Show those in maintenance"], |o, v| o.hide_maintenance = v),
    ] {
        let [off, on] = words;
        // Scripts have the filter for this; but what a link has left out must be told.
        let class = if set { "" } else { " class=\"needs-no-script\"" };
        let _ = write!(out, "<a{class} href=\"{}\">{}</a>", toggled(set, change), if set { on } else { off });
    }
    if settings.refresh.is_some() {
        let word = if options.no_refresh { "Refresh again" } else { "Stop refresh" };
        let link = toggled(options.no_refresh, |o, v| o.no_refresh = v);
        let _ = write!(out, "<a class=\"needs-no-script\" href=\"{link}\">{word}</a>");
    }
    let _ = write!(
        out,
        "<a href=\"{uri};csv;norefresh\">CSV</a><a href=\"{uri};json;norefresh\">JSON</a></div>\n\
         <div class=\"tools needs-script\">\
         <button type=\"button\" id=\"pause\" aria-pressed=\"false\" title=\"Pause (p)\">Pause</button>\
         <button type=\"button\" id=\"theme\" title=\"Light or dark (d)\">Dark</button>\
         <button type=\"button\" id=\"help\" title=\"Keys (?)\">Keys</button></div>\n</nav>\n"
    );
}

fn notice(out: &mut String, options: &PageOptions) {
    if let Some(outcome) = options.outcome {
        let kind = if outcome.good() { "good" } else { "bad" };
        let _ = writeln!(out, "<p class=\"notice {kind}\" role=\"status\" id=\"outcome\">{}</p>", outcome.text());
    }
    out.push_str("<p class=\"notice bad\" role=\"status\" id=\"connection\" hidden></p>\n");
}

fn footer(out: &mut String, snapshot: &Snapshot, settings: &PageSettings<'_>) {
    let process = &snapshot.process;
    let version = if settings.hide_version { "" } else { &*process.product.version };
    let _ = writeln!(
        out,
        "<footer><span>{} {version}</span><span class=\"needs-script\">Press <kbd>?</kbd> for keys</span>\
         <a href=\"{}\">Reload</a></footer>",
        escape_html(&process.product.name),
        escape_html(settings.uri),
    );
}

/// The classic tables alone.
pub(super) fn tables(
    snapshot: &Snapshot,
    settings: &PageSettings<'_>,
    options: &PageOptions,
    selection: Selection,
) -> String {
    let mut out = String::with_capacity(snapshot.proxies.len() * 8_192);
    let wanted = |proxy: &&ProxyView| options.open.is_empty() || options.open.contains(&proxy.id);
    for proxy in snapshot.proxies.iter().filter(wanted) {
        let rows = proxy_rows(proxy, selection);
        let form = settings.may_admin && proxy.backend.is_some() && !proxy.servers.is_empty();
        let action = format!("{}{}", settings.uri, options.carried());
        let shown = Shown { legends: selection.legends, modules: settings.modules, boxes: settings.may_admin };
        table::write(&mut out, proxy, &rows, form.then_some(action.as_str()), shown);
    }
    if snapshot.proxies.is_empty() {
        out.push_str("<p class=\"empty\">There is nothing to show: no proxy is within the scope.</p>\n");
    }
    out
}
