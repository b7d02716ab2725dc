//! The conditions of `.if` and `.elif` (chapter 2.4 of HAProxy's manual).
//!
//! ```text
//! or   = and [ "||" or ]
//! and  = term [ "&&" and ]
//! term = *"!" ( integer | "(" or ")" | predicate "(" arguments ")" )
//! ```

use std::collections::BTreeMap;

/// The version of HAProxy whose language this is, which `version_atleast` compares with.
pub const HAPROXY_VERSION: &str = "2.6.12";

/// The library of TLS, as HAProxy names those that stand for OpenSSL: `ssllib_name_startswith` compares with it.
pub const TLS_LIBRARY: &str = "AWS-LC";
/// The version of OpenSSL that it stands for, as AWS-LC in HAProxy says: `openssl_version_atleast` compares with it.
pub const OPENSSL_VERSION: &str = "1.1.1";

/// What `feature` knows, by HAProxy's names, and whether it is there.
pub const FEATURES: &[(&str, bool)] = &[
    ("51DEGREES", false),
    ("ACCEPT4", true),
    ("BACKTRACE", true),
    ("CPU_AFFINITY", true),
    ("CRYPT_H", true),
    ("DEVICEATLAS", false),
    ("EPOLL", true),
    ("GETADDRINFO", true),
    ("KQUEUE", false),
    ("LIBCRYPT", true),
    ("LINUX_SPLICE", true),
    ("LINUX_TPROXY", true),
    ("LUA", false),
    ("NETFILTER", true),
    ("NS", true),
    // What asks for it wants TLS by the keywords that HAProxy has with it.
    ("OPENSSL", true),
    ("OT", false),
    ("PCRE", false),
    ("PCRE2", false),
    ("POLL", true),
    ("PRCTL", true),
    ("PROMEX", true),
    ("QUIC", true),
    ("SLZ", true),
    ("SYSTEMD", true),
    ("TFO", true),
    ("THREAD", true),
    ("TPROXY", true),
    ("WURFL", false),
    ("ZLIB", false),
];

const DEPTH_MAX: usize = 100;

const PREDICATES: &[(&str, usize)] = &[
    ("defined", 1),
    ("feature", 1),
    ("streq", 2),
    ("strneq", 2),
    ("version_atleast", 1),
    ("version_before", 1),
    ("openssl_version_atleast", 1),
    ("openssl_version_before", 1),
    ("ssllib_name_startswith", 1),
];

/// Why a condition cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// HAProxy's message.
    pub message: String,
    /// Byte of the condition's text.
    pub offset: usize,
}

/// Whether a condition holds; nothing at all does not.
///
/// # Errors
/// When it is malformed.
pub fn evaluate(text: &str, environment: &BTreeMap<String, String>) -> Result<bool, ConditionError> {
    let mut evaluator = Evaluator { text, position: 0, environment };
    if text.is_empty() {
        return Ok(false);
    }
    let holds = evaluator.or(DEPTH_MAX)?;
    evaluator.skip_blanks();
    match evaluator.rest().chars().next() {
        None => Ok(holds),
        Some(character) => Err(evaluator
            .error(format!("unexpected character '{character}' at the end of conditional expression '{text}'"))),
    }
}

struct Evaluator<'a> {
    text: &'a str,
    position: usize,
    environment: &'a BTreeMap<String, String>,
}

impl Evaluator<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn error(&self, message: String) -> ConditionError {
        ConditionError { message, offset: self.position }
    }

    fn unparsable(&self) -> ConditionError {
        self.error(format!("unparsable conditional expression '{}'", self.rest()))
    }

    fn skip_blanks(&mut self) {
        self.position += self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    }

    fn accept(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    fn or(&mut self, depth: usize) -> Result<bool, ConditionError> {
        let mut holds = self.and(depth)?;
        while self.accept("||") {
            holds |= self.and(depth)?;
        }
        Ok(holds)
    }

    fn and(&mut self, depth: usize) -> Result<bool, ConditionError> {
        let mut holds = self.term(depth)?;
        while self.accept("&&") {
            holds &= self.term(depth)?;
        }
        Ok(holds)
    }

    fn term(&mut self, depth: usize) -> Result<bool, ConditionError> {
        let Some(depth) = depth.checked_sub(1) else { return Err(self.unparsable()) };
        let mut negated = false;
        while self.accept("!") {
            negated = !negated;
        }
        self.skip_blanks();
        let holds = if self.accept("(") {
            let holds = self.or(depth)?;
            if !self.accept(")") {
                return Err(self.error(format!("expected ')' after conditional expression '{}'", self.text)));
            }
            holds
        } else if let Some(number) = self.integer() {
            number
        } else {
            self.predicate()?
        };
        Ok(holds != negated)
    }

    /// Whether the integer that stands here is not zero.
    fn integer(&mut self) -> Option<bool> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with(['-', '+']));
        let digits: &str = rest.get(sign..)?;
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        let is_set = digits.bytes().take(length).any(|digit| digit != b'0');
        self.position += sign + length;
        Some(is_set)
    }

    fn predicate(&mut self) -> Result<bool, ConditionError> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let name = rest.get(..length).unwrap_or_default();
        let Some(&(name, count)) = PREDICATES.iter().find(|(known, _)| *known == name) else {
            return Err(self.unparsable());
        };
        self.position += length;
        let arguments = self.arguments(name, count)?;
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        Ok(match name {
            "defined" => self.environment.contains_key(argument(0)),
            "feature" => FEATURES.iter().any(|(feature, is_there)| *is_there && *feature == argument(0)),
            "streq" => argument(0) == argument(1),
            "strneq" => argument(0) != argument(1),
            "version_atleast" => version(HAPROXY_VERSION) >= version(argument(0)),
            "version_before" => version(HAPROXY_VERSION) < version(argument(0)),
            "openssl_version_atleast" => version(OPENSSL_VERSION) >= version(argument(0)),
            "openssl_version_before" => version(OPENSSL_VERSION) < version(argument(0)),
            // `ssllib_name_startswith`
            _ => TLS_LIBRARY.starts_with(argument(0)),
        })
    }

    /// The arguments in parentheses, with quotes and backslashes as in those of samples.
    fn arguments(&mut self, name: &str, count: usize) -> Result<Vec<String>, ConditionError> {
        let wrong = |evaluator: &Self, problem: &str, position: usize| {
            evaluator
                .error(format!("{problem} in argument {position} of predicate '{name}' used in conditional expression"))
        };
        if !self.rest().starts_with('(') {
            return Err(wrong(self, &format!("missing arguments (got 0/{count}), type 'string' expected"), 0));
        }
        self.position += 1;
        let mut arguments = vec![String::new()];
        let mut quote = None;
        loop {
            let Some(character) = self.rest().chars().next() else {
                return Err(wrong(self, "expected ')'", arguments.len()));
            };
            self.position += character.len_utf8();
            let escaped = self.rest().chars().next();
            let next = match (character, quote) {
                ('"' | '\'', None) => {
                    quote = Some(character);
                    continue;
                }
                (_, Some(open)) if character == open => {
                    quote = None;
                    continue;
                }
                ('\\', None | Some('"')) => match escaped {
                    Some(escaped @ ('\\' | ' ' | '"' | '\'')) => {
                        self.position += escaped.len_utf8();
                        escaped
                    }
                    _ => '\\',
                },
                (')', None) => break,
                (',', None) if arguments.len() < count => {
                    arguments.push(String::new());
                    continue;
                }
                (',', None) => return Err(wrong(self, "expected ')' before ','", arguments.len())),
                _ => character,
            };
            if let Some(argument) = arguments.last_mut() {
                argument.push(next);
            }
        }
        if arguments.len() < count {
            let problem = format!("missing arguments (got {}/{count}), type 'string' expected", arguments.len());
            return Err(wrong(self, &problem, arguments.len()));
        }
        Ok(arguments)
    }
}

/// Numbers of a version as `2.6.12` or `2.4-dev19`; a development version precedes the first release of its branch.
fn version(text: &str) -> [i64; 4] {
    let (release, development) = text.split_once("-dev").map_or((text, None), |(release, rest)| (release, Some(rest)));
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text.get(..digits).and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0)
    };
    let mut parts = release.split('.');
    let mut next = || parts.next().map_or(0, number);
    let (major, minor, patch) = (next(), next(), next());
    match development {
        Some(development) => [major, minor, -1, number(development)],
        None => [major, minor, patch, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let environment = BTreeMap::from([("SET".to_owned(), String::new())]);
        for (text, expected) in [
            ("", false),
            ("0", false),
            ("1", true),
            ("!0", true),
            ("! ! 1", true),
            ("(0)", false),
            ("defined(SET)", true),
            ("defined(UNSET)", false),
            ("streq(a,a)", true),
            ("streq(\"a b\", a )", false),
            ("strneq(a,b)", true),
            ("feature(OPENSSL)", true),
            ("openssl_version_atleast(1.0.2)", true),
            ("openssl_version_atleast(3.0.0)", false),
            ("openssl_version_before(3.0.0-alpha1)", true),
            ("ssllib_name_startswith(OpenSSL)", false),
            ("ssllib_name_startswith(AWS-LC)", true),
            ("feature(THREAD)", true),
            ("feature(THR)", false),
            ("version_atleast(2.4-dev19)", true),
            ("version_atleast(2.6)", true),
            ("version_atleast(2.6.99)", false),
            ("version_before(2.7-dev1)", true),
            ("version_before(2.6-dev4)", false),
            ("0 && 1 || 1 && 1", true),
            ("1 || 0 && 0", true),
            ("(1 || 0) && 0", false),
            ("1 && !feature(LUA) && (defined(UNSET) || streq('x',x))", true),
        ] {
            assert_eq!(evaluate(text, &environment), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_conditions() {
        let environment = BTreeMap::new();
        for (text, message, offset) in [
            ("nope", "unparsable conditional expression 'nope'", 0),
            ("1 2", "unexpected character '2' at the end of conditional expression '1 2'", 2),
            ("(1", "expected ')' after conditional expression '(1'", 2),
            ("1 &&", "unparsable conditional expression ''", 4),
            (
                "streq(a)",
                "missing arguments (got 1/2), type 'string' expected in argument 1 of predicate 'streq' used in \
                 conditional expression",
                8,
            ),
        ] {
            assert_eq!(evaluate(text, &environment), Err(ConditionError { message: message.into(), offset }), "{text}");
        }
        let deep = "(".repeat(100_000);
        assert!(evaluate(&deep, &environment).is_err());
        let deep = "!".repeat(100_000) + "1";
        assert_eq!(evaluate(&deep, &environment), Ok(true));
    }
}
