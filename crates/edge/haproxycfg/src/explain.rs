//! What a word of the language means, for people who ask.

use std::fmt::Write as _;

use crate::table::{self, Group, Keyword, Sections, Support};

/// Most words that are suggested for an unknown one.
const SUGGESTIONS_MAX: usize = 5;
/// What is said when no word was given.
const NOTHING_ASKED: &str = "explain what?\n";

/// All that `word` means, wherever it may stand; the nearest words if it means nothing.
///
/// Several words are taken together where that names a keyword: `option forwardfor`, `http-request deny`.
#[must_use]
pub fn explain(word: &str) -> String {
    let mut text = String::new();
    let words: Vec<&str> = word.split_ascii_whitespace().collect();
    let Some(last) = words.last() else { return NOTHING_ASKED.to_owned() };
    let matches = |keyword: &&Keyword| is_named(keyword.name, last) || keyword.path().as_str() == words.join(" ");
    let mut found: Vec<&Keyword> = table::all().filter(matches).collect();
    if words.len() > 1 {
        let above = words.join(" ");
        let exact: Vec<&Keyword> = found.iter().copied().filter(|keyword| is_named(&keyword.path(), &above)).collect();
        if !exact.is_empty() {
            found = exact;
        }
    }
    // What somebody means who asks with one word comes first: what lines begin with before what stands behind other words.
    let asked = words.join(" ");
    found.sort_by_key(|keyword| (keyword.path() != asked, rank(keyword.group)));
    for keyword in found {
        explain_keyword(&mut text, keyword);
    }
    explain_samples(&mut text, last);
    explain_acls_and_logs(&mut text, last);
    explain_values(&mut text, &words);
    if text.is_empty() && last.bytes().any(|byte| byte.is_ascii_uppercase()) {
        // Headers that have keywords (`X-Accel-Redirect`).
        let lower = explain(&word.to_ascii_lowercase());
        if is_explained(&lower) {
            return lower;
        }
    }
    if text.is_empty() {
        suggest(&mut text, word, last);
    }
    text
}

/// Whether a text of [`explain`] says what a word means, and not that nobody knows it.
#[must_use]
pub fn is_explained(text: &str) -> bool {
    !text.contains("is not a word of the language") && text != NOTHING_ASKED
}

/// Whether `word` is the keyword `name`, which may stand for all words that begin with it.
fn is_named(name: &str, word: &str) -> bool {
    name == word
        || name.strip_suffix('*').is_some_and(|prefix| word.starts_with(prefix) || prefix.trim_end_matches('(') == word)
}

/// Where a keyword stands among others of its name, by how often its group is meant.
fn rank(group: Group) -> usize {
    match group {
        Group::Section => 0,
        Group::Proxy => 1,
        Group::Global => 2,
        Group::Bind | Group::Server => 3,
        Group::Option => 4,
        Group::HttpRequest | Group::HttpResponse | Group::HttpAfterResponse | Group::HttpCheck | Group::TcpCheck => 5,
        Group::Stats | Group::GlobalStats => 7,
        Group::Timeout => 8,
        _ => 6,
    }
}

/// Values of settings: `leastconn`, or `balance leastconn`.
fn explain_values(text: &mut String, words: &[&str]) {
    let Some((last, before)) = words.split_last() else { return };
    let bare = |word: &str| word.split('(').next().unwrap_or_default().to_ascii_lowercase();
    for value in table::VALUES {
        if bare(value.name) == bare(last) && before.first().is_none_or(|word| *word == value.of) {
            let _ = writeln!(text, "{} {}", value.of, value.name);
            let _ = writeln!(text, "    a value of '{}': {}", value.of, value.doc);
            let _ = writeln!(text, "    example: {}\n", value.example);
        }
    }
}

fn explain_keyword(text: &mut String, keyword: &Keyword) {
    let _ = writeln!(text, "{}", format!("{} {}", keyword.path(), keyword.arguments).trim_end());
    let _ = writeln!(text, "    {}", keyword.doc);
    let _ = writeln!(text, "    in: {}", keyword.places());
    let path = keyword.path();
    let mut actions: Vec<&str> = table::all()
        .filter(|action| action.group.prefix() == path)
        .map(|action| action.name.trim_end_matches("(*"))
        .collect();
    actions.sort_unstable();
    actions.dedup();
    if !actions.is_empty() {
        let _ = writeln!(text, "    with: {}", actions.join(", "));
    }
    if let Some(state) = keyword.state_text() {
        let _ = writeln!(text, "    {state}");
    }
    if keyword.experimental {
        let _ = writeln!(text, "    experimental: needs 'expose-experimental-directives' before it");
    }
    if !keyword.example.is_empty() {
        let _ = writeln!(text, "    example: {}", keyword.example);
    }
    let chapter = match keyword.chapter {
        "" => "an addition of Tidegate".to_owned(),
        chapter => {
            let (version, chapter) = chapter.split_once(':').unwrap_or(("2.6", chapter));
            format!("chapter {chapter} of HAProxy {version}'s manual")
        }
    };
    let _ = writeln!(text, "    see: {chapter}\n");
}

fn explain_samples(text: &mut String, word: &str) {
    let word = word.split('(').next().unwrap_or(word);
    for fetch in sample::fetches() {
        if fetch.name == word || fetch.aliases.contains(&word) {
            let _ = writeln!(text, "{} : {:?}", fetch.signature(), fetch.output);
            let _ = writeln!(text, "    sample fetch: {}", fetch.doc);
            sample_state(text, &fetch.state, fetch.example);
        }
    }
    for converter in sample::converters() {
        if converter.name == word {
            let _ = writeln!(text, "{}", converter.signature());
            let _ = writeln!(text, "    converter: {}", converter.doc);
            sample_state(text, &converter.state, converter.example);
        }
    }
}

/// Words of ACLs and log formats.
fn explain_acls_and_logs(text: &mut String, word: &str) {
    for keyword in sample::acl_keywords().filter(|keyword| keyword.name == word) {
        let (fetch, method) = (keyword.fetch, keyword.method.name());
        let _ = writeln!(text, "{word}\n    ACL keyword: the sample fetch '{fetch}' matched by '-m {method}'");
        let _ = writeln!(text, "    example: acl name {word} value\n");
    }
    for acl in sample::PREDEFINED_ACLS.iter().filter(|acl| acl.name == word) {
        let _ = writeln!(text, "{word}\n    predefined ACL: acl {word} {}\n", acl.words.join(" "));
    }
    let variable = word.strip_prefix('%').unwrap_or(word);
    for entry in sample::LOG_VARIABLES.iter().filter(|entry| entry.name == variable) {
        let _ = writeln!(text, "%{variable}\n    log variable: {}", entry.doc);
        sample_state(text, &entry.state, "");
    }
}

fn sample_state(text: &mut String, state: &sample::State, example: &str) {
    if let sample::State::NotYet { comes_with } = state {
        let _ = writeln!(text, "    not supported yet: comes with {comes_with}");
    }
    if !example.is_empty() {
        let _ = writeln!(text, "    example: {example}");
    }
    text.push('\n');
}

/// All names that [`explain`] knows.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = table::all().map(|keyword| keyword.name).collect();
    names.extend(table::VALUES.iter().map(|value| value.name));
    names.extend(sample::fetches().map(|fetch| fetch.name));
    names.extend(sample::converters().map(|converter| converter.name));
    names.extend(sample::acl_keywords().map(|keyword| keyword.name));
    names.sort_unstable();
    names.dedup();
    names
}

fn suggest(text: &mut String, word: &str, last: &str) {
    let _ = writeln!(text, "'{word}' is not a word of the language.");
    let names = names();
    let mut suggestions: Vec<&str> =
        names.iter().copied().filter(|name| name.contains(last)).take(SUGGESTIONS_MAX).collect();
    if let Some(nearest) = basics::nearest(last, names.iter().copied()) {
        suggestions.insert(0, nearest);
    }
    suggestions.dedup();
    if !suggestions.is_empty() {
        let _ = writeln!(text, "Nearest: {}", suggestions.join(", "));
    }
}

impl Keyword {
    /// The words that lead to it: `option forwardfor`, `bind ... accept-proxy`.
    #[must_use]
    pub fn path(&self) -> String {
        match self.group.prefix() {
            "" => self.name.to_owned(),
            prefix => format!("{prefix} {}", self.name),
        }
    }

    /// The sections or lines where it may stand.
    #[must_use]
    pub fn places(&self) -> String {
        if self.sections == Sections::NONE {
            return self.group.place().to_owned();
        }
        let mut places = Vec::new();
        if self.sections.contains(Sections::DEFAULTS) {
            places.push("defaults");
        } else if self.sections.contains(Sections::NAMED_DEFAULTS) {
            places.push("named defaults");
        }
        if self.sections.contains(Sections::FRONTEND) {
            places.push("frontend");
        }
        if self.sections.contains(Sections::BACKEND) {
            places.push("backend");
        }
        if self.sections.intersects(Sections::FRONTEND_BACKEND) {
            places.push("listen");
        }
        places.join(", ")
    }

    /// How far it is supported, unless fully.
    #[must_use]
    pub fn state_text(&self) -> Option<String> {
        match self.support {
            Support::Supported => None,
            Support::Harmless(why) => Some(format!("no effect (a warning): {why}")),
            Support::NotYet(why) => Some(format!("not supported yet (an error): {why}")),
            Support::Removed(message) => Some(format!("removed (an error): {message}")),
            Support::Deprecated(message) => Some(format!("deprecated (a warning): {message}")),
        }
    }
}
