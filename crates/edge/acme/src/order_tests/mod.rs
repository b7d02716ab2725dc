//! Attempts against an authority that is strict.

mod authority;

use std::{sync::Arc, time::Duration};

use haproxycfg::model::{ChallengeKind, ExternalAccount, MacAlgorithm};
use serde_json::json;
use tls::{Curve, KeyType, PrivateKey};

use self::authority::{Authority, Habits};
use crate::{
    jws::AccountKey,
    messages::Identifier,
    order::{Attempt, Step, Wanted},
    problem::Failure,
};

fn account(curve: Curve) -> Arc<AccountKey> {
    Arc::new(AccountKey::new(PrivateKey::generate(KeyType::Ecdsa(curve)).unwrap()).unwrap())
}

fn names(names: &[&str]) -> Vec<Identifier> {
    let kind = |name: &str| if name.parse::<std::net::IpAddr>().is_ok() { "ip" } else { "dns" };
    names.iter().map(|name| Identifier { kind: kind(name).to_owned(), value: (*name).to_owned() }).collect()
}

fn wanted(of: &[&str], challenge: ChallengeKind) -> Wanted {
    Wanted {
        directory: "https://ca.example/dir".to_owned(),
        contact: Some("ops@example.com".to_owned()),
        names: names(of),
        challenge,
        profile: None,
        replaces: None,
        external_account: None,
    }
}

fn attempt(wanted: Wanted, account: &Arc<AccountKey>, pick_up: Option<String>) -> Attempt {
    let key = PrivateKey::generate(KeyType::Ecdsa(Curve::P256)).unwrap();
    Attempt::new(wanted, Arc::clone(account), key, pick_up)
}

/// What came of it: the certificate, the orders to note, and how long was waited for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    certificate: String,
    noted: Vec<String>,
    waited: Duration,
}

fn drive(attempt: &mut Attempt, authority: &mut Authority) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for _ in 0..10_000 {
        match attempt.poll()? {
            Step::Send(request) => {
                let response = authority.answer(&request);
                attempt.handle_response(response)?;
            }
            Step::Note(url) => outcome.noted.push(url),
            Step::Show(proofs) => {
                authority.shown = proofs;
                attempt.handle_shown();
            }
            Step::Wait(pause) => outcome.waited += pause,
            Step::Done(certificate) => return Ok(Outcome { certificate, ..outcome }),
        }
    }
    panic!("it goes on for ever: {:?}", authority.log);
}

#[test]
fn a_certificate_comes() {
    for (curve, kind) in [
        (Curve::P256, ChallengeKind::Http01),
        (Curve::P384, ChallengeKind::TlsAlpn01),
        (Curve::P256, ChallengeKind::Dns01),
        (Curve::P384, ChallengeKind::DnsPersist01),
    ] {
        let (account, mut authority) = (account(curve), Authority::new(Habits::default()));
        let of: &[&str] =
            if kind.is_record() { &["example.com", "*.example.com"] } else { &["example.com", "www.example.com"] };
        let outcome = drive(&mut attempt(wanted(of, kind), &account, None), &mut authority).unwrap();
        assert_eq!(outcome.certificate, "CERTIFICATE");
        assert_eq!(outcome.noted, ["https://ca.example/order/0"]);
        assert_eq!(authority.shown.len(), 2);
        for proof in &authority.shown {
            match kind {
                ChallengeKind::DnsPersist01 => {
                    let policy = if proof.wildcard { "; policy=wildcard" } else { "" };
                    assert_eq!(
                        proof.record_text(),
                        format!("ca.example; accounturi=https://ca.example/acct/0{policy}")
                    );
                    assert_eq!(proof.record_name().unwrap(), "_validation-persist.example.com");
                }
                _ => assert_eq!(proof.authorization, format!("{}.{}", proof.token, account.thumbprint())),
            }
        }
    }
}

#[test]
fn habits_of_authorities_are_borne() {
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    for (habits, waits_least, waits_most) in [
        (Habits { refused_nonces: 20, ..Habits::default() }, 0, 60),
        (Habits { known: known(&["example.com", "www.example.com"]), ..Habits::default() }, 0, 60),
        (Habits { known: known(&["example.com"]), slow_authorizations: 3, ..Habits::default() }, 6, 60),
        (Habits { slow_authorizations: 4, retry_after: Some(7), ..Habits::default() }, 28, 90),
        (Habits { slow_orders: 20, retry_after: Some(3), ..Habits::default() }, 60, 120),
    ] {
        let mut authority = Authority::new(habits.clone());
        let wanted = wanted(&["example.com", "www.example.com"], ChallengeKind::Http01);
        let outcome = drive(&mut attempt(wanted, &account(Curve::P256), None), &mut authority).unwrap();
        let waited = outcome.waited.as_secs();
        assert!((waits_least..=waits_most).contains(&waited), "{waited} {habits:?}");
    }
}

#[test]
fn an_order_that_does_not_end_is_picked_up() {
    let (account, mut authority) =
        (account(Curve::P256), Authority::new(Habits { slow_orders: 400, ..Habits::default() }));
    let wanted = wanted(&["example.com"], ChallengeKind::Http01);
    let failure = drive(&mut attempt(wanted.clone(), &account, None), &mut authority).unwrap_err();
    assert!(failure.keeps_order, "{failure:?}");
    assert!(failure.text.contains("ca.example has been at it for 10 minutes"), "{failure:?}");
    authority.habits.slow_orders = 0;
    let order = || Some("https://ca.example/order/0".to_owned());
    let outcome = drive(&mut attempt(wanted.clone(), &account, order()), &mut authority).unwrap();
    assert_eq!((outcome.certificate.as_str(), authority.ordered.len()), ("CERTIFICATE", 1));
    // One for other names, or that is gone, is not.
    let others = Wanted { names: names(&["other.example"]), ..wanted.clone() };
    drive(&mut attempt(others, &account, order()), &mut authority).unwrap();
    assert_eq!(authority.ordered.len(), 2);
    authority.habits.strange.push_back(("/order/0".to_owned(), 404, String::new()));
    drive(&mut attempt(wanted, &account, order()), &mut authority).unwrap();
    assert_eq!(authority.ordered.len(), 3);
}

#[test]
fn an_order_says_what_it_replaces_and_by_which_profile() {
    let mut authority = Authority::new(Habits { has_replaced: true, ..Habits::default() });
    let wanted = Wanted {
        replaces: Some("aki.serial".to_owned()),
        profile: Some("classic".to_owned()),
        ..wanted(&["192.0.2.1"], ChallengeKind::Http01)
    };
    drive(&mut attempt(wanted.clone(), &account(Curve::P256), None), &mut authority).unwrap();
    let identifiers = json!([{"type": "ip", "value": "192.0.2.1"}]);
    assert_eq!(
        authority.ordered,
        [
            json!({"identifiers": identifiers, "profile": "classic", "replaces": "aki.serial"}),
            json!({"identifiers": identifiers, "profile": "classic"}),
        ]
    );
    let unknown = Wanted { profile: Some("tiny".to_owned()), ..wanted };
    let failure = drive(&mut attempt(unknown, &account(Curve::P256), None), &mut authority).unwrap_err();
    assert_eq!(failure.text, "the authority has no profile 'tiny'; it has classic");
}

#[test]
fn accounts_are_bound_once() {
    let (account, mut authority) = (account(Curve::P256), Authority::new(Habits { binds: true, ..Habits::default() }));
    let without = wanted(&["example.com"], ChallengeKind::Http01);
    let failure = drive(&mut attempt(without.clone(), &account, None), &mut authority).unwrap_err();
    assert!(failure.text.contains("eab-key-id"), "{failure:?}");
    let external = ExternalAccount { key_id: "kid-1".to_owned(), mac_key: vec![7; 32], algorithm: MacAlgorithm::Hs384 };
    let bound = Wanted { external_account: Some(external), ..without.clone() };
    drive(&mut attempt(bound, &account, None), &mut authority).unwrap();
    assert_eq!(authority.bound.len(), 1);
    drive(&mut attempt(without, &account, None), &mut authority).unwrap();
    assert_eq!(authority.bound.len(), 1);
}

#[test]
fn what_fails_says_why_and_when_to_come_back() {
    let limited = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many"}"#;
    for (path, status, body, retry_after, keeps, expected) in [
        ("/dir", 503, "", Some(60), true, "ca.example shows no directory (status 503): it gives no reason"),
        ("/dir", 200, "<html>", None, false, "sends what is no answer of ACME (RFC 8555)"),
        ("/dir", 200, "{}", None, false, "sends what is no answer of ACME (RFC 8555)"),
        ("/nonce", 500, "", None, true, "makes no account (status 500)"),
        ("/order", 429, limited, Some(3_600), false, "takes no order (status 429): too many (rateLimited)"),
        ("/order", 201, "{}", None, false, "sends what is no answer"),
        (
            "/authz/0",
            200,
            r#"{"status":"pending","identifier":{"type":"dns","value":"a"},"challenges":[]}"#,
            None,
            false,
            "does not take http-01 for 'a'",
        ),
        (
            "/authz/0",
            200,
            r#"{"status":"expired","identifier":{"type":"dns","value":"a"}}"#,
            None,
            false,
            "takes no proof for 'a'",
        ),
        (
            "/authz/0",
            200,
            r#"{"status":"pending","identifier":{"type":"dns","value":"a"},"challenges":[{"type":"http-01","status":"pending","token":"../../etc"}]}"#,
            None,
            false,
            "a token that is none",
        ),
        ("/chall/0", 500, "", None, true, "does not look at a proof (status 500)"),
        ("/finalize/0", 500, "", None, true, "makes no certificate (status 500)"),
        ("/cert/0", 502, "", None, true, "does not hand out the certificate (status 502)"),
    ] {
        let strange = [(path.to_owned(), status, body.to_owned())].into();
        let mut authority = Authority::new(Habits { strange, retry_after, ..Habits::default() });
        let wanted = wanted(&["example.com"], ChallengeKind::Http01);
        let failure = drive(&mut attempt(wanted, &account(Curve::P256), None), &mut authority).unwrap_err();
        assert!(failure.text.contains(expected), "{path}: {failure:?}");
        assert_eq!((failure.keeps_order, failure.retry_after), (keeps, retry_after.map(Duration::from_secs)), "{path}");
    }
    let mut authority = Authority::new(Habits { refuses: Some("b.example".to_owned()), ..Habits::default() });
    let both = wanted(&["a.example", "b.example"], ChallengeKind::Http01);
    let failure = drive(&mut attempt(both, &account(Curve::P256), None), &mut authority).unwrap_err();
    let expected = "the authority does not find the proof of 'b.example' (http-01): refused (connection); the authority must reach this machine";
    assert!(failure.text.starts_with(expected), "{failure:?}");
    let mut authority = Authority::new(Habits { refused_nonces: 1_000, ..Habits::default() });
    let failure =
        drive(&mut attempt(wanted(&["a.example"], ChallengeKind::Http01), &account(Curve::P256), None), &mut authority);
    assert!(failure.unwrap_err().text.contains("refuses nonce after nonce"));
    assert!(authority.log.len() < 100);
}

#[test]
fn nothing_that_an_authority_sends_is_too_much() {
    // Whatever is sent in place of each answer, an attempt ends.
    let bodies = [
        "",
        "null",
        "[]",
        "{\"status\":\"valid\"}",
        "{\"status\":\"pending\",\"finalize\":\"x\"}",
        "\u{0}",
        "{\"status\":7}",
    ];
    for body in bodies {
        for path in
            ["/dir", "/nonce", "/account", "/order", "/authz/0", "/chall/0", "/order/0", "/finalize/0", "/cert/0"]
        {
            for status in [200, 400, 404, 429, 503] {
                let strange = [(path.to_owned(), status, body.to_owned())].into();
                let mut authority = Authority::new(Habits { strange, ..Habits::default() });
                let wanted = wanted(&["example.com"], ChallengeKind::Http01);
                let _ = drive(&mut attempt(wanted, &account(Curve::P256), None), &mut authority);
            }
        }
    }
}
