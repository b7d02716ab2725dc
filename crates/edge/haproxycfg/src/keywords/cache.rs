//! `cache` sections.

use crate::{
    args,
    diagnostics::{Problem, Severity},
    line::Line,
    model::{CacheSection, Filter},
    scope::{Scope, Section},
    table::Group,
};

/// Letters that a name may have.
const NAME_MAX: usize = 32;
/// `max-age` unless it is given.
const AGE_DEFAULT: i64 = 60;
/// `max-secondary-entries` unless it is given.
const SECONDARY_DEFAULT: usize = 10;
/// Megabytes at most.
const MEGABYTES_MAX: u64 = 4095;

/// `cache`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let given = args::required(line, 1, "a <name> argument")?;
    args::no_more(line, 1)?;
    let name: String = given.chars().take(NAME_MAX).collect();
    if name != given {
        scope.warn(line, Problem::new(format!("cache name is limited to 32 characters, truncate to '{name}'.")).at(1));
    }
    if scope.state.caches.iter().any(|cache| *cache.name == *name) {
        return Err(Problem::new(format!("Duplicate cache name '{name}'.")).at(1));
    }
    scope.state.caches.push(CacheSection {
        name: name.into(),
        bytes: 0,
        object_bytes_max: 0,
        age_max: AGE_DEFAULT,
        varies: false,
        secondary_max: SECONDARY_DEFAULT,
    });
    scope.section = Section::Other(Group::Cache);
    Ok(())
}

/// `total-max-size`.
pub fn total_max_size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let megabytes = number(line)?;
    if megabytes > MEGABYTES_MAX {
        let message = format!("\"total-max-size\" ({}) must not be greater than {MEGABYTES_MAX}", line.word(1));
        return Err(Problem::new(message).at(1).expected(format!("megabytes, {MEGABYTES_MAX} at most")));
    }
    set(scope, |cache| cache.bytes = megabytes << 20);
    Ok(())
}

/// `max-object-size`.
pub fn max_object_size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let bytes = number(line)?;
    set(scope, |cache| cache.object_bytes_max = bytes);
    Ok(())
}

/// `max-age`.
pub fn max_age(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    if line.word(1).is_empty() {
        scope.warn(line, Problem::new("'max-age' expects an age parameter in seconds.").at(0).expected("seconds"));
    }
    let seconds = if line.word(1).is_empty() { 0 } else { args::lenient(scope, line, 1, 0..=i64::from(i32::MAX))? };
    set(scope, |cache| cache.age_max = seconds);
    Ok(())
}

/// `process-vary`.
pub fn process_vary(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    match line.word(1) {
        "on" => set(scope, |cache| cache.varies = true),
        "off" => set(scope, |cache| cache.varies = false),
        word => {
            let message = "'process-vary' expects \"on\" or \"off\" (enable or disable vary processing).";
            scope.warn(line, Problem::new(message).at(1).expected("on or off").nearest(word, ["on", "off"]));
        }
    }
    Ok(())
}

/// `max-secondary-entries`.
pub fn max_secondary_entries(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let entries = usize::try_from(number(line)?).unwrap_or(usize::MAX);
    if entries == 0 {
        return Err(wrong_value(line));
    }
    set(scope, |cache| cache.secondary_max = entries);
    Ok(())
}

fn number(line: &Line) -> Result<u64, Problem> {
    line.word(1).parse().map_err(|_| wrong_value(line))
}

fn wrong_value(line: &Line) -> Problem {
    Problem::new(format!("{} wrong value '{}'", line.word(0), line.word(1))).at(1).expected("a positive number")
}

fn set(scope: &mut Scope<'_>, change: impl FnOnce(&mut CacheSection)) {
    if let Some(cache) = scope.state.caches.last_mut() {
        change(cache);
    }
}

/// What can be said of caches when all sections have been read.
pub fn finish(scope: &mut Scope<'_>) {
    let mut problems = Vec::new();
    for cache in &mut scope.state.caches {
        if cache.bytes == 0 {
            problems.push(format!("Size not specified for cache '{}'", cache.name));
        } else if cache.object_bytes_max == 0 {
            cache.object_bytes_max = cache.bytes >> 8;
        } else if cache.object_bytes_max > cache.bytes / 2 {
            let most = cache.bytes / 2;
            problems.push(format!("\"max-object-size\" is limited to an half of \"total-max-size\" => {most}"));
        }
    }
    for draft in &scope.state.proxies {
        let proxy = &draft.proxy;
        let own = format!("config: {} '{}'", proxy.kind.word(), proxy.name);
        for (place, filter) in proxy.filters.iter().enumerate() {
            let Filter::Cache { name, is_implied } = filter else { continue };
            if !scope.state.caches.iter().any(|cache| cache.name == *name) {
                problems.push(format!("{own}: unable to find the cache '{name}' referenced by the filter 'cache'."));
                continue;
            }
            let before = proxy.filters.get(..place).unwrap_or_default();
            if before.iter().any(|filter| matches!(filter, Filter::Compression)) {
                problems.push(format!("{own}: unable to enable the compression filter before the cache '{name}'."));
            }
            let is_other = |filter: &Filter| {
                !matches!(filter, Filter::Compression | Filter::Cache { .. } | Filter::FcgiApp { .. })
            };
            if *is_implied && proxy.filters.iter().any(is_other) {
                problems.push(format!("{own}: require an explicit filter declaration to use the cache '{name}'."));
            }
        }
    }
    for problem in problems {
        scope.whole(Severity::Alert, problem);
    }
}
