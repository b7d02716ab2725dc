//! The answer to a request for the statistics page.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::live::changes::Change;

use super::{
    assets,
    html::{self, Head},
    live,
    options::{Form, PageOptions},
    post::{self, Outcome},
};
use crate::stats::{
    control::Control,
    history::History,
    render,
    row::Selection,
    text::{decode_base64, equal_in_constant_time, escape_html},
    view::{Detail, Snapshot},
};

/// What the page is, from the `stats` lines.
#[derive(Clone, Debug, Default)]
pub struct PageSettings<'a> {
    /// `stats uri`.
    pub uri: &'a str,
    /// `stats auth`: users and their passwords; nobody is asked when empty.
    pub users: Vec<(&'a str, &'a str)>,
    /// `stats realm`.
    pub realm: Option<&'a str>,
    /// `stats refresh`.
    pub refresh: Option<Duration>,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats show-node`: the name to show, empty for the node's own.
    pub node: Option<&'a str>,
    /// `stats show-desc`: the text to show, empty for the node's own.
    pub description: Option<&'a str>,
    /// `stats show-legends`.
    pub legends: bool,
    /// `stats show-modules`.
    pub modules: bool,
    /// `stats scope`: names of proxies; empty is all, `.` is the page's own.
    pub scope: Vec<&'a str>,
    /// Name of the proxy that the page belongs to.
    pub proxy: &'a str,
    /// Whether a `stats admin` condition holds for the request.
    pub may_admin: bool,
}

/// What the page has to know of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRequest<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Target as it stands in the request line.
    pub target: &'a [u8],
    /// Value of `Authorization`.
    pub authorization: Option<&'a [u8]>,
    /// Value of `Sec-Fetch-Site`.
    pub fetch_site: Option<&'a [u8]>,
    /// The body of a POST; `None` if it did not fit.
    pub body: Option<&'a [u8]>,
}

/// An answer. `Content-Length` and what belongs to the connection are up to the caller, who also leaves the body out after
/// a HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReply {
    /// Status.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl PageReply {
    fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![
            ("cache-control", "no-cache".to_owned()),
            ("content-type", content_type.to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ];
        Self { status, headers, body: body.into() }
    }
}

/// The target without scheme and authority.
fn path_of(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let after_scheme = target.windows(3).position(|three| three == b"://").and_then(|at| target.get(at + 3..));
    let Some(rest) = after_scheme else { return target };
    rest.iter().position(|byte| *byte == b'/').and_then(|at| rest.get(at..)).unwrap_or(b"/")
}

/// Whether a request is for the page: its target begins with the configured URI.
#[must_use]
pub fn matches(uri: &str, target: &[u8]) -> bool {
    let target = if uri.starts_with('/') { path_of(target) } else { target };
    target.starts_with(uri.as_bytes())
}

/// The options in a target that [`matches()`].
fn options_of(uri: &str, target: &[u8]) -> PageOptions {
    let target = if uri.starts_with('/') { path_of(target) } else { target };
    let rest = target.get(uri.len()..).unwrap_or_default();
    PageOptions::parse(&String::from_utf8_lossy(rest))
}

/// Whether a request that [`matches()`] is one that the page makes for its own sake, so that no curve should show it.
#[must_use]
pub fn is_own_request(uri: &str, target: &[u8]) -> bool {
    options_of(uri, target).is_own()
}

fn may_see(settings: &PageSettings<'_>, request: &PageRequest<'_>) -> bool {
    if settings.users.is_empty() {
        return true;
    }
    let given = request.authorization.and_then(|value| {
        let (scheme, rest) = value.split_at_checked(6)?;
        scheme.eq_ignore_ascii_case(b"basic ").then(|| decode_base64(rest.trim_ascii())).flatten()
    });
    let Some(given) = given else { return false };
    // NOTE: every user is compared with, so that the time does not tell which of them exist.
    settings.users.iter().fold(false, |found, (user, password)| {
        found | equal_in_constant_time(format!("{user}:{password}").as_bytes(), &given)
    })
}

fn unauthorized(settings: &PageSettings<'_>) -> PageReply {
    const BODY: &str = "<!doctype html><title>401 Unauthorized</title><h1>401 Unauthorized</h1>\n\
                        <p>You need a valid user and password to see this.</p>\n";
    let realm: String =
        settings.realm.unwrap_or("Statistics").chars().map(|c| if c == '"' || c == '\\' { '\'' } else { c }).collect();
    let mut reply = PageReply::new(401, "text/html", BODY);
    reply.headers.push(("www-authenticate", format!("Basic realm=\"{realm}\"")));
    reply
}

/// Answers a request that [`matches()`].
#[must_use]
pub fn respond(
    control: &dyn Control,
    history: &Mutex<History>,
    settings: &PageSettings<'_>,
    request: &PageRequest<'_>,
) -> PageReply {
    if !may_see(settings, request) {
        return unauthorized(settings);
    }
    let options = options_of(settings.uri, request.target);
    match request.method {
        b"GET" | b"HEAD" => show(control, history, settings, &options),
        b"POST" => redirect(settings, &options, posted(control, settings, request)),
        _ => redirect(settings, &options, Outcome::BadMethod),
    }
}

fn posted(control: &dyn Control, settings: &PageSettings<'_>, request: &PageRequest<'_>) -> Outcome {
    // A page from elsewhere must not act with the credentials that the browser adds by itself. Programs other than
    // browsers do not send the field.
    let from_elsewhere = request.fetch_site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    if !settings.may_admin || from_elsewhere {
        return Outcome::Denied;
    }
    request.body.map_or(Outcome::TooLong, |body| post::act(control, body))
}

fn redirect(settings: &PageSettings<'_>, options: &PageOptions, outcome: Outcome) -> PageReply {
    let mut reply = PageReply::new(303, "text/plain", "");
    let location = format!("{};st={}{}", settings.uri, outcome.code(), options.carried());
    reply.headers.push(("location", location));
    reply
}

fn show(
    control: &dyn Control,
    history: &Mutex<History>,
    settings: &PageSettings<'_>,
    options: &PageOptions,
) -> PageReply {
    if let Some(name) = &options.asset {
        return asset(name);
    }
    if options.form == Form::JsonSchema {
        return PageReply::new(200, "application/json", render::SCHEMA);
    }
    let in_scope = |name: &str| {
        let allowed = |scope: &&str| *scope == name || (*scope == "." && settings.proxy == name);
        (settings.scope.is_empty() || settings.scope.iter().any(allowed)) && options.in_scope(name)
    };
    let snapshot = control.snapshot(&|proxy| in_scope(&proxy.name), Detail::default());
    let selection = Selection {
        legends: settings.legends,
        hide_maintenance: options.hide_maintenance,
        hide_down: options.hide_down,
        only: None,
    };
    let mut reply = match options.form {
        Form::Csv => PageReply::new(200, "text/plain", render::csv(&snapshot.proxies, selection)),
        Form::Typed => PageReply::new(200, "text/plain", render::typed(&snapshot.proxies, selection, false)),
        Form::Json => PageReply::new(200, "application/json", render::json(&snapshot.proxies, selection)),
        Form::Live => {
            let node = node_name(settings, &snapshot).unwrap_or_default();
            let history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = control.changes_after(options.changes);
            let about_shown = |change: &Change| change.proxy.as_ref().is_none_or(|proxy| in_scope(proxy));
            let changes: Vec<_> = changes.into_iter().filter(about_shown).collect();
            let body = live::live(&live::Sight {
                snapshot: &snapshot,
                history: &history,
                changes: &changes,
                options,
                selection,
                node,
            });
            return PageReply::new(200, "application/json", body);
        }
        Form::Rows => {
            let rows = html::tables(&snapshot, settings, options, selection);
            return PageReply::new(200, "text/html; charset=utf-8", rows);
        }
        Form::Html | Form::JsonSchema => return page(settings, options, &snapshot, selection),
    };
    // The page itself refreshes in place, or by a `meta` where there are no scripts.
    if let Some(refresh) = settings.refresh.filter(|_| !options.no_refresh) {
        reply.headers.push(("refresh", refresh.as_secs().max(1).to_string()));
    }
    reply
}

fn page(settings: &PageSettings<'_>, options: &PageOptions, snapshot: &Snapshot, selection: Selection) -> PageReply {
    let head = Head { node: node_name(settings, snapshot), description: description(settings, snapshot) };
    let body = html::page(snapshot, settings, options, selection, head);
    let mut reply = PageReply::new(200, "text/html; charset=utf-8", body);
    reply.headers.push(("content-security-policy", assets::POLICY.to_owned()));
    reply.headers.push(("referrer-policy", "same-origin".to_owned()));
    reply
}

fn node_name<'a>(settings: &PageSettings<'a>, snapshot: &'a Snapshot) -> Option<&'a str> {
    settings.node.map(|name| if name.is_empty() { snapshot.process.node.as_str() } else { name })
}

fn description<'a>(settings: &PageSettings<'a>, snapshot: &'a Snapshot) -> Option<&'a str> {
    let own = snapshot.process.description.as_deref();
    settings.description.and_then(|text| if text.is_empty() { own } else { Some(text) })
}

fn asset(name: &str) -> PageReply {
    match assets::find(name) {
        Some(asset) => {
            let mut reply = PageReply::new(200, asset.content_type, asset.body);
            // Links to it carry its version, so it never changes under its name.
            reply.headers.retain(|(name, _)| *name != "cache-control");
            reply.headers.push(("cache-control", "private, max-age=31536000, immutable".to_owned()));
            reply
        }
        None => PageReply::new(404, "text/plain", format!("No file '{}'.\n", escape_html(name))),
    }
}
