//! What is sent: a line of commands, and a payload behind it.

use super::error::CtlError;

/// At the end of a command: the payload follows.
pub(super) const PAYLOAD: &str = "<<";

/// Commands that have contents, by their words and how many there are besides the contents.
const WITH_CONTENTS: [(&[&str], usize); 8] = [
    (&["set", "ssl", "cert"], 4),
    (&["set", "ssl", "ca-file"], 4),
    (&["add", "ssl", "ca-file"], 4),
    (&["set", "ssl", "crl-file"], 4),
    (&["set", "ssl", "ocsp-response"], 3),
    (&["add", "ssl", "crt-list"], 4),
    (&["add", "map"], 3),
    (&["add", "acl"], 3),
];

/// A line of commands as it goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    line: String,
    payload: Option<String>,
}

impl Request {
    /// Of the words of a command line. The first one may be a whole line of commands; a blank within another one is part of it.
    ///
    /// # Errors
    /// The payload's.
    pub fn of_words(words: &[String], payload: impl FnOnce() -> Result<String, CtlError>) -> Result<Self, CtlError> {
        let mut line = String::new();
        for (place, word) in words.iter().enumerate() {
            if place == 0 {
                line.push_str(word);
            } else {
                line.push(' ');
                line.push_str(&word.replace(' ', "\\ "));
            }
        }
        // As `echo -e` and `printf` make it for socat.
        if let Some((first, rest)) = line.split_once('\n') {
            let payload = first.ends_with(PAYLOAD).then(|| rest.to_owned());
            let line = if payload.is_some() { first.to_owned() } else { line.trim_end().replace('\n', ";") };
            return Ok(Self { line, payload });
        }
        if line.ends_with(PAYLOAD) {
            return Ok(Self { line, payload: Some(payload()?) });
        }
        if wants_contents(&line) {
            return Ok(Self { line: format!("{line} {PAYLOAD}"), payload: Some(payload()?) });
        }
        Ok(Self { line, payload: None })
    }

    /// Of lines: each is a request; behind one that ends with `<<`, a payload follows up to an empty line.
    pub fn of_lines(text: &str) -> Vec<Self> {
        let mut requests = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim_end();
            if line.ends_with(PAYLOAD) {
                let payload: Vec<&str> = lines.by_ref().take_while(|line| !line.trim().is_empty()).collect();
                requests.push(Self { line: line.to_owned(), payload: Some(payload.join("\n")) });
            } else if !line.is_empty() {
                requests.push(Self { line: line.to_owned(), payload: None });
            }
        }
        requests
    }

    /// Its commands without their contents. A semicolon behind a backslash divides none, and commands that are looked for have none.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.line.split(';').map(str::trim)
    }

    /// As it goes out. An empty line ends a payload, so those within it are left out: no command needs them.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.line);
        if let Some(payload) = &self.payload {
            for line in payload.lines().filter(|line| !line.trim().is_empty()) {
                text.push_str(line);
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }
}

/// Whether the last command of a line is one that has contents, which do not stand in it.
pub(super) fn wants_contents(line: &str) -> bool {
    let last = line.rsplit(';').next().unwrap_or(line);
    let words: Vec<&str> = last.split_whitespace().collect();
    WITH_CONTENTS.iter().any(|(name, count)| {
        // `add map @3 FILE`: the version is a word more.
        let has_version = words.get(name.len()).is_some_and(|word| word.starts_with('@'));
        words.starts_with(name) && words.len() == count + usize::from(has_version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Request::of_words(&words, || Ok("PEM\n\nPEM".to_owned())).unwrap().text()
    }

    #[test]
    fn words_become_lines() {
        for (words, expected) in [
            (&["show", "stat"][..], "show stat\n"),
            (&["show info; show stat"], "show info; show stat\n"),
            (&["show", "info", ";", "show", "stat"], "show info ; show stat\n"),
            (&["set", "map", "m", "key", "a value"], "set map m key a\\ value\n"),
            (&["set", "ssl", "cert", "x.pem"], "set ssl cert x.pem <<\nPEM\nPEM\n\n"),
            (&["set ssl cert x.pem <<"], "set ssl cert x.pem <<\nPEM\nPEM\n\n"),
            (&["set ssl cert x.pem <<\nA\n\nB\n"], "set ssl cert x.pem <<\nA\nB\n\n"),
            (&["show info\nshow stat\n"], "show info;show stat\n"),
            (&["add", "map", "/m", "key", "value"], "add map /m key value\n"),
            (&["add", "map", "/m"], "add map /m <<\nPEM\nPEM\n\n"),
            (&["add", "map", "@2", "/m"], "add map @2 /m <<\nPEM\nPEM\n\n"),
            (&["commit", "ssl", "cert", "x.pem"], "commit ssl cert x.pem\n"),
            (&["new ssl cert x; set ssl cert x"], "new ssl cert x; set ssl cert x <<\nPEM\nPEM\n\n"),
        ] {
            assert_eq!(text(words), expected, "{words:?}");
        }
    }

    #[test]
    fn lines_of_a_file_are_requests() {
        let requests = Request::of_lines("show info\n\nadd map /m <<\na 1\nb 2\n\nshow map /m\n");
        let texts: Vec<String> = requests.iter().map(Request::text).collect();
        assert_eq!(texts, ["show info\n", "add map /m <<\na 1\nb 2\n\n", "show map /m\n"]);
    }
}
