//! From bytes to lines: commands end with a line break or a semicolon, words with blanks, payloads with an empty line.

/// Bytes that a command and its payload may have together, as HAProxy's buffer.
pub(super) const COMMAND_LEN_MAX: usize = 16_384;
/// Words that are looked at; HAProxy ignores those behind.
const WORDS_MAX: usize = 64;
/// At the end of a command: the payload follows.
const PAYLOAD: &[u8] = b"<<";

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    words: Vec<String>,
    /// What followed `<<`.
    pub payload: Option<String>,
}

impl Line {
    /// Reads a command without a payload.
    pub fn new(text: &str) -> Self {
        Self { words: words(text.as_bytes()).0, payload: None }
    }

    /// The word at a place, empty behind the last.
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The words from a place on.
    pub fn rest(&self, index: usize) -> impl Iterator<Item = &str> {
        self.words.iter().skip(index).map(String::as_str)
    }
}

/// What came of the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A command.
    Command(Line),
    /// A line of a payload, of which more is to come.
    Payload,
    /// Nothing yet.
    Incomplete,
    /// More than fits.
    TooLong,
}

/// What came of the bytes so far, before words are made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RawInput {
    /// A command as it was written, and its payload.
    Command(String, Option<String>),
    /// See [`Input`].
    Payload,
    /// See [`Input`].
    Incomplete,
    /// See [`Input`].
    TooLong,
}

/// Takes bytes and gives commands.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    bytes: Vec<u8>,
    /// The command whose payload is being read, and what there is of it.
    command: Option<(Vec<u8>, Vec<u8>)>,
}

impl Splitter {
    /// Takes bytes in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether there are bytes that no command has been made of.
    pub fn has_rest(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether a payload is being read.
    pub fn in_payload(&self) -> bool {
        self.command.is_some()
    }

    /// What comes next.
    pub fn next(&mut self) -> Input {
        match self.next_raw() {
            RawInput::Payload => Input::Payload,
            RawInput::Incomplete => Input::Incomplete,
            RawInput::TooLong => Input::TooLong,
            RawInput::Command(text, payload) => {
                let (words, marked) = words(text.as_bytes());
                Input::Command(Line { words, payload: payload.filter(|_| marked) })
            }
        }
    }

    /// What comes next, as it was written.
    pub fn next_raw(&mut self) -> RawInput {
        let in_payload = self.command.is_some();
        let Some(end) = end_of_line(&self.bytes, in_payload) else {
            let held = self.bytes.len() + self.command.as_ref().map_or(0, |(line, payload)| line.len() + payload.len());
            return if held >= COMMAND_LEN_MAX { RawInput::TooLong } else { RawInput::Incomplete };
        };
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        let semicolon = line.pop() == Some(b';');
        if !semicolon && line.last() == Some(&b'\r') {
            line.pop();
        }
        match &mut self.command {
            Some((_, payload)) if !line.is_empty() => {
                payload.extend_from_slice(&line);
                payload.push(b'\n');
                if payload.len() >= COMMAND_LEN_MAX { RawInput::TooLong } else { RawInput::Payload }
            }
            Some(_) => self.command.take().map_or(RawInput::Incomplete, |(command, mut payload)| {
                payload.pop();
                RawInput::Command(text(&command), Some(text(&payload)))
            }),
            None if line.ends_with(PAYLOAD) => {
                self.command = Some((line, Vec::new()));
                RawInput::Payload
            }
            None if line.len() >= COMMAND_LEN_MAX => RawInput::TooLong,
            None => RawInput::Command(text(&line), None),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where the line ends: at a line break, and outside of a payload at a semicolon too, neither behind a backslash.
fn end_of_line(bytes: &[u8], in_payload: bool) -> Option<usize> {
    if in_payload {
        return memchr::memchr(b'\n', bytes);
    }
    let mut escaped = false;
    bytes.iter().position(|byte| {
        let ends = !escaped && matches!(byte, b'\n' | b';');
        escaped = !escaped && *byte == b'\\';
        ends
    })
}

/// The words of a line and whether `<<` stands behind them as a word of its own. A backslash takes the meaning from the
/// byte that follows it.
fn words(line: &[u8]) -> (Vec<String>, bool) {
    let mut words = Vec::new();
    let mut rest = line.iter().copied().peekable();
    while words.len() < WORDS_MAX {
        while rest.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
        if rest.peek().is_none() {
            break;
        }
        let mut word = Vec::new();
        let mut plain = true;
        while let Some(byte) = rest.next_if(|byte| !matches!(byte, b' ' | b'\t')) {
            if byte == b'\\' {
                plain = false;
                word.extend(rest.next());
            } else {
                word.push(byte);
            }
        }
        if plain && word == PAYLOAD && rest.peek().is_none() {
            return (words, true);
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    (words, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<Input> {
        let mut splitter = Splitter::default();
        splitter.feed(input);
        let mut found = Vec::new();
        loop {
            match splitter.next() {
                Input::Incomplete => return found,
                Input::TooLong => {
                    found.push(Input::TooLong);
                    return found;
                }
                other => found.push(other),
            }
        }
    }

    fn command(words: &[&str], payload: Option<&str>) -> Input {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Input::Command(Line { words, payload: payload.map(str::to_owned) })
    }

    #[test]
    fn lines_and_words() {
        for (input, expected) in [
            ("show info\n", vec![command(&["show", "info"], None)]),
            ("  show \t info  \r\n", vec![command(&["show", "info"], None)]),
            ("a;b ; c\n", vec![command(&["a"], None), command(&["b"], None), command(&["c"], None)]),
            ("a\\;b\\ c \\\\d\n", vec![command(&["a;b c", "\\d"], None)]),
            ("\n", vec![command(&[], None)]),
            ("unfinished", vec![]),
            (
                "a <<\nx y;z\n\\\n\nb\n",
                vec![
                    Input::Payload,
                    Input::Payload,
                    Input::Payload,
                    command(&["a"], Some("x y;z\n\\")),
                    command(&["b"], None),
                ],
            ),
            ("a <<\n\n", vec![Input::Payload, command(&["a"], Some(""))]),
            ("a<<\nx\n\n", vec![Input::Payload, Input::Payload, command(&["a<<"], None)]),
        ] {
            assert_eq!(all(input.as_bytes()), expected, "{input:?}");
        }
    }

    #[test]
    fn bytes_may_come_one_by_one() {
        let mut splitter = Splitter::default();
        let mut commands = 0;
        for byte in b"show info;show stat\nset map x <<\na b\n\n" {
            splitter.feed(&[*byte]);
            while let input @ (Input::Command(_) | Input::Payload) = splitter.next() {
                commands += usize::from(matches!(input, Input::Command(_)));
            }
        }
        assert_eq!((commands, splitter.has_rest()), (3, false));
    }

    #[test]
    fn memory_is_bounded() {
        let long = vec![b'x'; COMMAND_LEN_MAX + 1];
        assert_eq!(all(&long), [Input::TooLong]);
        let mut ended = long.clone();
        ended.push(b'\n');
        assert_eq!(all(&ended), [Input::TooLong]);
        let mut payload = b"a <<\n".to_vec();
        payload.extend(b"0123456789abcde\n".repeat(COMMAND_LEN_MAX / 16 + 1));
        assert_eq!(all(&payload).last(), Some(&Input::TooLong));
        let many = "w ".repeat(1_000) + "\n";
        let [Input::Command(line)] = &all(many.as_bytes())[..] else { panic!("one command") };
        assert_eq!(line.words.len(), WORDS_MAX);
    }
}
