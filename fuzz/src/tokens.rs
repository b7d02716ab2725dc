//! Body for the verification of JSON Web Tokens in `sample`: files of keys, tokens, signatures.

use sample::{Buffer, Context, Expression, Loader, Options, ParseContext, PatternReferences, Type, Value};

/// A token that came in.
struct Token<'a>(&'a [u8]);

impl Context for Token<'_> {
    fn request_buffer(&self) -> Option<Buffer<'_>> {
        Some(Buffer { bytes: self.0, ..Buffer::default() })
    }
}

/// Every file is this one.
struct OneFile<'a>(&'a [u8]);

impl Loader for OneFile<'_> {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.to_vec())
    }
}

/// Up to a zero byte the file of a key, then a token: no bytes break the reader of either, and the answer is one of HAProxy's.
pub fn verify(data: &[u8]) {
    let (key, token) = data.iter().position(|byte| *byte == 0).map_or((data, data), |end| data.split_at(end));
    let token = token.strip_prefix(b"\0").unwrap_or(token);
    let (file, mut patterns) = (OneFile(key), PatternReferences::new());
    let mut parser = ParseContext::new("fuzz", 1, "p", false, &file, &mut patterns);
    for algorithm in ["HS256", "RS256", "RS384", "ES256", "ES512"] {
        let text = format!("req.payload(0,0),jwt_verify({algorithm},a-secret.pem)");
        let Ok(expression) = Expression::parse_text(&text, &mut parser) else { panic!("{text}") };
        match expression.value(&Token(token), Options::REQUEST, Type::Sint) {
            None | Some(Value::Sint(0 | 1 | -3 | -5)) => {}
            other => panic!("{text}: {other:?}"),
        }
    }
}
