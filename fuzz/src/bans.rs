//! Ban expressions: any text is one or is refused, and what a disk tier notes of one makes the same one again.

use cache::bans::Expression;

/// Reads what comes as VCL's `ban()` does.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Expression::parse(text) {
        Ok(expression) => {
            let words = expression.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let again = Expression::of_words(&words).map(|again| (again.words(), again.to_string()));
            assert_eq!(again, Ok((expression.words(), expression.to_string())));
            assert!(expression.is_about_requests() || expression.is_about_objects());
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}
