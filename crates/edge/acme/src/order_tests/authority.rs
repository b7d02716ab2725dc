//! An authority without sockets that takes nothing on trust: each signature is verified, each nonce counts once, and each request
//! must be the one that an order's state allows.

use std::collections::{HashMap, HashSet, VecDeque};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::{
    jws::from_base64url,
    messages::{Request, Response},
    proof::Proof,
};

/// What an authority does that others do not.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    /// Nonces that it refuses, one after the other, before it takes one.
    pub refused_nonces: u32,
    /// Authorizations that are valid from the beginning.
    pub known: HashSet<String>,
    /// How often an authorization is still pending when asked.
    pub slow_authorizations: u32,
    /// How often an order is still processing when asked.
    pub slow_orders: u32,
    /// `Retry-After`
    pub retry_after: Option<u64>,
    /// It wants accounts to be bound.
    pub binds: bool,
    /// It refuses this identifier's proofs.
    pub refuses: Option<String>,
    /// It answers the request to this path with this status and body, once for each.
    pub strange: VecDeque<(String, u16, String)>,
    /// It says that what an order replaces has been replaced.
    pub has_replaced: bool,
}

#[derive(Debug)]
struct TestOrder {
    identifiers: Value,
    status: &'static str,
    authorizations: Vec<usize>,
    looks: u32,
}

#[derive(Debug)]
struct TestAuthorization {
    identifier: Value,
    wildcard: bool,
    status: &'static str,
    looks: u32,
    is_begun: bool,
}

/// The authority.
#[derive(Debug, Default)]
pub struct Authority {
    pub habits: Habits,
    nonces: HashSet<String>,
    issued_nonces: u32,
    /// Keys of accounts, by URL.
    accounts: HashMap<String, Value>,
    orders: Vec<TestOrder>,
    authorizations: Vec<TestAuthorization>,
    pub shown: Vec<Proof>,
    /// What each request went to.
    pub log: Vec<String>,
    /// The payloads of new orders.
    pub ordered: Vec<Value>,
    pub bound: Vec<Value>,
}

const HOST: &str = "https://ca.example";

fn problem(status: u16, kind: &str, detail: &str) -> Response {
    let body = json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail});
    Response { status, body: body.to_string().into_bytes(), ..Response::default() }
}

fn verify(key: &Value, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
    let part = |name: &str| from_base64url(key[name].as_str().unwrap_or_default()).unwrap_or_default();
    let point = [vec![4], part("x"), part("y")].concat();
    match algorithm {
        "ES256" => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok(),
        "ES384" => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature).is_ok(),
        _ => false,
    }
}

impl Authority {
    pub fn new(habits: Habits) -> Self {
        Self { habits, ..Self::default() }
    }

    fn with_nonce(&mut self, response: Response) -> Response {
        self.issued_nonces += 1;
        let nonce = format!("nonce{}", self.issued_nonces);
        self.nonces.insert(nonce.clone());
        Response { nonce: Some(nonce), ..response }
    }

    /// What it says to a request.
    pub fn answer(&mut self, request: &Request) -> Response {
        let path = request.url.strip_prefix(HOST).expect("all URLs are its own").to_owned();
        self.log.push(format!("{} {path}", request.method));
        if self.habits.strange.front().is_some_and(|(wanted, ..)| *wanted == path) {
            let (_, status, body) = self.habits.strange.pop_front().unwrap();
            let retry_after = self.habits.retry_after.map(std::time::Duration::from_secs);
            return self.with_nonce(Response { status, retry_after, body: body.into_bytes(), ..Response::default() });
        }
        match (request.method, &*path) {
            ("GET", "/dir") => self.directory(),
            ("HEAD", "/nonce") => self.with_nonce(Response { status: 200, ..Response::default() }),
            ("POST", _) => {
                let response = self.signed(&path, &request.body);
                self.with_nonce(response)
            }
            other => panic!("a request that nobody makes: {other:?}"),
        }
    }

    fn directory(&self) -> Response {
        let body = json!({
            "newNonce": format!("{HOST}/nonce"), "newAccount": format!("{HOST}/account"), "newOrder": format!("{HOST}/order"),
            "renewalInfo": format!("{HOST}/ari"), "unknown": {"x": 1},
            "meta": {"externalAccountRequired": self.habits.binds, "profiles": {"classic": "c"}},
        });
        Response { status: 200, body: body.to_string().into_bytes(), ..Response::default() }
    }

    fn signed(&mut self, path: &str, body: &[u8]) -> Response {
        let whole: Value = serde_json::from_slice(body).expect("a body is JSON");
        let text = |name: &str| whole[name].as_str().expect("a part of the body").to_owned();
        let protected: Value = serde_json::from_slice(&from_base64url(&text("protected")).unwrap()).unwrap();
        assert_eq!(protected["url"], json!(format!("{HOST}{path}")), "the URL is signed");
        let key = match protected.get("kid") {
            Some(account) => self.accounts[account.as_str().unwrap()].clone(),
            None => protected["jwk"].clone(),
        };
        assert_eq!(protected.get("kid").is_none(), path == "/account", "the account is named once there is one");
        let message = format!("{}.{}", text("protected"), text("payload"));
        let signature = from_base64url(&text("signature")).unwrap();
        assert!(verify(&key, protected["alg"].as_str().unwrap(), message.as_bytes(), &signature), "a signature");
        let nonce = protected["nonce"].as_str().unwrap();
        assert!(self.nonces.remove(nonce), "{nonce} is none of the nonces that have not been used");
        if self.habits.refused_nonces > 0 {
            self.habits.refused_nonces -= 1;
            return problem(400, "badNonce", "stale");
        }
        let payload = from_base64url(&text("payload")).unwrap();
        let payload = if payload.is_empty() { None } else { Some(serde_json::from_slice(&payload).unwrap()) };
        self.authorized(path, &key, payload)
    }

    fn authorized(&mut self, path: &str, key: &Value, payload: Option<Value>) -> Response {
        let number = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.parse::<usize>().ok());
        match path {
            "/account" => self.account(key, &payload.unwrap()),
            "/order" => self.new_order(payload.unwrap()),
            _ if number("/order/").is_some() => self.order(number("/order/").unwrap(), payload),
            _ if number("/authz/").is_some() => self.authorization(number("/authz/").unwrap(), payload),
            _ if number("/chall/").is_some() => self.begin(number("/chall/").unwrap(), &payload.unwrap()),
            _ if number("/finalize/").is_some() => self.finalize(number("/finalize/").unwrap(), &payload.unwrap()),
            _ if number("/cert/").is_some() => {
                assert_eq!(payload, None);
                Response { status: 200, body: b"CERTIFICATE".to_vec(), ..Response::default() }
            }
            _ => panic!("{path} is nowhere"),
        }
    }

    fn account(&mut self, key: &Value, payload: &Value) -> Response {
        let known = self.accounts.iter().find(|(_, known)| *known == key).map(|(url, _)| url.clone());
        if known.is_none() && payload["onlyReturnExisting"] == json!(true) {
            return problem(400, "accountDoesNotExist", "who?");
        }
        if known.is_none() && self.habits.binds {
            let binding = &payload["externalAccountBinding"];
            assert!(binding.is_object(), "an account is bound");
            self.bound.push(binding.clone());
        }
        let url = known.unwrap_or_else(|| format!("{HOST}/acct/{}", self.accounts.len()));
        self.accounts.insert(url.clone(), key.clone());
        Response { status: 201, location: Some(url), body: b"{}".to_vec(), ..Response::default() }
    }

    fn new_order(&mut self, payload: Value) -> Response {
        self.ordered.push(payload.clone());
        if self.habits.has_replaced && payload.get("replaces").is_some() {
            return problem(409, "alreadyReplaced", "by another");
        }
        let mut authorizations = Vec::new();
        for identifier in payload["identifiers"].as_array().unwrap() {
            let name = identifier["value"].as_str().unwrap();
            let (name, wildcard) = name.strip_prefix("*.").map_or((name, false), |name| (name, true));
            let status = if self.habits.known.contains(name) { "valid" } else { "pending" };
            let identifier = json!({"type": identifier["type"], "value": name});
            authorizations.push(self.authorizations.len());
            self.authorizations.push(TestAuthorization { identifier, wildcard, status, looks: 0, is_begun: false });
        }
        let order =
            TestOrder { identifiers: payload["identifiers"].clone(), status: "pending", authorizations, looks: 0 };
        self.orders.push(order);
        let index = self.orders.len() - 1;
        Response { status: 201, location: Some(format!("{HOST}/order/{index}")), ..self.order(index, None) }
    }

    fn order(&mut self, index: usize, payload: Option<Value>) -> Response {
        assert_eq!(payload, None, "an order is asked for without a payload");
        let order = &mut self.orders[index];
        let all_valid = order.authorizations.iter().all(|it| self.authorizations[*it].status == "valid");
        if order.status == "pending" && all_valid {
            order.status = "ready";
        } else if order.status == "processing" {
            order.looks += 1;
            if order.looks > self.habits.slow_orders {
                order.status = "valid";
            }
        }
        let urls: Vec<String> = order.authorizations.iter().map(|it| format!("{HOST}/authz/{it}")).collect();
        let mut body = json!({
            "status": order.status, "identifiers": order.identifiers, "authorizations": urls,
            "finalize": format!("{HOST}/finalize/{index}"), "expires": "2099-01-01T00:00:00Z",
        });
        if order.status == "valid" {
            body["certificate"] = json!(format!("{HOST}/cert/{index}"));
        }
        let retry_after = self.habits.retry_after.map(std::time::Duration::from_secs);
        Response { status: 200, retry_after, body: body.to_string().into_bytes(), ..Response::default() }
    }

    fn authorization(&mut self, index: usize, payload: Option<Value>) -> Response {
        assert_eq!(payload, None, "an authorization is asked for without a payload");
        let slow = self.habits.slow_authorizations;
        let authorization = &mut self.authorizations[index];
        if authorization.is_begun && authorization.status == "pending" {
            authorization.looks += 1;
            if authorization.looks > slow {
                let is_refused = self.habits.refuses.as_deref() == authorization.identifier["value"].as_str();
                authorization.status = if is_refused { "invalid" } else { "valid" };
            }
        }
        let error = json!({"type": "urn:ietf:params:acme:error:connection", "detail": "refused"});
        let challenge = |kind: &str| {
            let mut challenge = json!({
                "type": kind, "url": format!("{HOST}/chall/{index}"), "token": format!("token-{index}_{kind}"),
                "status": if authorization.status == "pending" { "pending" } else { authorization.status },
            });
            if kind == "dns-persist-01" {
                challenge["issuer-domain-names"] = json!(["ca.example"]);
                challenge.as_object_mut().unwrap().remove("token");
            }
            if authorization.status == "invalid" {
                challenge["error"] = error.clone();
            }
            challenge
        };
        let kinds: &[&str] = if authorization.wildcard {
            &["dns-01", "dns-persist-01"]
        } else {
            &["dns-01", "http-01", "tls-alpn-01", "dns-persist-01", "new-99"]
        };
        let mut body = json!({
            "status": authorization.status, "identifier": authorization.identifier,
            "challenges": kinds.iter().map(|kind| challenge(kind)).collect::<Vec<_>>(),
        });
        if authorization.wildcard {
            body["wildcard"] = json!(true);
        }
        let retry_after = self.habits.retry_after.map(std::time::Duration::from_secs);
        Response { status: 200, retry_after, body: body.to_string().into_bytes(), ..Response::default() }
    }

    fn begin(&mut self, index: usize, payload: &Value) -> Response {
        assert_eq!(*payload, json!({}));
        let authorization = &mut self.authorizations[index];
        assert!(!authorization.is_begun, "a challenge is begun once");
        assert_eq!(authorization.status, "pending");
        let name = authorization.identifier["value"].as_str().unwrap();
        let is_shown = |proof: &Proof| proof.name == name && proof.wildcard == authorization.wildcard;
        assert!(self.shown.iter().any(is_shown), "the proof of '{name}' is shown before it is looked at");
        authorization.is_begun = true;
        Response { status: 200, body: b"{}".to_vec(), ..Response::default() }
    }

    fn finalize(&mut self, index: usize, payload: &Value) -> Response {
        // It becomes ready as it is looked at.
        self.order(index, None);
        assert_eq!(self.orders[index].status, "ready", "only an order that is ready is finalized");
        let request = from_base64url(payload["csr"].as_str().unwrap()).unwrap();
        for identifier in self.orders[index].identifiers.as_array().unwrap() {
            let name = identifier["value"].as_str().unwrap();
            let bytes = match name.parse::<std::net::Ipv4Addr>() {
                Ok(address) => address.octets().to_vec(),
                Err(_) => name.as_bytes().to_vec(),
            };
            assert!(request.windows(bytes.len()).any(|window| window == bytes), "'{name}' is in the request");
        }
        self.orders[index].status = "processing";
        self.order(index, None)
    }
}
