//! One attempt at a certificate, as a machine without sockets, files and clocks (RFC 8555, section 7).
//!
//! ```text
//!  Directory ─▶ Account ─▶ Order ─▶ Authorizations ─▶ Prove ─▶ Begin ─▶ Validate ─▶ Ready ─▶ Finalize ─▶ Issue ─▶ Download ─▶ Done
//!                            │            └── all valid already ────────────────────────▲
//!                            └── ready already, or picked up where it was ─────────────▲
//! ```
//!
//! Whoever drives it calls [`Attempt::poll`] and does what that says: sends a request and gives what came back to
//! [`Attempt::handle_response`], shows proofs and tells [`Attempt::handle_shown`], notes the order so that a restart picks it up,
//! or waits. A nonce that the authority refuses is replaced at once; all else that goes wrong ends the attempt with a [`Failure`].

use std::{sync::Arc, time::Duration};

use haproxycfg::model::{ChallengeKind, ExternalAccount};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tls::PrivateKey;

use crate::{
    jws::{AccountKey, base64url},
    messages::{Authorization, Directory, Identifier, Order, Request, Response, Status},
    problem::{Failure, Problem},
    proof::Proof,
};

/// Nonces that are refused in a row before an attempt fails.
const NONCES_REFUSED_MAX: u32 = 30;
/// How long an authority may take to look at proofs, and to make a certificate, counted in what it is waited for.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks, where the authority says nothing; and the most that it may say.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// Authorizations of an order.
const AUTHORIZATIONS_MAX: usize = 1_000;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The URL of the authority's directory.
    pub directory: String,
    /// `contact`
    pub contact: Option<String>,
    /// The names, addresses among them.
    pub names: Vec<Identifier>,
    /// How they are proven.
    pub challenge: ChallengeKind,
    /// `profile`
    pub profile: Option<String>,
    /// The certificate that is renewed, as RFC 9773 names it.
    pub replaces: Option<String>,
    /// What binds the account.
    pub external_account: Option<ExternalAccount>,
}

/// What is to be done.
#[derive(Debug)]
pub enum Step {
    /// Send this, and give what comes back to [`Attempt::handle_response`].
    Send(Request),
    /// Note this order, with the key of its certificate: it can be picked up.
    Note(String),
    /// Show these proofs, then call [`Attempt::handle_shown`].
    Show(Vec<Proof>),
    /// Wait for so long, then poll.
    Wait(Duration),
    /// Here is the certificate, with its chain, in PEM form.
    Done(String),
}

/// How far an attempt is.
#[derive(Debug)]
enum Stage {
    Directory,
    Account,
    Order,
    PickUp(String),
    Authorizations(usize),
    Prove,
    Begin(usize),
    Validate(usize),
    Ready,
    Finalize,
    Issue,
    Download(String),
    Done(String),
}

/// A proof and where it is begun and looked after.
#[derive(Debug)]
struct Task {
    proof: Proof,
    authorization: String,
    challenge: String,
    begins: bool,
}

/// One attempt.
#[derive(Debug)]
pub struct Attempt {
    wanted: Wanted,
    account_key: Arc<AccountKey>,
    key: PrivateKey,
    stage: Stage,
    directory: Directory,
    account: Option<String>,
    nonce: Option<String>,
    awaits_nonce: bool,
    nonces_refused: u32,
    order_url: String,
    order: Option<Order>,
    pick_up: Option<String>,
    tasks: Vec<Task>,
    note: Option<String>,
    wait: Option<Duration>,
    waited: Duration,
}

impl Attempt {
    /// One with this account and the key of the certificate. `pick_up` is the order of a former attempt with that key.
    #[must_use]
    pub fn new(wanted: Wanted, account_key: Arc<AccountKey>, key: PrivateKey, pick_up: Option<String>) -> Self {
        Self {
            wanted,
            account_key,
            key,
            stage: Stage::Directory,
            directory: Directory::default(),
            account: None,
            nonce: None,
            awaits_nonce: false,
            nonces_refused: 0,
            order_url: String::new(),
            order: None,
            pick_up,
            tasks: Vec::new(),
            note: None,
            wait: None,
            waited: Duration::ZERO,
        }
    }

    /// The key of the certificate.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The authority, once it has been asked.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What is to be done next.
    ///
    /// # Errors
    /// When the attempt has failed.
    pub fn poll(&mut self) -> Result<Step, Failure> {
        if let Some(order) = self.note.take() {
            return Ok(Step::Note(order));
        }
        if let Some(pause) = self.wait.take() {
            return Ok(Step::Wait(pause));
        }
        let (url, payload) = match &self.stage {
            Stage::Directory => return Ok(get("GET", &self.wanted.directory)),
            Stage::Account => (self.directory.new_account.clone(), Some(self.account_payload()?)),
            Stage::Order => (self.directory.new_order.clone(), Some(self.order_payload())),
            Stage::PickUp(url) | Stage::Download(url) => (url.clone(), None),
            Stage::Authorizations(index) => (self.authorization_url(*index)?, None),
            Stage::Prove => return Ok(Step::Show(self.tasks.iter().map(|task| task.proof.clone()).collect())),
            Stage::Begin(index) => (self.task(*index)?.challenge.clone(), Some(json!({}))),
            Stage::Validate(index) => (self.task(*index)?.authorization.clone(), None),
            Stage::Ready | Stage::Issue => (self.order_url.clone(), None),
            Stage::Finalize => (self.order()?.finalize.clone(), Some(self.finalize_payload()?)),
            Stage::Done(certificate) => return Ok(Step::Done(certificate.clone())),
        };
        let Some(nonce) = self.nonce.take() else {
            self.awaits_nonce = true;
            return Ok(get("HEAD", &self.directory.new_nonce));
        };
        // An account is made by its key, which names itself.
        let account = self.account.as_deref().filter(|_| !matches!(self.stage, Stage::Account));
        let body = self.account_key.sign(&url, &nonce, account, payload.as_ref());
        let body = body.map_err(|error| Failure::new(format!("cannot sign with the key of the account: {error}")))?;
        Ok(Step::Send(Request { method: "POST", url, body }))
    }

    /// Takes what came back for the last request.
    ///
    /// # Errors
    /// When the attempt has failed.
    pub fn handle_response(&mut self, response: Response) -> Result<(), Failure> {
        if response.nonce.is_some() {
            self.nonce.clone_from(&response.nonce);
        }
        if std::mem::take(&mut self.awaits_nonce) {
            return match (response.is_fine(), self.nonce.is_some()) {
                (true, true) => Ok(()),
                (true, false) => {
                    Err(Failure::new("the authority gives no nonce: is 'directory' that of ACME (RFC 8555)?"))
                }
                (false, _) => Err(self.refused(&response)),
            };
        }
        if !response.is_fine() {
            return self.handle_refusal(&response);
        }
        self.nonces_refused = 0;
        match std::mem::replace(&mut self.stage, Stage::Directory) {
            Stage::Directory => self.take_directory(&response),
            Stage::Account => self.take_account(response),
            Stage::Order => self.take_order(&response),
            Stage::PickUp(url) => self.take_former_order(url, &response),
            Stage::Authorizations(index) => self.take_authorization(index, &response),
            Stage::Begin(index) => self.take_begun(index),
            Stage::Validate(index) => self.take_validation(index, &response),
            Stage::Ready => self.take_ready(&response),
            Stage::Finalize | Stage::Issue => self.take_issue(&response),
            Stage::Download(_) => {
                let certificate = String::from_utf8(response.body);
                let certificate =
                    certificate.map_err(|_| Failure::new("the authority sends a certificate that is no PEM"))?;
                self.stage = Stage::Done(certificate);
                Ok(())
            }
            stage @ (Stage::Prove | Stage::Done(_)) => {
                self.stage = stage;
                Ok(())
            }
        }
    }

    /// Notes that the proofs are shown.
    pub fn handle_shown(&mut self) {
        if matches!(self.stage, Stage::Prove) {
            self.go_on_beginning(0);
        }
    }

    /// An answer that says no.
    fn handle_refusal(&mut self, response: &Response) -> Result<(), Failure> {
        let problem = Problem::read(&response.body);
        if problem.name() == "badNonce" {
            self.nonces_refused += 1;
            if self.nonces_refused > NONCES_REFUSED_MAX {
                return Err(Failure::new(format!("the authority refuses nonce after nonce: {}", problem.text())));
            }
            return Ok(());
        }
        match &self.stage {
            // The order is gone, or is another account's: a new one takes its place.
            Stage::PickUp(_) if matches!(response.status, 400..=499) && response.status != 429 => {
                self.stage = Stage::Order;
                Ok(())
            }
            // RFC 9773, section 5: what it replaces has been replaced.
            Stage::Order if self.wanted.replaces.is_some() && matches!(response.status, 400 | 409) => {
                self.wanted.replaces = None;
                Ok(())
            }
            _ => Err(self.refused(response)),
        }
    }

    /// Why the authority does not do what was asked for at this stage.
    fn refused(&self, response: &Response) -> Failure {
        let problem = Problem::read(&response.body);
        let what = match &self.stage {
            Stage::Directory => "shows no directory",
            Stage::Account => "makes no account",
            Stage::Order | Stage::PickUp(_) => "takes no order",
            Stage::Authorizations(_) | Stage::Validate(_) => "does not say how far it is",
            Stage::Prove | Stage::Begin(_) => "does not look at a proof",
            Stage::Ready | Stage::Finalize | Stage::Issue => "makes no certificate",
            Stage::Download(_) | Stage::Done(_) => "does not hand out the certificate",
        };
        let (status, host) = (response.status, host_of(&self.wanted.directory));
        let text = format!("{host} {what} (status {status}): {}", problem.text());
        // One that has its own troubles, or wants to be asked less, keeps the order.
        let keeps = matches!(response.status, 429 | 500..=599) && !matches!(self.stage, Stage::Order);
        let failure = Failure::new(text).retry_after(response.retry_after);
        if keeps { failure.keeping_order() } else { failure }
    }

    fn read<T: DeserializeOwned>(&self, response: &Response) -> Result<T, Failure> {
        serde_json::from_slice(&response.body).map_err(|error| {
            let host = host_of(&self.wanted.directory);
            Failure::new(format!("{host} sends what is no answer of ACME (RFC 8555): {error}; look at 'directory'"))
        })
    }

    fn take_directory(&mut self, response: &Response) -> Result<(), Failure> {
        self.directory = self.read(response)?;
        if let Some(profile) = &self.wanted.profile
            && !self.directory.meta.profiles.is_empty()
            && !self.directory.meta.profiles.contains_key(profile)
        {
            let known: Vec<&str> = self.directory.meta.profiles.keys().map(String::as_str).collect();
            return Err(Failure::new(format!("the authority has no profile '{profile}'; it has {}", known.join(", "))));
        }
        self.stage = Stage::Account;
        Ok(())
    }

    fn account_payload(&self) -> Result<Value, Failure> {
        let mut payload = json!({"termsOfServiceAgreed": true});
        let Some(members) = payload.as_object_mut() else { return Ok(payload) };
        if let Some(contact) = &self.wanted.contact {
            let contact = if contact.contains(':') { contact.clone() } else { format!("mailto:{contact}") };
            members.insert("contact".to_owned(), json!([contact]));
        }
        match &self.wanted.external_account {
            Some(external) => {
                let binding = self.account_key.bind(&self.directory.new_account, external);
                members.insert("externalAccountBinding".to_owned(), binding);
            }
            // One that is there already needs none.
            None if self.directory.meta.external_account_required => {
                members.insert("onlyReturnExisting".to_owned(), json!(true));
            }
            None => {}
        }
        Ok(payload)
    }

    fn take_account(&mut self, response: Response) -> Result<(), Failure> {
        let Some(account) = response.location else {
            return Err(Failure::new("the authority does not say where the account is (Location)"));
        };
        self.account = Some(account);
        self.stage = self.pick_up.take().map_or(Stage::Order, Stage::PickUp);
        Ok(())
    }

    fn order_payload(&self) -> Value {
        let mut payload = json!({"identifiers": self.wanted.names});
        if let Some(members) = payload.as_object_mut() {
            if let Some(profile) = &self.wanted.profile {
                members.insert("profile".to_owned(), json!(profile));
            }
            if let Some(replaces) = self.wanted.replaces.as_ref().filter(|_| self.directory.renewal_info.is_some()) {
                members.insert("replaces".to_owned(), json!(replaces));
            }
        }
        payload
    }

    fn take_order(&mut self, response: &Response) -> Result<(), Failure> {
        let order: Order = self.read(response)?;
        let Some(url) = &response.location else {
            return Err(Failure::new("the authority does not say where the order is (Location)"));
        };
        self.order_url.clone_from(url);
        self.note = Some(url.clone());
        self.go_on_with(order, response.retry_after)
    }

    fn take_former_order(&mut self, url: String, response: &Response) -> Result<(), Failure> {
        let order: Order = self.read(response)?;
        let sorted = |names: &[Identifier]| {
            let mut names: Vec<_> = names.iter().map(|it| (it.kind.clone(), it.value.to_ascii_lowercase())).collect();
            names.sort_unstable();
            names
        };
        let is_ours = sorted(&order.identifiers) == sorted(&self.wanted.names);
        if !is_ours || !matches!(order.status, Status::Pending | Status::Ready | Status::Processing | Status::Valid) {
            self.stage = Stage::Order;
            return Ok(());
        }
        self.order_url = url;
        self.go_on_with(order, response.retry_after)
    }

    /// Goes on as an order's status says.
    fn go_on_with(&mut self, order: Order, pause: Option<Duration>) -> Result<(), Failure> {
        if order.authorizations.len() > AUTHORIZATIONS_MAX {
            return Err(Failure::new("the authority wants too many proofs for one order"));
        }
        match order.status {
            Status::Pending => self.stage = Stage::Authorizations(0),
            Status::Ready => self.stage = Stage::Finalize,
            Status::Processing => {
                self.stage = Stage::Issue;
                self.pause(pause)?;
            }
            Status::Valid => {
                let Some(url) = &order.certificate else {
                    return Err(Failure::new("the authority does not say where the certificate is"));
                };
                self.stage = Stage::Download(url.clone());
            }
            Status::Invalid | Status::Deactivated | Status::Expired | Status::Revoked => {
                let why = order.error.as_ref().map_or_else(|| "it gives no reason".to_owned(), Problem::text);
                return Err(Failure::new(format!("the authority has given up the order: {why}")));
            }
        }
        self.order = Some(order);
        Ok(())
    }

    fn authorization_url(&self, index: usize) -> Result<String, Failure> {
        let url = self.order()?.authorizations.get(index);
        url.cloned().ok_or_else(|| Failure::new("the authority's order has no authorization"))
    }

    fn take_authorization(&mut self, index: usize, response: &Response) -> Result<(), Failure> {
        let authorization: Authorization = self.read(response)?;
        match authorization.status {
            Status::Valid => {}
            Status::Pending => {
                let url = self.authorization_url(index)?;
                let task = self.task_of(authorization, url)?;
                self.tasks.push(task);
            }
            other => {
                let name = &authorization.identifier.value;
                return Err(Failure::new(format!("the authority takes no proof for '{name}': it is {other:?}")));
            }
        }
        let is_last = index + 1 >= self.order()?.authorizations.len();
        self.stage = match (is_last, self.tasks.is_empty()) {
            (false, _) => Stage::Authorizations(index + 1),
            (true, false) => Stage::Prove,
            (true, true) => Stage::Ready,
        };
        Ok(())
    }

    /// What is to be shown for an authorization.
    fn task_of(&self, authorization: Authorization, url: String) -> Result<Task, Failure> {
        let kind = self.wanted.challenge;
        let name = authorization.identifier.value;
        let offered = authorization.challenges.iter().find(|challenge| challenge.kind == kind.name());
        let Some(challenge) = offered else {
            let offered: Vec<&str> = authorization.challenges.iter().map(|it| it.kind.as_str()).collect();
            return Err(Failure::new(format!(
                "the authority does not take {} for '{name}', but {}; see 'challenge'",
                kind.name(),
                offered.join(", ")
            )));
        };
        // RFC 8555, section 8: it stands in URLs and paths, so nothing but letters of base64url may be in it.
        let is_token = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
        if !challenge.token.bytes().all(is_token) || challenge.token.is_empty() && kind != ChallengeKind::DnsPersist01 {
            return Err(Failure::new("the authority sends a token that is none"));
        }
        let authorization_text = match kind {
            ChallengeKind::DnsPersist01 => {
                let issuer = challenge.issuers.first().map_or("", String::as_str);
                let account = self.account.as_deref().unwrap_or_default();
                let policy = if authorization.wildcard { "; policy=wildcard" } else { "" };
                format!("{issuer}; accounturi={account}{policy}")
            }
            _ => format!("{}.{}", challenge.token, self.account_key.thumbprint()),
        };
        let token = challenge.token.clone();
        let proof = Proof { kind, name, token, authorization: authorization_text, wildcard: authorization.wildcard };
        let begins = challenge.status == Status::Pending;
        Ok(Task { proof, authorization: url, challenge: challenge.url.clone(), begins })
    }

    fn task(&self, index: usize) -> Result<&Task, Failure> {
        self.tasks.get(index).ok_or_else(|| Failure::new("there is no such proof"))
    }

    fn take_begun(&mut self, index: usize) -> Result<(), Failure> {
        self.go_on_beginning(index + 1);
        Ok(())
    }

    /// The next challenge that is to be begun, or else the first one that is looked after.
    fn go_on_beginning(&mut self, from: usize) {
        let next = self.tasks.iter().enumerate().skip(from).find(|(_, task)| task.begins).map(|(index, _)| index);
        self.stage = match next {
            Some(index) => Stage::Begin(index),
            None => Stage::Validate(0),
        };
    }

    fn take_validation(&mut self, index: usize, response: &Response) -> Result<(), Failure> {
        let authorization: Authorization = self.read(response)?;
        let kind = self.wanted.challenge.name();
        match authorization.status {
            Status::Valid if index + 1 < self.tasks.len() => self.stage = Stage::Validate(index + 1),
            Status::Valid => {
                self.stage = Stage::Ready;
                self.waited = Duration::ZERO;
            }
            Status::Pending | Status::Processing => {
                self.stage = Stage::Validate(index);
                self.pause(response.retry_after)?;
            }
            _ => {
                let own = authorization.challenges.iter().find(|challenge| challenge.kind == kind);
                let error = own.and_then(|challenge| challenge.error.as_ref());
                let why = error.map_or_else(|| "it gives no reason".to_owned(), |error| error.text_of_proof(kind));
                let name = authorization.identifier.value;
                return Err(Failure::new(format!("the authority does not find the proof of '{name}' ({kind}): {why}")));
            }
        }
        Ok(())
    }

    fn take_ready(&mut self, response: &Response) -> Result<(), Failure> {
        let order: Order = self.read(response)?;
        if order.status == Status::Pending {
            self.stage = Stage::Ready;
            return self.pause(response.retry_after);
        }
        self.go_on_with(order, response.retry_after)
    }

    fn finalize_payload(&self) -> Result<Value, Failure> {
        let wrong = |error: tls::KeyError| Failure::new(format!("cannot ask for the certificate: {error}"));
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for name in &self.wanted.names {
            match name.value.parse() {
                Ok(address) if name.kind == "ip" => addresses.push(address),
                _ => names.push(name.value.clone()),
            }
        }
        let request = tls::certificate_request(&self.key, &names, &addresses).map_err(wrong)?;
        Ok(json!({"csr": base64url(&request)}))
    }

    fn take_issue(&mut self, response: &Response) -> Result<(), Failure> {
        let order: Order = self.read(response)?;
        if order.status == Status::Ready {
            // NOTE: some say so once more before they begin.
            self.stage = Stage::Issue;
            return self.pause(response.retry_after);
        }
        self.go_on_with(order, response.retry_after)
    }

    fn order(&self) -> Result<&Order, Failure> {
        self.order.as_ref().ok_or_else(|| Failure::new("there is no order"))
    }

    /// Waits as the authority says, but not for ever.
    fn pause(&mut self, wanted: Option<Duration>) -> Result<(), Failure> {
        let pause = wanted.unwrap_or(PAUSE).clamp(Duration::from_secs(1), PAUSE_MAX);
        self.waited += pause;
        if self.waited > PATIENCE {
            let minutes = PATIENCE.as_secs() / 60;
            let text = format!("{} has been at it for {minutes} minutes", host_of(&self.wanted.directory));
            return Err(Failure::new(text).keeping_order());
        }
        self.wait = Some(pause);
        Ok(())
    }
}

fn get(method: &'static str, url: &str) -> Step {
    Step::Send(Request { method, url: url.to_owned(), body: Vec::new() })
}

/// The host of a URL, for messages.
#[must_use]
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}
