//! JSON Web Signatures as ACME has them (RFC 8555, section 6.2), keys as JSON (RFC 7517) and their thumbprints (RFC 7638).

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use haproxycfg::model::{ExternalAccount, MacAlgorithm};
use serde_json::{Value, json};
use tls::{KeyError, PrivateKey, PublicKey};

/// Base64 as URLs take it, without padding.
#[must_use]
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of that; padding is let pass.
#[must_use]
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

fn mac(algorithm: MacAlgorithm) -> hmac::Algorithm {
    match algorithm {
        MacAlgorithm::Hs256 => hmac::HMAC_SHA256,
        MacAlgorithm::Hs384 => hmac::HMAC_SHA384,
        MacAlgorithm::Hs512 => hmac::HMAC_SHA512,
    }
}

/// The key of an account, with what is asked of it for each request.
#[derive(Debug)]
pub struct AccountKey {
    key: PrivateKey,
    jwk: Value,
    thumbprint: String,
}

impl AccountKey {
    /// That of this key.
    ///
    /// # Errors
    /// When its public half has no form that is known.
    pub fn new(key: PrivateKey) -> Result<Self, KeyError> {
        // NOTE: members are in the order that thumbprints ask for (RFC 7638, section 3.3); serde_json keeps them sorted.
        let jwk = match key.public()? {
            PublicKey::Ecdsa { curve, x, y } => {
                json!({"crv": curve.name(), "kty": "EC", "x": base64url(&x), "y": base64url(&y)})
            }
            PublicKey::Rsa { n, e } => json!({"e": base64url(&e), "kty": "RSA", "n": base64url(&n)}),
        };
        let thumbprint = base64url(digest(&SHA256, jwk.to_string().as_bytes()).as_ref());
        Ok(Self { key, jwk, thumbprint })
    }

    /// Its thumbprint.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// A signed request. `account` is the URL of the account; before there is one the key itself goes along. Without a payload it
    /// only asks (POST-as-GET).
    ///
    /// # Errors
    /// When the library does not sign.
    pub fn sign(
        &self,
        url: &str,
        nonce: &str,
        account: Option<&str>,
        payload: Option<&Value>,
    ) -> Result<Vec<u8>, KeyError> {
        let mut protected = json!({"alg": self.key.jws_algorithm(), "nonce": nonce, "url": url});
        if let Some(members) = protected.as_object_mut() {
            match account {
                Some(account) => members.insert("kid".to_owned(), json!(account)),
                None => members.insert("jwk".to_owned(), self.jwk.clone()),
            };
        }
        let payload = payload.map_or_else(String::new, |payload| base64url(payload.to_string().as_bytes()));
        let protected = base64url(protected.to_string().as_bytes());
        let signature = self.key.jws_signature(format!("{protected}.{payload}").as_bytes())?;
        let whole = json!({"protected": protected, "payload": payload, "signature": base64url(&signature)});
        Ok(whole.to_string().into_bytes())
    }

    /// What binds the account to one that a person has elsewhere (RFC 8555, section 7.3.4).
    #[must_use]
    pub fn bind(&self, url: &str, external: &ExternalAccount) -> Value {
        let protected = json!({"alg": external.algorithm.name(), "kid": external.key_id, "url": url});
        let protected = base64url(protected.to_string().as_bytes());
        let payload = base64url(self.jwk.to_string().as_bytes());
        let key = hmac::Key::new(mac(external.algorithm), &external.mac_key);
        let tag = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        json!({"protected": protected, "payload": payload, "signature": base64url(tag.as_ref())})
    }
}

#[cfg(test)]
mod tests {
    use tls::{Curve, KeyType};

    use super::*;

    #[test]
    fn a_thumbprint_is_that_of_rfc_7638() {
        // The key of RFC 7638, section 3.1, has no private half, so its form is compared.
        let jwk = json!({"e": "AQAB", "kty": "RSA", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"});
        let thumbprint = base64url(digest(&SHA256, jwk.to_string().as_bytes()).as_ref());
        assert_eq!(thumbprint, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }

    #[test]
    fn requests_name_the_account_once_there_is_one() {
        let key = AccountKey::new(PrivateKey::generate(KeyType::Ecdsa(Curve::P256)).unwrap()).unwrap();
        let read = |body: &[u8]| {
            let whole: Value = serde_json::from_slice(body).unwrap();
            let part = |name: &str| from_base64url(whole[name].as_str().unwrap()).unwrap();
            (serde_json::from_slice::<Value>(&part("protected")).unwrap(), part("payload"))
        };
        let (protected, payload) = read(&key.sign("https://ca/new", "n1", None, Some(&json!({"a": 1}))).unwrap());
        assert_eq!(
            (&protected["alg"], &protected["nonce"], &protected["jwk"]),
            (&json!("ES256"), &json!("n1"), &key.jwk)
        );
        assert_eq!(payload, b"{\"a\":1}");
        let (protected, payload) = read(&key.sign("https://ca/order", "n2", Some("https://ca/acct/1"), None).unwrap());
        assert_eq!((&protected["kid"], protected.get("jwk")), (&json!("https://ca/acct/1"), None));
        assert!(payload.is_empty());
    }
}
