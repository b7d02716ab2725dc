//! Queries of transactions.

use telemetry::query::{Entry, Query};

/// What stands before the first zero byte is the query, and what follows the text of records of all tags.
pub fn query(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (query, text) = data.split_at(end);
    let text = text.get(1..).unwrap_or_default();
    let query = String::from_utf8_lossy(query);
    let parsed = match Query::parse(&query) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(query.get(error.range.clone()).is_some(), "the place of an error is within the query");
            assert!(error.show(&query).starts_with(&error.message));
            return;
        }
    };
    let entries: Vec<Entry<'_>> =
        (0..=255).map(|tag| Entry { level: u32::from(tag % 3), transaction: u64::from(tag), tag, text }).collect();
    let found = parsed.matches(&entries);
    // `not` and parentheses mean what they say, of a query on one line.
    if !query.contains(['\n', '#', '\\']) {
        let negated = Query::parse(&format!("not ({query})"));
        assert!(negated.is_ok_and(|negated| negated.matches(&entries) != found));
    }
    // One of two is true where one is.
    assert_eq!(Query::any([parsed.clone(), parsed]).is_some_and(|both| both.matches(&entries)), found);
}
