//! Command lines as getopt reads them: `-g request -qc`, values beside their letter or behind it.

/// An option: its letter, a value's name (empty if it takes none), what it does.
pub(crate) type Specification = (char, &'static str, &'static str);

/// A command line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Options in the order they came; the value is empty if they take none.
    pub(crate) options: Vec<(char, String)>,
    /// Words behind the options.
    pub(crate) rest: Vec<String>,
}

/// Reads options until a word that is none, or behind `--`.
pub(crate) fn parse(words: &[String], specifications: &[Specification]) -> Result<Parsed, String> {
    let mut options = Vec::new();
    let mut words = words.iter();
    let mut rest: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if word == "--help" {
            options.push(('h', String::new()));
            continue;
        }
        if word.starts_with("--") {
            return Err(format!("unknown option {word} (-h names all)"));
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            rest.push(word.clone());
            break;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let Some((_, value, _)) = specifications.iter().find(|(known, ..)| *known == letter) else {
                return Err(format!("unknown option -{letter} (-h names all)"));
            };
            if value.is_empty() {
                options.push((letter, String::new()));
                continue;
            }
            let beside = letters.as_str().to_owned();
            let value = if beside.is_empty() { words.next().cloned() } else { Some(beside) };
            let value = value.ok_or_else(|| format!("-{letter} needs a value"))?;
            options.push((letter, value));
            break;
        }
    }
    rest.extend(words.cloned());
    Ok(Parsed { options, rest })
}

/// What `-h` prints.
pub(crate) fn usage(tool: &str, behind: &str, specifications: &[Specification]) -> String {
    let mut text = format!("Usage: {tool} [options]{behind}\n\n");
    for (letter, value, doc) in specifications {
        let option = if value.is_empty() { format!("-{letter}") } else { format!("-{letter} <{value}>") };
        text.push_str(&format!("  {option:<22} {doc}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_by_getopt() {
        let known: &[Specification] = &[('d', "", ""), ('g', "what", ""), ('q', "query", "")];
        let read = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), known);
        let parsed = read("-dg request -qa -d -- -x y").unwrap();
        let expected =
            [('d', ""), ('g', "request"), ('q', "a"), ('d', "")].map(|(letter, value)| (letter, value.to_owned()));
        assert_eq!(parsed.options, expected);
        assert_eq!(parsed.rest, ["-x", "y"]);
        assert_eq!(read("-d word -g x").unwrap().rest, ["word", "-g", "x"]);
        assert_eq!(read("-z").unwrap_err(), "unknown option -z (-h names all)");
        assert_eq!(read("-g").unwrap_err(), "-g needs a value");
        assert_eq!(read("--nothing").unwrap_err(), "unknown option --nothing (-h names all)");
        assert_eq!(read("--help").unwrap().options, [('h', String::new())]);
    }
}
