//! From PCRE's dialect to that of the engines.
//!
//! Where both take a pattern and mean different things, or only PCRE takes it, it is written anew so that it means what it
//! means in HAProxy: quoted parts, braces that repeat nothing, brackets and doubled signs in classes, and escapes that one
//! of the engines reads otherwise. One difference stays: `$` is the very end, not also the place before a last newline.

/// `pattern` in the engines' dialect, as text: bytes above 127, which need not be UTF-8, are escaped.
pub(super) fn translate(pattern: &[u8]) -> String {
    let mut writer = Writer { output: String::with_capacity(pattern.len() + 16) };
    let mut rest = pattern;
    while let Some((byte, tail)) = rest.split_first() {
        rest = match byte {
            b'\\' => writer.escape(tail, false),
            b'[' => writer.class(tail),
            b'{' if !repeats(tail) => {
                writer.literal(b'{');
                tail
            }
            byte => {
                writer.byte(*byte);
                tail
            }
        };
    }
    writer.output
}

/// Whether what follows a brace is a number of repetitions and the other brace.
fn repeats(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|byte| *byte == b'}') else { return false };
    let inside = rest.get(..end).unwrap_or_default();
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    match inside.iter().position(|byte| *byte == b',') {
        None => is_number(inside),
        Some(comma) => {
            let (least, most) = (inside.get(..comma).unwrap_or_default(), inside.get(comma + 1..).unwrap_or_default());
            is_number(least) && (most.is_empty() || is_number(most))
        }
    }
}

struct Writer {
    output: String,
}

impl Writer {
    /// A byte that keeps its meaning.
    fn byte(&mut self, byte: u8) {
        if byte.is_ascii() {
            self.output.push(char::from(byte));
        } else {
            self.output.push_str(&format!("\\x{byte:02x}"));
        }
    }

    /// A byte that has none but itself.
    fn literal(&mut self, byte: u8) {
        if byte.is_ascii_punctuation() {
            self.output.push('\\');
        }
        self.byte(byte);
    }

    /// What follows a backslash.
    fn escape<'a>(&mut self, rest: &'a [u8], in_class: bool) -> &'a [u8] {
        let Some((byte, tail)) = rest.split_first() else {
            self.output.push('\\');
            return rest;
        };
        let set = |members: &str| if in_class { members.to_owned() } else { format!("[{members}]") };
        match byte {
            b'Q' => {
                let end = memchr::memmem::find(tail, b"\\E");
                for byte in tail.get(..end.unwrap_or(tail.len())).unwrap_or_default() {
                    self.literal(*byte);
                }
                return end.and_then(|end| tail.get(end + 2..)).unwrap_or_default();
            }
            // An end without a start is nothing.
            b'E' => {}
            b'<' | b'>' => self.byte(*byte),
            b'h' => self.output.push_str(&set(" \\t\\xa0")),
            b'v' => self.output.push_str(&set("\\n\\x0b\\x0c\\r\\x85")),
            b'H' if !in_class => self.output.push_str("[^ \\t\\xa0]"),
            b'V' if !in_class => self.output.push_str("[^\\n\\x0b\\x0c\\r\\x85]"),
            b'N' if !in_class => self.output.push_str("[^\\n]"),
            b'R' if !in_class => self.output.push_str("(?:\\r\\n|[\\n\\x0b\\x0c\\r\\x85])"),
            b'e' => self.output.push_str("\\x1b"),
            b'0' => {
                let digits = tail.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let octal = tail.get(..digits).unwrap_or_default();
                let value = octal.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                self.output.push_str(&format!("\\x{value:02x}"));
                return tail.get(digits..).unwrap_or_default();
            }
            byte if byte.is_ascii() => {
                self.output.push('\\');
                self.output.push(char::from(*byte));
            }
            byte => self.byte(*byte),
        }
        tail
    }

    /// A class, up to its closing bracket: inside, another opening one is a literal unless it names a class, and doubled
    /// signs are no set operations.
    fn class<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        self.output.push('[');
        let mut rest = rest;
        if let Some((b'^', tail)) = rest.split_first() {
            self.output.push('^');
            rest = tail;
        }
        // The first bracket is a member.
        if let Some((b']', tail)) = rest.split_first() {
            self.output.push_str("\\]");
            rest = tail;
        }
        while let Some((byte, tail)) = rest.split_first() {
            rest = match byte {
                b']' => {
                    self.output.push(']');
                    return tail;
                }
                b'\\' => self.escape(tail, true),
                b'[' => match tail.strip_prefix(b":").and_then(|_| memchr::memmem::find(tail, b":]")) {
                    Some(end) => {
                        self.output.push('[');
                        for byte in tail.get(..end + 2).unwrap_or_default() {
                            self.byte(*byte);
                        }
                        tail.get(end + 2..).unwrap_or_default()
                    }
                    None => {
                        self.literal(b'[');
                        tail
                    }
                },
                b'&' | b'~' => {
                    self.literal(*byte);
                    tail
                }
                b'-' if tail.first() == Some(&b'-') => {
                    self.output.push_str("-\\-");
                    tail.get(1..).unwrap_or_default()
                }
                byte => {
                    self.byte(*byte);
                    tail
                }
            };
        }
        rest
    }
}
