//! `filter` and `compression`: what works on messages while they pass.

use std::sync::Arc;

use http::Coding;
use sample::Places;

use super::{
    common,
    ruleset::Ruleset,
    words::{is_condition, lenient_integer, section_problem, wrong},
};
use crate::{
    args,
    diagnostics::{Problem, Severity},
    line::Line,
    model::{Amount, Bandwidth, BandwidthLimit, Filter, Proxy, Sharing, TableIndex, Trace},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

const CHAPTER: &str = "9.2";

/// Filters that are known, for messages.
const NAMES: [&str; 6] = ["cache", "compression", "fcgi-app", "trace", "bwlim-in", "bwlim-out"];

/// Lines about filters.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "compression", "{ algo <algorithm>... | type <mime>... | offload }", "4.2")
        .sections(Sections::ALL)
        .doc(
            "Compresses responses: by gzip, deflate, raw-deflate, br, zstd or not at all (identity).",
            "compression algo gzip",
        )
        .line(compression),
    Keyword::new(
        Group::Proxy,
        "filter",
        "{ cache <name> | compression | fcgi-app <name> | trace [options...] | { bwlim-in | bwlim-out } <name> <options...> }",
        CHAPTER,
    )
    .sections(Sections::FRONTEND_BACKEND)
    .doc(
        "Puts a filter into the stream, behind those before it; bwlim-in and bwlim-out are HAProxy 2.7's.",
        "filter bwlim-out downloads default-limit 1m default-period 1s",
    )
    .line(filter),
    Keyword::new(Group::Proxy, "use-fcgi-app", "<name>", "4.2")
        .sections(Sections::BACKEND)
        .doc("The FastCGI application that the servers with 'proto fcgi' run.", "use-fcgi-app php-fpm")
        .strict()
        .line(use_fcgi_app),
    Keyword::new(Group::Global, "maxcomprate", "<number>", "3.2")
        .doc("Kilobytes a second that are compressed at most.", "maxcomprate 1000")
        .line(global),
    Keyword::new(Group::Global, "maxcompcpuusage", "<number>", "3.2")
        .doc("Use of the CPU above which nothing more is compressed, percent.", "maxcompcpuusage 80")
        .line(global),
    Keyword::new(Group::Global, "maxzlibmem", "<number>", "3.2")
        .doc("Memory of compression, megabytes.", "maxzlibmem 100")
        .line(global),
    Keyword::new(Group::Global, "tune.comp.maxlevel", "<1..9>", "3.2")
        .doc("Level of compression; all are the same fast one, as with HAProxy's libslz.", "tune.comp.maxlevel 1")
        .line(global),
];

/// `compression`.
fn compression(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut settings = scope.proxy().proxy.compression.take().unwrap_or_default();
    let outcome = match line.word(1) {
        "algo" => algorithms(line, &mut settings.codings),
        "type" => types(line, &mut settings.types),
        "offload" => {
            if scope.in_defaults() {
                scope.warn(line, wrong("'compression' : 'offload' ignored in 'defaults' section.", 1));
            }
            settings.offload = true;
            args::no_more_after(line, 0, 1)
        }
        word => Err(wrong("'compression' expects 'algo', 'type' or 'offload'", 1)
            .expected("algo, type or offload")
            .nearest(word, ["algo", "type", "offload"])),
    };
    scope.proxy().proxy.compression = Some(settings);
    outcome
}

fn algorithms(line: &Line, codings: &mut Vec<Coding>) -> Result<(), Problem> {
    if line.word(2).is_empty() {
        return Err(wrong("'compression' expects <algorithm>.", 2).expected("an algorithm, as in gzip"));
    }
    for (index, word) in line.texts_from(0).enumerate().skip(2) {
        let coding = Coding::named(word).ok_or_else(|| {
            let names = Coding::ALL.map(Coding::name);
            wrong(format!("'compression' : '{word}' is not a supported algorithm."), index)
                .expected(format!("one of {}", names.join(", ")))
                .nearest(word, names)
        })?;
        // What is named again stands where it was named last.
        codings.retain(|known| *known != coding);
        codings.push(coding);
    }
    Ok(())
}

fn types(line: &Line, types: &mut Vec<Box<[u8]>>) -> Result<(), Problem> {
    if line.word(2).is_empty() {
        return Err(wrong("'compression' expects <type>.", 2).expected("a content type, as in text/html"));
    }
    types.extend((2..line.len()).map(|index| Box::from(line.bytes(index))));
    Ok(())
}

/// `filter`.
fn filter(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (filter, end) = match line.word(1) {
        "" => {
            let kind = scope.kind_word();
            let name = scope.proxy().proxy.name.clone();
            return Err(
                wrong(format!("missing argument for 'filter' in {kind} '{name}'."), 1).expected("the name of a filter")
            );
        }
        "compression" => {
            let proxy = &scope.proxy().proxy;
            if proxy.filters.iter().any(|filter| matches!(filter, Filter::Compression)) {
                let message = format!("'filter' : '{}: Proxy supports only one compression filter", proxy.name);
                return Err(wrong(message, 1));
            }
            (Filter::Compression, 2)
        }
        "trace" => trace(scope, line)?,
        "bwlim-in" | "bwlim-out" => bandwidth(scope, line)?,
        "cache" => cache(scope, line)?,
        "fcgi-app" => fcgi_app(scope, line)?,
        "spoe" => return Err(later("spoe", "SPOE")),
        "opentracing" => return Err(later("opentracing", "OpenTracing")),
        word => {
            return Err(wrong(format!("'filter' : unknown keyword '{word}'."), 1)
                .expected(format!("one of {}", NAMES.join(", ")))
                .nearest(word, NAMES));
        }
    };
    if !line.word(end).is_empty() {
        return Err(wrong(format!("'filter {}' : unknown keyword '{}'.", line.word(1), line.word(end)), end));
    }
    scope.proxy().proxy.filters.push(filter);
    Ok(())
}

fn later(name: &str, what: &str) -> Problem {
    wrong(format!("'filter {name}' is not supported yet: it comes with {what}."), 1)
}

/// `filter cache`: where in the order of filters responses are stored. It stands in place of the one that a rule implies.
fn cache(scope: &mut Scope<'_>, line: &Line) -> Result<(Filter, usize), Problem> {
    let name: Arc<str> = line.word(2).into();
    if name.is_empty() {
        return Err(wrong("'filter' : cache : expects a <name> argument", 2).expected("the name of a 'cache' section"));
    }
    let proxy = &mut scope.proxy().proxy;
    let known =
        proxy.filters.iter().position(|filter| matches!(filter, Filter::Cache { name: other, .. } if *other == name));
    if let Some(place) = known {
        if !matches!(proxy.filters.get(place), Some(Filter::Cache { is_implied: true, .. })) {
            let message =
                format!("'filter' : {}: multiple explicit declarations of the cache filter '{name}'", proxy.name);
            return Err(wrong(message, 2));
        }
        proxy.filters.remove(place);
    }
    Ok((Filter::Cache { name, is_implied: false }, 3))
}

/// `use-fcgi-app`: the application of a backend, of which there is one.
fn use_fcgi_app(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name: Arc<str> = line.word(1).into();
    if name.is_empty() {
        return Err(wrong("'use-fcgi-app' expects <name> as argument", 1).expected("the name of an 'fcgi-app' section"));
    }
    args::ignore_more(scope, line, 1, 0);
    let filters = &mut scope.proxy().proxy.filters;
    let known = filters.iter().find_map(|filter| match filter {
        Filter::FcgiApp { name, .. } => Some(name),
        _ => None,
    });
    match known {
        Some(known) if *known == name => Ok(()),
        Some(_) => Err(wrong("'use-fcgi-app' : only one fcgi-app supported per backend", 1)),
        None => {
            filters.push(Filter::FcgiApp { name, is_implied: true });
            Ok(())
        }
    }
}

/// `filter fcgi-app`. It stands in place of the one that `use-fcgi-app` implies.
fn fcgi_app(scope: &mut Scope<'_>, line: &Line) -> Result<(Filter, usize), Problem> {
    let name: Arc<str> = line.word(2).into();
    if name.is_empty() {
        return Err(
            wrong("'filter' : fcgi-app : expects a <name> argument", 2).expected("the name of an 'fcgi-app' section")
        );
    }
    let filters = &mut scope.proxy().proxy.filters;
    filters.retain(|filter| !matches!(filter, Filter::FcgiApp { name: other, .. } if *other == name));
    Ok((Filter::FcgiApp { name, is_implied: false }, 3))
}

fn trace(scope: &mut Scope<'_>, line: &Line) -> Result<(Filter, usize), Problem> {
    let mut trace = Trace { name: "TRACE".to_owned(), random_forwarding: false, hexdump: false, verbose: true };
    let mut index = 2;
    loop {
        match line.word(index) {
            "name" => {
                index += 1;
                if line.word(index).is_empty() {
                    return Err(wrong("'filter' : ''trace' : 'name' option without value'", index)
                        .expected("a name for the lines"));
                }
                line.word(index).clone_into(&mut trace.name);
            }
            "quiet" => trace.verbose = false,
            "random-forwarding" => trace.random_forwarding = true,
            "hexdump" => trace.hexdump = true,
            // Nothing is parsed in parts here.
            "random-parsing" => {}
            _ => break,
        }
        index += 1;
    }
    trace.name = format!("{}/{}", trace.name, scope.proxy().proxy.name);
    Ok((Filter::Trace(Arc::new(trace)), index))
}

fn bandwidth(scope: &mut Scope<'_>, line: &Line) -> Result<(Filter, usize), Problem> {
    let keyword = line.word(1).to_owned();
    let name = line.word(2).to_owned();
    if name.is_empty() {
        return Err(wrong(format!("'{keyword}' : a name is expected as first argument"), 2)
            .expected("the name that 'set-bandwidth-limit' uses"));
    }
    let proxy = &scope.proxy().proxy;
    if bandwidths(proxy).any(|filter| filter.name == name) {
        let message = format!("bwlim filter '{name}' already declared for proxy '{}'", proxy.name);
        return Err(wrong(message, 2));
    }
    let (mut limit, mut period, mut min_size) = (None, None, 0);
    let (mut key, mut table_name) = (None, None);
    // Whether it is for each stream, or shared; the first word of either kind says.
    let mut shared = None;
    let mut index = 3;
    loop {
        let word = line.word(index);
        let is_shared = match word {
            "limit" | "key" | "table" => Some(true),
            "default-limit" | "default-period" => Some(false),
            "min-size" => None,
            _ => break,
        };
        if let (Some(before), Some(now)) = (shared, is_shared)
            && before != now
        {
            let message = format!("'{keyword}' : cannot mix per-stream and shared parameter");
            return Err(
                wrong(message, index).expected("either default-limit and default-period, or limit, key and table")
            );
        }
        shared = shared.or(is_shared);
        if line.word(index + 1).is_empty() {
            let what = match word {
                "key" => "sample expression",
                "table" => "table name",
                _ => "value",
            };
            let message = format!("'{keyword}' : the {what} is missing for '{word}' option");
            return Err(wrong(message, index + 1));
        }
        index += 1;
        match word {
            "default-limit" | "limit" => limit = Some(args::size(line, index)?),
            "default-period" => period = Some(args::time(scope, line, index, Unit::Millisecond)?),
            "min-size" => min_size = args::size(line, index)?,
            "table" => table_name = Some(Arc::from(line.word(index))),
            _ => {
                key = Some(common::expression(scope, line, &mut index, Places::NONE)?);
                continue;
            }
        }
        index += 1;
    }
    let shared = shared.unwrap_or(false);
    let missing = |what: &str| {
        let usage = if shared { "limit <size> key <expr>" } else { "default-limit <size> default-period <time>" };
        wrong(format!("'{keyword}' : <{what}> option is missing"), index.min(line.len())).expected(usage)
    };
    let sharing = if shared {
        let expr = key.ok_or_else(|| missing("key"))?;
        Sharing::Key { expr, table: TableIndex::UNKNOWN, table_name }
    } else {
        let period = period.filter(|period| !period.is_zero()).ok_or_else(|| missing("default-period"))?;
        Sharing::Stream(period)
    };
    let what = if shared { "limit" } else { "default-limit" };
    let limit = limit.filter(|limit| *limit > 0).ok_or_else(|| missing(what))?;
    let filter = Bandwidth { name, inbound: keyword == "bwlim-in", limit, sharing, min_size };
    Ok((Filter::Bandwidth(Arc::new(filter)), index))
}

fn bandwidths(proxy: &Proxy) -> impl Iterator<Item = &Arc<Bandwidth>> {
    proxy.filters.iter().filter_map(|filter| match filter {
        Filter::Bandwidth(filter) => Some(filter),
        _ => None,
    })
}

/// A `set-bandwidth-limit` until its filter is known.
#[derive(Clone, Debug)]
pub(super) struct WantedLimit {
    line: Line,
    /// Where the name of the filter stands.
    at: usize,
    /// What it says of its own, which only limits for each stream can take.
    own: Option<&'static str>,
    /// Where its rule set is.
    places: Places,
}

/// `set-bandwidth-limit` of all rule sets that have it.
pub(super) fn limit(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<BandwidthLimit, Problem> {
    let ruleset = Ruleset::of(line, *index);
    *index += 1;
    let name = line.word(*index).to_owned();
    if name.is_empty() || is_condition(&name) {
        return Err(wrong("missing bandwidth limitation filter name", *index)
            .expected("the name of a 'filter bwlim-in' or 'filter bwlim-out'"));
    }
    let at = *index;
    *index += 1;
    let places = ruleset.places(scope);
    let (mut limit, mut period) = (None, None);
    loop {
        let is_limit = match line.word(*index) {
            "limit" => true,
            "period" => false,
            _ => break,
        };
        *index += 1;
        let amount = if !line.word(*index).starts_with(|first: char| first.is_ascii_digit()) {
            Amount::Expr(common::expression(scope, line, index, places)?)
        } else if is_limit {
            *index += 1;
            Amount::Fixed(args::size(line, *index - 1)?)
        } else {
            *index += 1;
            let time = args::time(scope, line, *index - 1, Unit::Millisecond)?;
            Amount::Fixed(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        *(if is_limit { &mut limit } else { &mut period }) = Some(amount);
    }
    let own = if limit.is_some() { Some("limit") } else { period.as_ref().map(|_| "period") };
    scope.proxy().rules.bandwidth_limits.push(WantedLimit { line: line.clone(), at, own, places });
    Ok(BandwidthLimit { name, limit, period })
}

/// What `compression` implies, and whether the names of limits are those of filters.
pub(super) fn finish(scope: &mut Scope<'_>) {
    find_tables(scope);
    check_limits(scope);
    let draft = scope.proxy();
    if draft.proxy.compression.is_none() {
        return;
    }
    let has_filter = draft.proxy.filters.iter().any(|filter| matches!(filter, Filter::Compression));
    if has_filter {
        return;
    }
    // What is stored is what the server has sent, so compression comes behind a cache.
    if draft.proxy.filters.iter().all(|filter| matches!(filter, Filter::Cache { .. } | Filter::FcgiApp { .. })) {
        draft.proxy.filters.push(Filter::Compression);
        return;
    }
    let name = draft.proxy.name.clone();
    let line = draft.line.clone();
    let kind = scope.kind_word();
    if let Some(line) = line {
        let message =
            format!("config: {kind} '{name}': require an explicit filter declaration to use HTTP compression");
        scope.alert(&line, section_problem(message).expected("'filter compression' among the filters"));
    }
}

/// Finds the tables of shared limits.
fn find_tables(scope: &mut Scope<'_>) {
    let mut filters = std::mem::take(&mut scope.proxy().proxy.filters);
    let own = Arc::clone(&scope.proxy().proxy.name);
    let mut problems = Vec::new();
    for filter in &mut filters {
        let Filter::Bandwidth(filter) = filter else { continue };
        let rate = filter.rate();
        let Bandwidth { name, sharing, .. } = Arc::make_mut(filter);
        let Sharing::Key { expr, table, table_name } = sharing else { continue };
        let shown = table_name.as_deref().unwrap_or(&own);
        let Some(found) = super::stick::resolve(scope, table_name.as_deref()) else {
            problems.push(format!("unable to find table '{shown}' referenced by bwlim filter '{name}'"));
            continue;
        };
        let stores = scope.stick_table(found).is_some_and(|table| table.definition.layout.stores(rate));
        if !stores {
            problems.push(format!(
                "stick-table '{shown}' uses a data type incompatible with bwlim filter '{name}'. It must be '{}'",
                rate.name()
            ));
        } else if !super::stick::fits(scope, expr, found) {
            problems.push(format!("stick-table '{shown}' uses a key type incompatible with bwlim filter '{name}'"));
        }
        *table = found;
    }
    scope.proxy().proxy.filters = filters;
    for problem in problems {
        scope.whole(Severity::Alert, format!("Proxy {own} : {problem}"));
    }
}

/// Whether what `set-bandwidth-limit` says suits a filter that is there.
fn check_limits(scope: &mut Scope<'_>) {
    for wanted in std::mem::take(&mut scope.proxy().rules.bandwidth_limits) {
        let line = &wanted.line;
        let proxy = &scope.proxy().proxy;
        let name = line.word(wanted.at);
        let kind = proxy.kind.word();
        let problem = match bandwidths(proxy).find(|filter| filter.name == name) {
            None => {
                let message = format!(
                    "unable to find bwlim filter '{name}' referenced by set-bandwidth-limit rule in {kind} '{}'",
                    proxy.name
                );
                wrong(message, wanted.at).nearest(name, bandwidths(proxy).map(|filter| filter.name.as_str()))
            }
            Some(filter) => {
                let Sharing::Key { expr, .. } = &filter.sharing else { continue };
                if let Some(what) = wanted.own {
                    let message = format!("set-bandwidth-limit rule cannot define a {what} for a shared bwlim filter");
                    wrong(message, wanted.at)
                } else if !wanted.places.intersects(expr.places()) {
                    let message = format!(
                        "bwlim filter '{name}' uses a key extracting information from '{}', none of which is \
                         available here",
                        expr.sources().names()
                    );
                    wrong(message, wanted.at)
                } else {
                    continue;
                }
            }
        };
        scope.alert(&wanted.line, problem);
    }
}

/// Limits of compression for the whole process.
fn global(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    let what = match keyword {
        "maxcomprate" => "an integer argument in kb/s.",
        "maxcompcpuusage" => "an integer argument between 0 and 100.",
        "maxzlibmem" => "an integer argument.",
        _ => "a numeric value between 1 and 9",
    };
    args::required(line, 1, what)?;
    let value = lenient_integer(scope, line, 1);
    let refuse = || Err(wrong(format!("'{keyword}' expects {what}"), 1).expected(what.trim_end_matches('.')));
    let tune = &mut scope.state.global.tune;
    match (keyword, u32::try_from(value)) {
        ("maxcomprate", Ok(kilobytes)) => tune.compression_rate_max = u64::from(kilobytes) * 1_024,
        ("maxcompcpuusage", Ok(percent @ 0..=100)) => tune.compression_cpu_max = percent,
        ("maxzlibmem", Ok(megabytes)) => tune.compression_memory_max = u64::from(megabytes) << 20,
        ("tune.comp.maxlevel", Ok(1..=9)) => {}
        _ => return refuse(),
    }
    Ok(())
}
