//! The reference of the language in Markdown, made of the tables.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::table::{self, Group, Keyword, Support};

/// The pages of the reference: file name and contents.
#[must_use]
pub fn reference() -> Vec<(String, String)> {
    let mut groups: BTreeMap<Group, Vec<&Keyword>> = BTreeMap::new();
    for keyword in table::all() {
        groups.entry(keyword.group).or_default().push(keyword);
    }
    let mut pages = Vec::new();
    let mut index = String::from(
        "# Reference of haproxy.cfg\n\nThese pages list every keyword of HAProxy 2.6, and Tidegate's own. They come \
         from the parser's tables; `tidegate explain KEYWORD` shows the same.\n\n| Page | \
         Keywords | Supported |\n|---|---|---|\n",
    );
    for (title, file, members) in PAGES {
        let mut page = format!("# {title}\n\n");
        let mut total = 0;
        let mut supported = 0;
        for group in *members {
            let Some(keywords) = groups.get_mut(group) else { continue };
            keywords.sort_by_key(|keyword| keyword.name);
            if members.len() > 1 {
                let _ = writeln!(page, "## {}\n", heading(*group));
            }
            table_of(&mut page, keywords);
            total += keywords.len();
            supported += keywords.iter().filter(|keyword| is_supported(keyword)).count();
        }
        let _ = writeln!(index, "| [{title}]({file}) | {total} | {supported} |");
        pages.push(((*file).to_owned(), page));
    }
    for (title, file, (page, total, supported)) in [
        ("Sample fetches", "fetches.md", sample_fetches()),
        ("Converters", "converters.md", sample_converters()),
        ("ACLs", "acls.md", acls()),
        ("Log variables", "log-variables.md", log_variables()),
    ] {
        let _ = writeln!(index, "| [{title}]({file}) | {total} | {supported} |");
        pages.push((file.to_owned(), page));
    }
    pages.push(("README.md".to_owned(), index));
    pages
}

const PAGES: &[(&str, &str, &[Group])] = &[
    ("Sections and directives", "sections.md", &[Group::Section, Group::Directive]),
    ("The global section", "global.md", &[Group::Global, Group::GlobalStats]),
    ("Proxies", "proxies.md", &[Group::Proxy]),
    ("Options", "options.md", &[Group::Option]),
    ("Timeouts", "timeouts.md", &[Group::Timeout]),
    ("Statistics page", "stats.md", &[Group::Stats]),
    ("bind lines", "bind.md", &[Group::Bind]),
    ("server lines", "server.md", &[Group::Server]),
    ("HTTP rules", "http-rules.md", &[Group::HttpRequest, Group::HttpResponse, Group::HttpAfterResponse]),
    (
        "TCP rules",
        "tcp-rules.md",
        &[Group::TcpRequestConnection, Group::TcpRequestSession, Group::TcpRequestContent, Group::TcpResponseContent],
    ),
    ("Checks", "checks.md", &[Group::HttpCheck, Group::TcpCheck]),
    (
        "Other sections",
        "other-sections.md",
        &[
            Group::Userlist,
            Group::HttpErrors,
            Group::Peers,
            Group::Resolvers,
            Group::Mailers,
            Group::Program,
            Group::Ring,
            Group::Cache,
            Group::FcgiApp,
            Group::LogForward,
            Group::CrtStore,
            Group::Acme,
        ],
    ),
];

fn heading(group: Group) -> String {
    let place = group.place().replace('\'', "`");
    let mut characters = place.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + characters.as_str(),
        None => String::new(),
    }
}

fn is_supported(keyword: &Keyword) -> bool {
    matches!(keyword.support, Support::Supported | Support::Deprecated(_))
}

fn table_of(page: &mut String, keywords: &[&Keyword]) {
    for keyword in keywords {
        let _ = writeln!(page, "### `{}`\n", keyword.path());
        let _ = writeln!(page, "{}\n", keyword.doc);
        let _ = writeln!(page, "- Syntax: `{}`", format!("{} {}", keyword.path(), keyword.arguments).trim_end());
        let _ = writeln!(page, "- In: {}", keyword.places());
        if let Some(state) = keyword.state_text() {
            let _ = writeln!(page, "- State: {state}");
        }
        if keyword.experimental {
            let _ = writeln!(page, "- Experimental: needs `expose-experimental-directives` before it");
        }
        if !keyword.example.is_empty() {
            let _ = writeln!(page, "- Example: `{}`", keyword.example);
        }
        let source = match keyword.chapter {
            "" => "an addition of Tidegate".to_owned(),
            chapter => {
                let (version, chapter) = chapter.split_once(':').unwrap_or(("2.6", chapter));
                format!("HAProxy {version}, chapter {chapter}")
            }
        };
        let _ = writeln!(page, "- Source: {source}\n");
    }
}

fn sample_fetches() -> (String, usize, usize) {
    let mut page = String::from("# Sample fetches\n\n");
    let (mut total, mut supported) = (0, 0);
    let mut fetches: Vec<_> = sample::fetches().collect();
    fetches.sort_by_key(|fetch| fetch.name);
    for fetch in fetches {
        let _ = writeln!(page, "### `{}`\n\n{}\n\n- Type: {:?}", fetch.signature(), fetch.doc, fetch.output);
        if !fetch.aliases.is_empty() {
            let _ = writeln!(page, "- Also: `{}`", fetch.aliases.join("`, `"));
        }
        total += 1;
        supported += sample_state(&mut page, &fetch.state, fetch.example);
    }
    (page, total, supported)
}

fn sample_converters() -> (String, usize, usize) {
    let mut page = String::from("# Converters\n\n");
    let (mut total, mut supported) = (0, 0);
    let mut converters: Vec<_> = sample::converters().collect();
    converters.sort_by_key(|converter| converter.name);
    for converter in converters {
        let _ = writeln!(page, "### `{}`\n\n{}\n", converter.signature(), converter.doc);
        total += 1;
        supported += sample_state(&mut page, &converter.state, converter.example);
    }
    (page, total, supported)
}

fn acls() -> (String, usize, usize) {
    let mut page = String::from(
        "# ACLs\n\n## Keywords\n\nEach keyword stands for a sample fetch and a matching method; any other fetch \
                                 needs `-m <method>`.\n\n| Keyword | Fetch | Method |\n|---|---|---|\n",
    );
    let mut keywords: Vec<_> = sample::acl_keywords().collect();
    keywords.sort_by_key(|keyword| keyword.name);
    for keyword in &keywords {
        let _ = writeln!(page, "| `{}` | `{}` | `{}` |", keyword.name, keyword.fetch, keyword.method.name());
    }
    page.push_str("\n## Matching methods\n\n");
    let methods: Vec<String> = sample::MATCH_METHODS.iter().map(|method| format!("`{}`", method.name())).collect();
    let _ = writeln!(page, "{}.", methods.join(", "));
    page.push_str("\n## Predefined\n\n| Name | Declaration |\n|---|---|\n");
    for acl in sample::PREDEFINED_ACLS {
        let _ = writeln!(page, "| `{}` | `{}` |", acl.name, acl.words.join(" "));
    }
    let total = keywords.len() + sample::PREDEFINED_ACLS.len();
    (page, total, total)
}

fn log_variables() -> (String, usize, usize) {
    let mut page = String::from("# Log variables\n\n| Variable | Meaning | HTTP only | State |\n|---|---|---|---|\n");
    let mut supported = 0;
    for entry in sample::LOG_VARIABLES {
        let state = match entry.state {
            sample::State::Supported => {
                supported += 1;
                "supported".to_owned()
            }
            sample::State::NotYet { comes_with } => format!("not yet: comes with {comes_with}"),
        };
        let http = if entry.http { "yes" } else { "" };
        let _ = writeln!(page, "| `%{}` | {} | {http} | {state} |", entry.name, entry.doc);
    }
    (page, sample::LOG_VARIABLES.len(), supported)
}

/// Writes state and example; 1 if it is supported.
fn sample_state(page: &mut String, state: &sample::State, example: &str) -> usize {
    let supported = match state {
        sample::State::NotYet { comes_with } => {
            let _ = writeln!(page, "- State: not supported yet (an error): comes with {comes_with}");
            0
        }
        sample::State::Supported => 1,
    };
    if !example.is_empty() {
        let _ = writeln!(page, "- Example: `{example}`");
    }
    page.push('\n');
    supported
}
