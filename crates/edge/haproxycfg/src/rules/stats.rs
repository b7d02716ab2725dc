//! `stats`: the statistics page of a proxy.

use super::{
    http,
    switching::required_condition,
    words::{section_problem, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{HttpAction, Password, Stats},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

/// Where the page is unless `stats uri` says otherwise.
const DEFAULT_URI: &str = "/haproxy?stats";

/// Keywords about the statistics page.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "stats", "<keyword> [arguments...]", "4.2")
        .sections(Sections::ALL)
        .doc("Sets up the statistics page: its address, its users and its contents.", "stats enable")
        .line(stats),
    Keyword::new(Group::Stats, "admin", "{ if | unless } <condition>", "4.2")
        .sections(Sections::FRONTEND_BACKEND)
        .doc("Lets users change states of servers from the page if a condition holds.", "stats admin if LOCALHOST")
        .line(admin),
    Keyword::new(Group::Stats, "auth", "<user>:<password>", "4.2")
        .sections(Sections::ALL)
        .doc("An account that may see the page; may be repeated.", "stats auth admin:secret")
        .line(auth),
    Keyword::new(Group::Stats, "enable", "", "4.2")
        .sections(Sections::ALL)
        .doc("Turns the page on, with defaults for all else.", "stats enable")
        .line(|scope, line| flag(scope, line, |_| {})),
    Keyword::new(Group::Stats, "hide-version", "", "4.2")
        .sections(Sections::ALL)
        .doc("Does not show the version on the page.", "stats hide-version")
        .line(|scope, line| flag(scope, line, |stats| stats.hide_version = true)),
    Keyword::new(
        Group::Stats,
        "http-request",
        "{ allow | deny | auth [realm <realm>] } [ { if | unless } <condition> ]",
        "4.2",
    )
    .sections(Sections::FRONTEND_BACKEND)
    .doc("Rules about who may see the page; they run in order.", "stats http-request auth unless { src 10.0.0.0/8 }")
    .line(http_request),
    Keyword::new(Group::Stats, "realm", "<realm>", "4.2")
        .sections(Sections::ALL)
        .doc("The text that browsers show when they ask for an account.", "stats realm Statistics")
        .line(realm),
    Keyword::new(Group::Stats, "refresh", "<delay>", "4.2")
        .sections(Sections::ALL)
        .doc("How often the page reloads itself.", "stats refresh 10s")
        .line(refresh),
    Keyword::new(Group::Stats, "scope", "{ <name> | \".\" }", "4.2")
        .sections(Sections::ALL)
        .doc("Shows only this proxy ('.' is the one with the page); may be repeated.", "stats scope www")
        .line(shown),
    Keyword::new(Group::Stats, "show-desc", "[ <desc> ]", "4.2")
        .sections(Sections::ALL)
        .doc("Shows a description on the page, by default that of 'global'.", "stats show-desc Main site")
        .line(show_desc),
    Keyword::new(Group::Stats, "show-legends", "", "4.2")
        .sections(Sections::ALL)
        .doc("Shows addresses, cookies and other details that not everyone should see.", "stats show-legends")
        .line(|scope, line| flag(scope, line, |stats| stats.show_legends = true)),
    Keyword::new(Group::Stats, "show-modules", "", "4.2")
        .sections(Sections::ALL)
        .doc("Shows the columns of HTTP/1 in the page's table.", "stats show-modules")
        .line(|scope, line| flag(scope, line, |stats| stats.show_modules = true)),
    Keyword::new(Group::Stats, "show-node", "[ <name> ]", "4.2")
        .sections(Sections::ALL)
        .doc("Shows the node's name on the page, by default that of 'global'.", "stats show-node edge-1")
        .line(show_node),
    Keyword::new(Group::Stats, "uri", "<prefix>", "4.2")
        .sections(Sections::ALL)
        .doc("The path of the page.", "stats uri /admin?stats")
        .line(uri),
];

/// The settings of the page. The first of a section forgets what it inherited.
fn page<'s>(scope: &'s mut Scope<'_>) -> &'s mut Stats {
    let draft = scope.proxy();
    if std::mem::take(&mut draft.rules.stats_inherited) {
        draft.proxy.stats = None;
    }
    draft.proxy.stats.get_or_insert_with(|| Stats { uri: DEFAULT_URI.to_owned(), ..Stats::default() })
}

fn stats(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() || crate::table::find(Group::Stats, line.word(1)).is_none() {
        let word = line.word(1);
        let what = if word.is_empty() { "missing keyword in" } else { "unknown stats parameter" };
        let subject = if word.is_empty() { "stats" } else { word };
        return Err(wrong(
            format!(
                "{what} '{subject}', expects 'admin', 'uri', 'realm', 'auth', 'scope', 'enable', 'hide-version', \
                 'show-node', 'show-desc' or 'show-legends'."
            ),
            1,
        )
        .nearest(word, crate::table::supported_names(Group::Stats)));
    }
    scope.dispatch(line, 1, Group::Stats)
}

fn flag(scope: &mut Scope<'_>, line: &Line, set: impl FnOnce(&mut Stats)) -> Result<(), Problem> {
    args::ignore_more(scope, line, 0, 1);
    set(page(scope));
    Ok(())
}

/// The argument of `stats X`, alone.
fn argument<'l>(scope: &mut Scope<'_>, line: &'l Line, message: &str) -> Result<&'l str, Problem> {
    if line.word(2).is_empty() {
        return Err(wrong(message, 2));
    }
    args::ignore_more(scope, line, 1, 1);
    Ok(line.word(2))
}

fn admin(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let places = scope.request_places();
    let condition = required_condition(scope, line, 2, places, |error| {
        format!("error detected while parsing a 'stats admin' rule : {error}.")
    })?;
    page(scope).admin.push(Some(condition));
    Ok(())
}

fn auth(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let account = argument(scope, line, "'auth' needs a user:password account.")?;
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let stats = page(scope);
    if stats.auth.iter().any(|(known, _)| known == user) {
        scope.warn(line, wrong(format!("uri auth: ignoring duplicated user '{user}'."), 2));
        return Ok(());
    }
    stats.auth.push((user.to_owned(), Password::Clear(password.to_owned())));
    Ok(())
}

fn http_request(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    page(scope);
    if scope.proxy().rules.own.stats_ended {
        let message = "previous 'stats' action has no condition attached, further entries are NOOP.";
        scope.warn(line, wrong(message, 0));
    }
    let Some(rule) = http::rule(scope, line, 2)? else { return Ok(()) };
    if !matches!(rule.action, HttpAction::Allow | HttpAction::Deny(_) | HttpAction::Auth { .. }) {
        return Err(wrong(format!("'stats http-request' does not know the action '{}'.", line.word(2)), 2)
            .expected("allow, deny or auth"));
    }
    if let Some((line, word)) = scope.proxy().rules.waiting_reply.take() {
        return Err(wrong(format!("'errorfiles {}' is not possible for the page.", line.word(word)), word)
            .expected("errorfile <file>, or no page at all"));
    }
    scope.proxy().rules.own.stats_ended = rule.condition.is_none();
    page(scope).rules.push(rule);
    Ok(())
}

fn realm(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    argument(scope, line, "'realm' needs an realm name.")?;
    page(scope).realm = Some(line.bytes(2).to_vec());
    Ok(())
}

fn refresh(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    argument(scope, line, "'stats refresh' expects a time.")?;
    let delay = args::time(scope, line, 2, Unit::Second)?;
    page(scope).refresh = Some(delay);
    Ok(())
}

fn shown(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = argument(scope, line, "'scope' needs a proxy name.")?;
    let stats = page(scope);
    if !stats.scope.iter().any(|known| known == name) {
        stats.scope.push(name.to_owned());
    }
    Ok(())
}

fn show_desc(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let description =
        if line.word(2).is_empty() { scope.state.global.description.clone() } else { Some(line.joined_from(2)) };
    let Some(description) = description else {
        let message = "'show-desc' requires a parameter or 'desc' to be set in the global section.";
        scope.warn(line, wrong(message, 1));
        return Ok(());
    };
    page(scope).show_desc = Some(description);
    Ok(())
}

fn show_node(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(2);
    if name.chars().any(|character| !(character.is_ascii_alphanumeric() || "_-.".contains(character))) {
        return Err(wrong(
            "'stats show-node' invalid node name - should be a string with digits(0-9), letters(A-Z, a-z), hyphen(-) \
             or underscode(_).",
            2,
        )
        .expected("letters, digits, '_', '-' and '.'"));
    }
    args::ignore_more(scope, line, 1, 1);
    // An empty name stands for the node's own.
    page(scope).show_node = Some(name.to_owned());
    Ok(())
}

fn uri(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let prefix = argument(scope, line, "'uri' needs an URI prefix.")?;
    page(scope).uri = prefix.to_owned();
    Ok(())
}

/// What can only be said of the whole.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let Some(stats) = &draft.proxy.stats else { return };
    if !stats.rules.is_empty() && (!stats.auth.is_empty() || stats.realm.is_some()) {
        let name = draft.proxy.name.clone();
        let Some(line) = draft.line.clone() else { return };
        let message =
            format!("proxy '{name}': stats 'auth'/'realm' and 'http-request' can't be used at the same time.");
        scope.alert(&line, section_problem(message).at(1).expected("one of the two ways in this section"));
    }
}
