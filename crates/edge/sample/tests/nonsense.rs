//! Random text is refused or works, and never more.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use sample::*;
use support::*;

/// A generator of text made of what expressions are made of.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % most
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// An argument: often one that fits, sometimes anything.
    fn argument(&mut self, kind: ArgumentType) -> String {
        match (self.below(8), kind) {
            (0, _) => {
                self.pick(&["", "\"", "'", "\\", "(", "\u{e9}\u{20ac}", "-9223372036854775808", "\\n"]).to_owned()
            }
            (_, ArgumentType::Sint) => {
                self.pick(&["0", "1", "-1", "5", "99999999999", "-99999999999", "+3"]).to_owned()
            }
            (_, ArgumentType::Ipv4) => self.pick(&["1.2.3.4", "255.255.255.255"]).to_owned(),
            (_, ArgumentType::Mask4) => self.pick(&["0", "24", "32", "33", "255.0.0.1"]).to_owned(),
            (_, ArgumentType::Ipv6) => self.pick(&["::1", "1:2:3:4:5:6:7:8"]).to_owned(),
            (_, ArgumentType::Mask6) => self.pick(&["0", "64", "128", "ffff::"]).to_owned(),
            (_, ArgumentType::Regex) => {
                self.pick(&["a*", "(.)(.)", "^", "$", "(?=x)", "(a+)+b", "[", ".*", "x|", "\\\\b"]).to_owned()
            }
            _ => self
                .pick(&[
                    "txn.a",
                    "host",
                    "a",
                    "GET",
                    "file",
                    "true",
                    "ms",
                    "%Y%%%",
                    "query",
                    "utf8s",
                    "$.a[0].b",
                    "sha1",
                    ",",
                    "\"a,b\"",
                    "ifexists",
                    "x-list",
                    "int",
                    "g",
                    "\\\\1\\\\0",
                    "0a0b",
                    "be/srv",
                ])
                .to_owned(),
        }
    }

    fn arguments(&mut self, kinds: &[ArgumentType], required: usize) -> String {
        if self.below(20) == 0 {
            return self.pick(&["(", "()", "(,)", "(x", ")", "(a,b,c,d,e,f)"]).to_owned();
        }
        let count = required + self.below(kinds.len() - required + 1);
        if count == 0 {
            return String::new();
        }
        let arguments: Vec<String> = kinds.iter().take(count).map(|kind| self.argument(*kind)).collect();
        format!("({})", arguments.join(","))
    }

    fn expression(&mut self) -> String {
        let (fetches, converters): (Vec<_>, Vec<_>) = (fetches().collect(), converters().collect());
        let fetch = fetches[self.below(fetches.len())];
        let mut text = format!("{}{}", fetch.name, self.arguments(fetch.arguments, fetch.required));
        for _ in 0..self.below(4) {
            let converter = converters[self.below(converters.len())];
            text.push(',');
            text.push_str(converter.name);
            text.push_str(&self.arguments(converter.arguments, converter.required));
        }
        text
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        const BYTES: &[u8] = b"abcXYZ019 %[]{}(),.:;/?\\\"'!+-=*#\x00\x80\xff\n";
        (0..length).map(|_| BYTES[self.below(BYTES.len())]).collect()
    }
}

fn stream(random: &mut Random) -> Stream {
    let mut stream = Stream::request("/a/b?c=d&e", &[("Host", "h:80"), ("X-List", "a,,\"b,c\", d")]);
    let uri: Vec<u8> = random.bytes(40).into_iter().filter(u8::is_ascii_graphic).collect();
    stream.uri = String::from_utf8(uri).unwrap();
    for name in ["cookie", "authorization", "accept-language", "x-list", "host"] {
        let value = random.bytes(60);
        stream.headers.add(name.as_bytes(), &value);
    }
    stream.body = random.bytes(300);
    stream.request_buffer = Some(random.bytes(300));
    stream.set("txn.a", Value::bin(random.bytes(30)).into_static());
    stream.request_line = Some(String::from_utf8_lossy(&random.bytes(40)).into_owned());
    stream
}

#[test]
fn expressions() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let files = Files(std::collections::BTreeMap::from([("file".to_owned(), b"a b\n1 2\nc\n".to_vec())]));
    let mut taken = 0;
    for _ in 0..6000 {
        let text = random.expression();
        let Ok(expression) = expression_with(&text, &files) else { continue };
        taken += 1;
        let stream = stream(&mut random);
        for options in [Options::REQUEST, Options::RESPONSE, Options::REQUEST_PARTIAL, Options::RESPONSE_PARTIAL] {
            if let Some(value) = expression.evaluate(&stream, options).value() {
                for to in [Type::Bool, Type::Sint, Type::Addr, Type::Ipv4, Type::Ipv6, Type::Str, Type::Bin, Type::Meth]
                {
                    let kind = value.kind();
                    let cast = value.clone().cast(to);
                    assert!(cast.is_none() || kind.casts_to(to), "{text}: {kind} became {to}");
                }
            }
            let mut count = 0;
            expression.each(&stream, options, |_| {
                count += 1;
                count < 1000
            });
            assert!(count < 1000, "{text} has no end");
        }
    }
    assert!(taken > 600, "only {taken} expressions were taken: the generator tests little");
}

#[test]
fn anything_at_all() {
    let mut random = Random(42);
    let none = Files::default();
    for _ in 0..10_000 {
        let bytes = random.bytes(40);
        with_parser(&none, |parser| {
            let _ = Expression::parse_text(&bytes, parser);
            let _ = LogFormat::parse(&bytes, Places::ALL, LogFormatOptions::LOG, parser);
            let _ = VariableName::parse(&bytes);
            let words: Vec<&[u8]> = bytes.split(|byte| *byte == b' ').collect();
            let mut acls = AclSet::new();
            let _ = acls.declare(&words, parser);
            let mut condition = vec![&b"if"[..]];
            condition.extend(&words);
            let _ = Condition::parse(&condition, &mut acls, parser);
        });
        let _ = Regex::new(&bytes, true).map(|regex| regex.groups(&bytes));
    }
}

#[test]
fn formats() {
    let mut random = Random(7);
    let none = Files::default();
    let mut taken = 0;
    for _ in 0..4000 {
        let mut text = String::new();
        for _ in 0..random.below(6) {
            match random.below(6) {
                0 => text.push_str(random.pick(&[" ", "a", "%%", "%", "%{", "{+Q}", "\u{e9}", "\"", "%{+Q,-M}o"])),
                1 | 2 => {
                    let variable = LOG_VARIABLES[random.below(LOG_VARIABLES.len())].name;
                    text.push_str(random.pick(&["%", "%{+X}", "%{+Q}", "%{-Q,+E}"]));
                    text.push_str(variable);
                    text.push(' ');
                }
                3 => text.push_str(&format!("%[{}]", random.expression())),
                _ => text.push_str(random.pick(&["x", "  ", "-"])),
            }
        }
        let parsed = with_parser(&none, |parser| {
            let options = [LogFormatOptions::LOG, LogFormatOptions::RULE, LogFormatOptions::PLAIN][taken % 3];
            LogFormat::parse(&text, Places::ALL, options, parser)
        });
        if let Ok(format) = parsed {
            taken += 1;
            let _ = format.to_vec(&stream(&mut random));
        }
    }
    assert!(taken > 400, "only {taken} formats were taken");
}
