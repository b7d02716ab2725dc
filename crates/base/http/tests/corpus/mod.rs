//! Reads the case files of smuggling/.

/// A case of a file.
pub struct Case {
    /// Its name.
    #[allow(dead_code, reason = "the fuzz smoke needs no names")]
    pub name: String,
    /// What is expected, in the words of the file.
    pub expected: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The cases of a file.
pub fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            cases.push(Case { name: name.to_owned(), expected: String::new(), bytes: Vec::new() });
        } else if let Some(case) = cases.last_mut()
            && !line.starts_with("# ")
        {
            if case.expected.is_empty() {
                case.expected = line.to_owned();
            } else {
                case.bytes.extend(unescape(line));
            }
        }
    }
    cases
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (byte, len) = match (first, rest.get(1..2)) {
            ('\\', Some("r")) => (b"\r".to_vec(), 2),
            ('\\', Some("n")) => (b"\n".to_vec(), 2),
            ('\\', Some("t")) => (b"\t".to_vec(), 2),
            ('\\', Some("0")) => (b"\0".to_vec(), 2),
            ('\\', Some("\\")) => (b"\\".to_vec(), 2),
            ('\\', Some("x")) => (vec![u8::from_str_radix(&rest[2..4], 16).unwrap()], 4),
            ('\\', Some("{")) => {
                let end = closing_brace(rest);
                let (count, repeated) = rest[2..end].split_once('*').unwrap();
                (unescape(repeated).repeat(count.parse().unwrap()), end + 1)
            }
            ('\\', _) => panic!("unknown escape in {text}"),
            (other, _) => (other.to_string().into_bytes(), other.len_utf8()),
        };
        bytes.extend(byte);
        rest = &rest[len..];
    }
    bytes
}

/// Where the brace that `text` opens is closed.
fn closing_brace(text: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    panic!("no closing brace in {text}")
}
