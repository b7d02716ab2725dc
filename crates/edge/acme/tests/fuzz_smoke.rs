//! A short run of the fuzz target: answers of an authority that mean something, and others.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/acme.rs"]
mod answers;

use proptest::{collection::vec, prelude::*};

const BODIES: &[&str] = &[
    r#"{"newNonce":"https://ca.example/n","newAccount":"https://ca.example/a","newOrder":"https://ca.example/o","meta":{"profiles":{"short":"x"}}}"#,
    "{}",
    r#"{"status":"pending","authorizations":["https://ca.example/z/1"],"finalize":"https://ca.example/f"}"#,
    r#"{"status":"ready","authorizations":[],"finalize":"https://ca.example/f"}"#,
    r#"{"status":"processing","finalize":"https://ca.example/f"}"#,
    r#"{"status":"valid","finalize":"https://ca.example/f","certificate":"https://ca.example/c"}"#,
    r#"{"status":"invalid","finalize":"","error":{"type":"urn:ietf:params:acme:error:dns","detail":"a\nb"}}"#,
    r#"{"status":"pending","identifier":{"type":"dns","value":"example.com"},"challenges":[{"type":"http-01","url":"https://ca.example/h","status":"pending","token":"t"},{"type":"dns-01","url":"https://ca.example/d","status":"pending","token":"t"},{"type":"tls-alpn-01","url":"https://ca.example/t","status":"pending","token":"t"}]}"#,
    r#"{"status":"valid","identifier":{"type":"dns","value":"example.com"},"challenges":[]}"#,
    r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"again"}"#,
    r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"later"}"#,
    "-----BEGIN CERTIFICATE-----\n",
];

/// An answer whose kind is at most as it should be, in the order that attempts ask.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let how = prop_oneof![6 => Just(0u8), 1 => any::<u8>()];
    let body = prop_oneof![
        12 => prop::sample::select(BODIES).prop_map(|body| body.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ];
    (how, body).prop_map(|(how, body)| framed(how, &body))
}

fn framed(how: u8, body: &[u8]) -> Vec<u8> {
    [&[how][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

#[test]
fn the_target_goes_to_the_end() {
    let steps = [0, 1, 2, 7, 1, 8, 3, 5, 11];
    let walk: Vec<u8> = steps.iter().flat_map(|step| framed(0, BODIES[*step].as_bytes())).collect();
    assert!(answers::answers(&[&[0][..], &walk].concat()));
    assert!(!answers::answers(&[&[0][..], &walk[..walk.len() - 40]].concat()));
}

proptest! {
    #[test]
    fn anything_is_answered(first in any::<u8>(), answers in vec(answer(), 0..30)) {
        // The beginning of an attempt, so that more than its directory is asked for.
        let begun = [framed(0, BODIES[0].as_bytes()), framed(0, b""), framed(0, b"{}")].concat();
        answers::answers(&[vec![first], begun, answers.concat()].concat());
        answers::answers(&[vec![first], answers.concat()].concat());
    }
}
