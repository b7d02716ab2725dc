//! What an attempt at a certificate promises whatever an authority answers.

use std::{sync::LazyLock, time::Duration};

use acme::{
    jws::AccountKey,
    messages::{Identifier, Response},
    order::{Attempt, Step, Wanted},
    problem::Problem,
};
use haproxycfg::model::ChallengeKind;
use tls::{Curve, KeyType, PrivateKey};

static ACCOUNT: LazyLock<std::sync::Arc<AccountKey>> =
    LazyLock::new(|| std::sync::Arc::new(AccountKey::new(key()).unwrap()));

fn key() -> PrivateKey {
    PrivateKey::generate(KeyType::Ecdsa(Curve::P256)).unwrap()
}

/// What each byte says of an answer's status.
const STATUSES: [u16; 8] = [200, 201, 200, 204, 400, 403, 429, 503];

/// The bytes are answers: status and fields in one byte, the length of the body in two, the body. What they are, an attempt asks no more
/// than once for each, says what it does, waits within bounds, and has no certificate but the last answer. Whether it got one.
pub fn answers(data: &[u8]) -> bool {
    let Some((first, mut data)) = data.split_first() else { return false };
    let kinds = [ChallengeKind::Http01, ChallengeKind::Dns01, ChallengeKind::TlsAlpn01, ChallengeKind::DnsPersist01];
    let wanted = Wanted {
        directory: "https://ca.example/dir".to_owned(),
        contact: Some("ops@example.com".to_owned()),
        names: vec![Identifier { kind: "dns".to_owned(), value: "example.com".to_owned() }],
        challenge: kinds[usize::from(*first) % kinds.len()],
        profile: (first & 64 != 0).then(|| "short".to_owned()),
        replaces: None,
        external_account: None,
    };
    let pick_up = (first & 128 != 0).then(|| "https://ca.example/order/1".to_owned());
    let mut attempt = Attempt::new(wanted, std::sync::Arc::clone(&ACCOUNT), key(), pick_up);
    let (mut last, mut waited, mut steps) = (Vec::new(), Duration::ZERO, 0);
    loop {
        steps += 1;
        assert!(steps < 10_000, "it goes on for ever");
        let Ok(step) = attempt.poll() else { return false };
        match step {
            Step::Send(request) => {
                assert!(matches!(request.method, "GET" | "HEAD" | "POST"));
                assert_eq!(request.body.is_empty(), request.method != "POST");
                let [how, high, low, rest @ ..] = data else { return false };
                let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
                let (body, rest) = rest.split_at(length);
                data = rest;
                last = body.to_vec();
                let _ = Problem::read(body).text();
                let response = Response {
                    status: STATUSES[usize::from(how & 7)],
                    nonce: (how & 8 == 0).then(|| format!("nonce{steps}")),
                    location: (how & 16 == 0).then(|| format!("https://ca.example/at/{how}")),
                    retry_after: (how & 32 != 0).then(|| Duration::from_secs(u64::from(*how) * 1_000)),
                    body: body.to_vec(),
                };
                if attempt.handle_response(response).is_err() {
                    return false;
                }
            }
            Step::Note(order) => assert!(!order.is_empty()),
            Step::Show(proofs) => {
                assert!(proofs.len() <= 1_000);
                attempt.handle_shown();
            }
            Step::Wait(pause) => {
                waited += pause;
                assert!(waited <= Duration::from_secs(2_000));
            }
            Step::Done(certificate) => {
                assert_eq!(certificate.as_bytes(), last);
                return true;
            }
        }
    }
}
