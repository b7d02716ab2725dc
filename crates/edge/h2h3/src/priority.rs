//! How urgent an answer is (RFC 9218), which is said as a dictionary of structured fields (RFC 8941).

/// A request's priority (RFC 9218 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Parts of the answer are of use before it is whole: it may take turns with others of its urgency.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `priority` field, or of PRIORITY_UPDATE; `None` if it is no dictionary. What it has beside, or what has a value
    /// that it cannot have, is as if it were not there (RFC 9218 section 4).
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut priority = Self::default();
        let mut rest = Text(value.trim_ascii());
        while !rest.0.is_empty() {
            let key = rest.key()?;
            let item = if rest.skip(b'=') { rest.member()? } else { Item::Boolean(true) };
            rest.parameters()?;
            match (key, item) {
                (b"u", Item::Integer(urgency @ 0..=7)) => priority.urgency = urgency as u8,
                (b"i", Item::Boolean(is_incremental)) => priority.is_incremental = is_incremental,
                _ => {}
            }
            rest.skip_blanks();
            if rest.0.is_empty() {
                break;
            }
            if !rest.skip(b',') {
                return None;
            }
            rest.skip_blanks();
            if rest.0.is_empty() {
                return None;
            }
        }
        Some(priority)
    }
}

/// An item as far as it matters here.
#[derive(Clone, Copy)]
enum Item {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// What is left of a value.
struct Text<'t>(&'t [u8]);

impl<'t> Text<'t> {
    fn skip(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn skip_blanks(&mut self) {
        while self.skip(b' ') || self.skip(b'\t') {}
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'t [u8] {
        let length = self.0.iter().position(|byte| !is_part(*byte)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        part
    }

    /// RFC 8941 section 4.2.3.3.
    fn key(&mut self) -> Option<&'t [u8]> {
        let key = self.take_while(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        });
        key.first().filter(|first| first.is_ascii_lowercase() || **first == b'*').map(|_| key)
    }

    /// RFC 8941 section 4.2.1.1: an item, or a list of items in parentheses.
    fn member(&mut self) -> Option<Item> {
        if !self.skip(b'(') {
            return self.item();
        }
        loop {
            self.take_while(|byte| byte == b' ');
            if self.skip(b')') {
                return Some(Item::Other);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    /// RFC 8941 section 4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.skip(b';') {
            self.take_while(|byte| byte == b' ');
            self.key()?;
            if self.skip(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    /// RFC 8941 section 4.2.3.1.
    fn item(&mut self) -> Option<Item> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.skip(b'?');
                if self.skip(b'1') {
                    return Some(Item::Boolean(true));
                }
                self.skip(b'0').then_some(Item::Boolean(false))
            }
            b':' => {
                self.skip(b':');
                self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.skip(b':').then_some(Item::Other)
            }
            first if first.is_ascii_alphabetic() || *first == b'*' => {
                self.take_while(|byte| byte.is_ascii_graphic() && !b"\"(),;<=>?@[\\]{}".contains(&byte));
                Some(Item::Other)
            }
            _ => None,
        }
    }

    /// RFC 8941 section 4.2.4.
    fn number(&mut self) -> Option<Item> {
        let is_negative = self.skip(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        if self.skip(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            return (digits.len() <= 12 && (1..=3).contains(&fraction.len())).then_some(Item::Other);
        }
        let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(Item::Integer(if is_negative { -number } else { number }))
    }

    /// RFC 8941 section 4.2.5.
    fn string(&mut self) -> Option<Item> {
        self.skip(b'"');
        loop {
            self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if self.skip(b'"') {
                return Some(Item::Other);
            }
            if !(self.skip(b'\\') && (self.skip(b'"') || self.skip(b'\\'))) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    #[test]
    fn priorities_are_read_as_the_standard_says() {
        let check = |value: &str, expected: Option<(u8, bool)>| {
            let priority = Priority::parse(value.as_bytes());
            assert_eq!(priority.map(|priority| (priority.urgency, priority.is_incremental)), expected, "{value}");
        };
        check("", Some((3, false)));
        check("u=5, i", Some((5, true)));
        check("i,u=0", Some((0, true)));
        check("u=1;a;b=2 \t,\t i=?0", Some((1, false)));
        check("u=7,u=2", Some((2, false)));
        check(" i=?1 ", Some((3, true)));
        // What it cannot be is not there.
        check("u=8, i=1", Some((3, false)));
        check("u=-1", Some((3, false)));
        check("u=2.5", Some((3, false)));
        check("u=\"1\"", Some((3, false)));
        check("u=(1 2;a), i", Some((3, true)));
        check("x=\"a\\\"b\", y=:YQ==:, *z=to/ken:x, u=4", Some((4, false)));
        // No dictionaries.
        for wrong in [
            "u=",
            "u=1,",
            ",u=1",
            "u=1 i",
            "U=1",
            "u=1;",
            "x=\"a",
            "x=\"\\a\"",
            "i=?2",
            "i=?",
            "x=:a",
            "x=(1",
            "x=(1,2)",
            "u=1.",
            "u=1234567890123456",
            "=1",
            "u=@1",
            "\u{e4}=1",
        ] {
            check(wrong, None);
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(value in vec(any::<u8>(), 0..40), text in "[ui=?01,; ()\"\\\\a:.-]{0,30}") {
            let _ = Priority::parse(&value);
            let priority = Priority::parse(text.as_bytes());
            assert!(priority.is_none_or(|priority| priority.urgency <= 7));
        }
    }
}
