//! What nginx' directives are here: a table for those who come from there. `tidegate explain` and docs/from-nginx.md say it, and tests load
//! the examples.

use std::fmt::Write as _;

mod files;
mod programs;
mod proxy;
mod requests;
mod security;
mod server;

#[cfg(test)]
mod tests;

/// A directive, or several that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// Their names, parted by spaces.
    names: &'static str,
    /// What says it here, or why nothing does. Markdown in one line.
    here: &'static str,
    /// How that is written.
    example: Example,
}

/// Lines of haproxy.cfg.
#[derive(Clone, Copy, Debug)]
enum Example {
    /// There is nothing to write.
    Nothing,
    /// Lines of `global`.
    Global(&'static str),
    /// Lines of a `frontend` section, behind a `bind` line.
    Frontend(&'static str),
    /// Lines of a `backend` section.
    Backend(&'static str),
    /// Sections.
    Sections(&'static str),
}

impl Directive {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }
}

/// Directives that need no line.
const fn says(names: &'static str, here: &'static str) -> Directive {
    Directive { names, here, example: Example::Nothing }
}

const fn global(names: &'static str, here: &'static str, lines: &'static str) -> Directive {
    Directive { names, here, example: Example::Global(lines) }
}

const fn frontend(names: &'static str, here: &'static str, lines: &'static str) -> Directive {
    Directive { names, here, example: Example::Frontend(lines) }
}

const fn backend(names: &'static str, here: &'static str, lines: &'static str) -> Directive {
    Directive { names, here, example: Example::Backend(lines) }
}

const fn sections(names: &'static str, here: &'static str, text: &'static str) -> Directive {
    Directive { names, here, example: Example::Sections(text) }
}

/// Directives about one matter.
struct Group {
    title: &'static str,
    directives: &'static [Directive],
}

/// All groups, in the order of the page.
const GROUPS: &[Group] = &[
    Group { title: "Servers, locations and processes", directives: server::DIRECTIVES },
    Group { title: "Files", directives: files::DIRECTIVES },
    Group { title: "Requests and answers", directives: requests::DIRECTIVES },
    Group { title: "Compression and headers", directives: requests::CONTENT },
    Group { title: "Proxying", directives: proxy::DIRECTIVES },
    Group { title: "Caching", directives: proxy::CACHING },
    Group { title: "Upstreams", directives: proxy::UPSTREAMS },
    Group { title: "FastCGI and other programs", directives: programs::DIRECTIVES },
    Group { title: "TLS and HTTP/2", directives: security::TLS },
    Group { title: "Access, limits and addresses", directives: security::ACCESS },
    Group { title: "Logs and statistics", directives: security::LOGS },
    Group { title: "What is not here", directives: programs::NOT_HERE },
];

/// Families whose directives are those of `proxy_` under another name.
const FAMILIES: [&str; 5] = ["fastcgi_", "uwsgi_", "scgi_", "grpc_", "memcached_"];

fn find(name: &str) -> Option<&'static Directive> {
    GROUPS.iter().flat_map(|group| group.directives).find(|directive| directive.names().any(|known| known == name))
}

/// What a word of nginx.conf is here; none if it is no directive of nginx.
#[must_use]
pub fn explain(word: &str) -> Option<String> {
    let name = word.trim().trim_end_matches(';').to_lowercase();
    let of_family = || {
        let rest = FAMILIES.iter().find_map(|family| name.strip_prefix(family))?;
        find(&format!("proxy_{rest}"))
    };
    let directive = find(&name).or_else(of_family)?;
    let mut text = format!("{name} (a directive of nginx)\n  {}\n", plain(directive.here));
    let (section, lines) = match directive.example {
        Example::Nothing => return Some(text),
        Example::Global(lines) => (Some("global"), lines),
        Example::Frontend(lines) => (Some("frontend ..."), lines),
        Example::Backend(lines) => (Some("backend ..."), lines),
        Example::Sections(text) => (None, text),
    };
    text.push('\n');
    if let Some(section) = section {
        let _ = writeln!(text, "    {section}");
    }
    for line in lines.lines() {
        let indent = if section.is_some() { "        " } else { "    " };
        let _ = writeln!(text, "{}", format!("{indent}{line}").trim_end());
    }
    Some(text)
}

/// The names of all directives.
#[must_use]
pub fn names() -> Vec<String> {
    GROUPS.iter().flat_map(|group| group.directives).flat_map(Directive::names).map(str::to_owned).collect()
}

/// The tables of docs/from-nginx.md.
#[must_use]
pub fn page() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let _ = write!(text, "\n### {}\n\n| nginx | here |\n|---|---|\n", group.title);
        for directive in group.directives {
            let names: Vec<String> = directive.names().map(|name| format!("`{name}`")).collect();
            let example = match directive.example {
                Example::Nothing | Example::Sections(_) => String::new(),
                Example::Global(lines) | Example::Frontend(lines) | Example::Backend(lines) => {
                    let lines: Vec<String> =
                        lines.lines().map(|line| format!("`{}`", line.replace('|', "\\|"))).collect();
                    format!("<br>{}", lines.join("<br>"))
                }
            };
            let _ = writeln!(text, "| {} | {}{example} |", names.join(", "), directive.here.replace('|', "\\|"));
        }
        for directive in group.directives {
            if let Example::Sections(lines) = directive.example {
                let names: Vec<&str> = directive.names().collect();
                let names = names.first().copied().unwrap_or_default();
                let _ = write!(text, "\n`{names}`:\n\n```haproxy\n{}\n```\n", lines.trim_end());
            }
        }
    }
    text
}

/// Markdown as it is read in a terminal.
fn plain(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        let Some((label, after)) = link.split_once("](") else {
            text.push('[');
            rest = link;
            continue;
        };
        let (target, after) = after.split_once(')').unwrap_or((after, ""));
        let _ = write!(text, "{label} (docs/{target})");
        rest = after;
    }
    text.push_str(rest);
    text.replace('`', "'")
}
