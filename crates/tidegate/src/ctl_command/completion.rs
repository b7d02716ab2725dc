//! What a word may become: from how commands are written, and from the names that the running process knows.

use super::{
    rooms::{Kind, Rooms, Usage},
    words::WORDS,
};

/// Commands of the shell itself.
pub const OF_THE_SHELL: [(&str, &str); 3] = [
    ("help [<word>]", "list what can be asked, or tell about a word"),
    ("explain <word>", "what a word means, whoever's it is"),
    ("quit", "end the shell (also Ctrl-D)"),
];

/// Where the word begins that is being typed, and what it may become.
pub fn complete(rooms: &mut Rooms, before: &str) -> (usize, Vec<String>) {
    // Of several commands in a line the last one is typed.
    let command_at = before.rfind(';').map_or(0, |at| at + 1);
    let typed = before.get(command_at..).unwrap_or_default();
    let word_at = before.rfind([' ', ';']).map_or(0, |at| at + 1);
    let (kind, rest) = rooms.addressed(typed);
    let is_first = typed.trim_start().split(' ').count() <= 1;
    let rest = if is_first { typed.trim_start() } else { rest };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let word = before.get(word_at..).unwrap_or_default();
    let done =
        if word.is_empty() { words.as_slice() } else { words.get(..words.len().saturating_sub(1)).unwrap_or_default() };
    let room = rooms.room(kind);
    let mut usages = room.usages();
    if done.is_empty() {
        usages.extend(WORDS.iter().map(|(_, name, _)| Usage::new(*name, "")));
    }
    if is_first {
        usages.extend(OF_THE_SHELL.iter().map(|(text, _)| Usage::new(*text, "")));
        usages.extend(Kind::ALL.iter().map(|(_, name, _)| Usage::new(*name, "")));
    }
    let mut found = candidates(&usages, done, word, &mut |placeholder| room.names(placeholder));
    found.sort();
    found.dedup();
    (word_at, found)
}

/// What may stand behind the words that are done, as far as it begins with what is typed.
fn candidates(usages: &[Usage], done: &[&str], typed: &str, names: &mut dyn FnMut(&str) -> Vec<String>) -> Vec<String> {
    let mut placeholders: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for usage in usages {
        let parts: Vec<&str> = usage.text.split_whitespace().collect();
        let fits = parts.len() > done.len() && done.iter().zip(&parts).all(|(word, part)| is_part(word, part));
        let Some(part) = parts.get(done.len()).filter(|_| fits) else { continue };
        for form in forms(part) {
            if form.starts_with('<') {
                placeholders.push(form);
            } else {
                found.push(form.to_owned());
            }
        }
    }
    placeholders.sort_unstable();
    placeholders.dedup();
    for placeholder in placeholders {
        found.extend(names(placeholder));
    }
    found.retain(|name| name.starts_with(typed) || name.to_lowercase().starts_with(typed) && !typed.is_empty());
    found
}

/// Whether a word may stand where a usage has this part.
fn is_part(word: &str, part: &str) -> bool {
    forms(part).iter().any(|form| form.starts_with('<') || form.eq_ignore_ascii_case(word))
}

/// The forms of a part: `[desc|json]*` has two, `<bk>/<srv>` is one placeholder.
fn forms(part: &str) -> Vec<&str> {
    let bare = part.trim_end_matches('*').trim_matches(['[', ']', '{', '}']);
    // `<configname|label>` is one thing.
    if bare.starts_with('<') && !bare.contains(">|") {
        return vec![bare];
    }
    bare.split('|').filter(|form| !form.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_completed() {
        let usages = [
            "show info [desc|json|typed|float]*",
            "show stat",
            "get weight <bk>/<srv>",
            "set server <bk>/<srv> state ready|drain|maint",
            "disable frontend <frontend>",
            "vcl.use <configname|label>",
        ]
        .map(|text| Usage::new(text, ""));
        let mut asked = Vec::new();
        let mut names = |placeholder: &str| {
            asked.push(placeholder.to_owned());
            match placeholder {
                "<bk>/<srv>" => vec!["app/one".to_owned(), "app/two".to_owned(), "web/one".to_owned()],
                _ => vec!["boot".to_owned()],
            }
        };
        for (done, typed, expected) in [
            (&[][..], "s", &["show", "show", "set"][..]),
            (&["show"], "", &["info", "stat"]),
            (&["show", "info"], "j", &["json"]),
            (&["get", "weight"], "app/", &["app/one", "app/two"]),
            (&["set", "server", "app/one"], "", &["state"]),
            (&["set", "server", "app/one", "state"], "d", &["drain"]),
            (&["vcl.use"], "", &["boot"]),
            (&["nothing"], "", &[]),
        ] {
            assert_eq!(candidates(&usages, done, typed, &mut names), expected, "{done:?} {typed}");
        }
        assert!(asked.contains(&"<configname|label>".to_owned()), "{asked:?}");
    }
}
