//! Who sees to one certificate: sleeps until it is time, asks for it, writes its file.

use std::{
    io::ErrorKind,
    net::IpAddr,
    sync::{Arc, PoisonError},
    time::Duration,
};

use haproxycfg::model::{Acme, AcmeCertificate, ChallengeKind};
use tls::{Certificate, Identity, Pem, PrivateKey};
use tokio::{
    sync::{Notify, Semaphore},
    time::{sleep, timeout},
};

use crate::{
    client::Client,
    dates,
    files::{FileError, Kept, KeptOrder, Place},
    host::{Host, Level},
    jws::AccountKey,
    messages::{Directory, Identifier, Request},
    order::{Attempt, Step, Wanted, host_of},
    problem::Failure,
    publication::Shown,
    renewal::{self, RenewalInfo},
    shared::{Entry, Inner},
    status::{State, now},
};

/// How long it sleeps at most: clocks are set, and files are replaced by others.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
/// How long it sleeps while another process asks for the same certificate.
const SLEEP_BESIDE: Duration = Duration::from_secs(30);
/// How often somebody is told of a certificate that ends soon.
const TELL_EVERY: i64 = 86_400;

/// The key of a certificate, and the order that goes on with it.
type KeyAndOrder = (PrivateKey, Option<String>);

/// Who sees to one certificate.
pub(crate) struct Keeper {
    certificate: AcmeCertificate,
    is_scheduled: bool,
    inner: Arc<Inner>,
    host: Arc<dyn Host>,
    places: Arc<Semaphore>,
    client: Client,
    file: Option<Place>,
    kept: Kept,
    /// Where between the earliest and the latest moment it renews, from 0 to 1.
    chance: f64,
    info_at: i64,
    told_at: i64,
}

impl Keeper {
    pub(crate) fn new(
        certificate: AcmeCertificate,
        is_scheduled: bool,
        inner: Arc<Inner>,
        (host, places): (Arc<dyn Host>, Arc<Semaphore>),
    ) -> Self {
        let file = match inner.folders.place(&certificate.file, None) {
            Ok(file) => Some(file),
            Err(why) => {
                let name = &certificate.name;
                host.tell(
                    Level::Warning,
                    &format!("certificate '{name}' cannot be kept: {why}; after a restart it is asked for again"),
                );
                None
            }
        };
        let kept = file.as_ref().map(|file| Kept::read(&file.beside("acme"))).unwrap_or_default();
        let client = Client::new(certificate.section.anchors.clone());
        let chance = random();
        Self { certificate, is_scheduled, inner, host, places, client, file, kept, chance, info_at: 0, told_at: 0 }
    }

    fn section(&self) -> &Arc<Acme> {
        &self.certificate.section
    }

    fn change<R: Default>(&self, change: impl FnOnce(&mut Entry) -> R) -> R {
        self.inner.change(&self.certificate.name, change).unwrap_or_default()
    }

    fn tell(&self, level: Level, text: &str) {
        self.host.tell(level, &format!("certificate '{}' {text}", self.certificate.name));
    }

    pub(crate) async fn run(mut self, wake: Arc<Notify>) {
        loop {
            self.take_file();
            self.tell_of_end();
            let due = self.due();
            let is_wanted = self.change(|entry| {
                entry.status.scheduled = due;
                entry.status.failures = self.kept.failures;
                entry.status.state = if due.is_some() { State::Scheduled } else { State::Stopped };
                std::mem::take(&mut entry.is_wanted)
            });
            let now = now();
            if is_wanted || due.is_some_and(|due| due <= now) {
                if !self.attempt_alone().await {
                    sleep(SLEEP_BESIDE).await;
                }
                continue;
            }
            if self.is_scheduled && self.info_at <= now && self.kept.failures == 0 {
                self.ask_when().await;
                continue;
            }
            let next =
                due.unwrap_or(i64::MAX).min(if self.is_scheduled { self.info_at.max(now + 1) } else { i64::MAX });
            let pause = Duration::from_secs(u64::try_from(next.saturating_sub(now)).unwrap_or(0)).min(SLEEP_MAX);
            let _ = timeout(pause, wake.notified()).await;
        }
    }

    /// When it is asked for next, if by itself.
    fn due(&self) -> Option<i64> {
        if !self.is_scheduled {
            return None;
        }
        let identity = self.change(|entry| entry.identity.clone());
        let wanted = match identity.as_ref().and_then(|identity| Certificate::read(identity.certificate())) {
            Some(certificate) if self.lacks(&certificate).is_none() => {
                let (begins, ends) = (certificate.begins_at()?, certificate.ends_at()?);
                let wanted = renewal::renewal_time((begins, ends), self.kept.window, self.chance);
                wanted.max(self.kept.issued_at.map_or(0, |issued| renewal::earliest(issued, ends)))
            }
            // There is none, or one for other names.
            _ => 0,
        };
        Some(wanted.max(self.kept.not_before).max(0))
    }

    /// A name that a certificate should be for and is not.
    fn lacks(&self, certificate: &Certificate<'_>) -> Option<String> {
        let names: Vec<&str> = certificate.dns_names().collect();
        let lacks_name = |name: &&String| !names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let lacks_address = |address: &&IpAddr| {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            !certificate.addresses().any(|known| known == bytes)
        };
        let name = self.certificate.domains.iter().find(lacks_name).cloned();
        name.or_else(|| self.certificate.addresses.iter().find(lacks_address).map(ToString::to_string))
    }

    /// Takes what stands in the file, if somebody has put a newer one there.
    fn take_file(&self) {
        let Some(bytes) = self.file.as_ref().and_then(|file| file.read().ok().flatten()) else { return };
        let Some(identity) = Pem::read(&bytes).ok().and_then(|pem| Identity::new(&pem).ok()) else { return };
        self.serve(Arc::new(identity));
    }

    /// Serves a certificate, unless there is a newer one.
    fn serve(&self, identity: Arc<Identity>) {
        if self.change(|entry| entry.take(Some(Arc::clone(&identity)))) {
            self.host.install(&self.certificate.name, &identity);
        }
    }

    /// Says once a day that a certificate ends soon.
    fn tell_of_end(&mut self) {
        let (now, status) = (now(), self.inner.change(&self.certificate.name, |entry| entry.status.clone()));
        let Some(status) = status.filter(|status| status.is_worrying(now)) else { return };
        if let Some(ends) = status.ends
            && now - self.told_at >= TELL_EVERY
        {
            self.told_at = now;
            let why = status.error.unwrap_or_else(|| "it has not been renewed".to_owned());
            let (when, left) = (dates::to_iso8601(ends), dates::lasting(ends - now));
            self.tell(Level::Alert, &format!("ends at {when}, in {left}: {why}"));
        }
    }

    /// Asks for the certificate, unless another process does; whether it did.
    async fn attempt_alone(&mut self) -> bool {
        let lock = match self.file.as_ref().map(|file| file.beside("lock").lock()) {
            Some(Ok(None)) => return false,
            // Without a folder, nobody shares it.
            Some(Ok(Some(lock))) => Some(lock),
            Some(Err(_)) | None => None,
        };
        let places = Arc::clone(&self.places);
        let _place = places.acquire().await;
        self.change(|entry| {
            entry.status.state = State::Running;
            entry.status.scheduled = Some(now());
        });
        match self.attempt().await {
            Ok(identity) => self.succeed(identity),
            Err(failure) => self.fail(&failure),
        }
        drop(lock);
        true
    }

    fn succeed(&mut self, identity: Arc<Identity>) {
        self.kept = Kept { issued_at: Some(now()), ..Kept::default() };
        (self.chance, self.info_at, self.told_at) = (random(), 0, 0);
        let ends = Certificate::read(identity.certificate()).and_then(|it| it.ends_at()).unwrap_or(0);
        self.serve(identity);
        self.change(|entry| {
            entry.status.renewed += 1;
            entry.status.error = None;
        });
        self.keep();
        let host = host_of(&self.section().directory);
        self.tell(Level::Notice, &format!("has come from {host}; it ends at {}", dates::to_iso8601(ends)));
    }

    fn fail(&mut self, failure: &Failure) {
        let now = now();
        self.kept.failures = self.kept.failures.saturating_add(1);
        let ends = self.change(|entry| {
            entry.status.failed += 1;
            entry.status.error = Some(failure.text.clone());
            entry.status.ends
        });
        let left = ends.map_or(i64::MAX, |ends| (ends - now).max(0));
        let left = Duration::from_secs(u64::try_from(left).unwrap_or(0));
        let pause = renewal::backoff(self.kept.failures, left, failure.retry_after, random());
        self.kept.not_before = now.saturating_add(i64::try_from(pause.as_secs()).unwrap_or(i64::MAX));
        if !failure.keeps_order {
            self.kept.order = None;
        }
        self.keep();
        let next = match self.is_scheduled {
            true => format!("the next attempt is at {}", dates::to_iso8601(self.kept.not_before)),
            false => "'acme renew' tries again".to_owned(),
        };
        let failures = self.kept.failures;
        self.tell(Level::Warning, &format!("has not come (attempt {failures}): {}; {next}", failure.text));
    }

    /// Keeps what a restart has to know.
    fn keep(&self) {
        if let Some(file) = &self.file
            && let Err(why) = self.kept.write(&file.beside("acme"))
        {
            self.tell(Level::Warning, &format!("is asked for anew after a restart: {why}"));
        }
    }

    /// One attempt.
    async fn attempt(&mut self) -> Result<Arc<Identity>, Failure> {
        let account = self.account_key()?;
        let (key, pick_up) = self.key()?;
        let mut attempt = Attempt::new(self.wanted(), Arc::clone(&account), key, pick_up);
        let mut shown = None;
        loop {
            match attempt.poll()? {
                Step::Send(request) => {
                    let response = self.client.ask(&request).await;
                    let host = host_of(&self.section().directory);
                    let unreachable = |why| Failure::new(format!("cannot ask {host}: {why}")).keeping_order();
                    attempt.handle_response(response.map_err(unreachable)?)?;
                }
                Step::Note(url) => {
                    self.kept.order = Some(KeptOrder {
                        url,
                        directory: self.section().directory.clone(),
                        names: self.names().into_iter().map(|name| name.value).collect(),
                        key: attempt.key().to_pem(),
                    });
                    self.keep();
                }
                Step::Show(proofs) => {
                    self.tell_of_records(&proofs);
                    let (showroom, host, section) = (&self.inner.showroom, &self.host, self.section());
                    let thumbprint = account.thumbprint();
                    shown = Some(
                        Shown::show(showroom, host, section, proofs, thumbprint)
                            .await
                            .map_err(|why| Failure::new(why.to_string()))?,
                    );
                    attempt.handle_shown();
                }
                Step::Wait(pause) => sleep(pause).await,
                Step::Done(certificate) => {
                    drop(shown);
                    return self.take_issued(&certificate, attempt.key());
                }
            }
        }
    }

    /// Which records of DNS must be there, where nobody but a person sets them.
    fn tell_of_records(&self, proofs: &[crate::proof::Proof]) {
        for proof in proofs.iter().filter(|proof| proof.kind == ChallengeKind::DnsPersist01) {
            let (name, text) = (proof.record_name().unwrap_or_default(), proof.record_text());
            self.tell(Level::Notice, &format!("needs this record of DNS, set once: {name}. IN TXT \"{text}\""));
        }
    }

    fn names(&self) -> Vec<Identifier> {
        let names =
            self.certificate.domains.iter().map(|name| Identifier { kind: "dns".to_owned(), value: name.clone() });
        let addresses = &self.certificate.addresses;
        names.chain(addresses.iter().map(|it| Identifier { kind: "ip".to_owned(), value: it.to_string() })).collect()
    }

    fn wanted(&self) -> Wanted {
        let section = self.section();
        let identity = self.change(|entry| entry.identity.clone());
        let former = identity.as_ref().and_then(|identity| Certificate::read(identity.certificate()));
        Wanted {
            directory: section.directory.clone(),
            contact: section.contact.clone(),
            names: self.names(),
            challenge: section.challenge,
            profile: section.profile.clone(),
            replaces: former.and_then(|certificate| renewal::certificate_id(&certificate)),
            external_account: section.external_account.clone(),
        }
    }

    /// The key of the account: that of its file, or a new one, which is written there.
    fn account_key(&self) -> Result<Arc<AccountKey>, Failure> {
        let section = self.section();
        let path = &section.account_key;
        let wrong = |why: String| Failure::new(format!("the key of the account cannot be used ('{path}'): {why}"));
        let mut accounts = self.inner.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.inner.folders.place(path, None);
        let stands = place.as_ref().ok().and_then(|place| place.read().ok().flatten());
        if let Some(bytes) = section.account_pem.as_deref().or(stands.as_deref()) {
            let key =
                PrivateKey::from_pem(bytes).and_then(AccountKey::new).map_err(|error| wrong(error.to_string()))?;
            return Ok(Arc::new(key));
        }
        if let Some(known) = accounts.get(path) {
            return Ok(Arc::clone(known));
        }
        let key = PrivateKey::generate(section.key).map_err(|error| wrong(error.to_string()))?;
        if let Err(why) = place.and_then(|place| place.write(key.to_pem().as_bytes())) {
            self.host.tell(
                Level::Warning,
                &format!("acme section '{}' makes a new account after a restart: {why}", section.name),
            );
        }
        let key = Arc::new(AccountKey::new(key).map_err(|error| wrong(error.to_string()))?);
        accounts.insert(path.clone(), Arc::clone(&key));
        Ok(key)
    }

    /// The key of the certificate, and the order that goes on with it.
    fn key(&self) -> Result<KeyAndOrder, Failure> {
        let names: Vec<String> = self.names().into_iter().map(|name| name.value).collect();
        if let Some(order) = &self.kept.order
            && order.directory == self.section().directory
            && order.names == names
            && let Ok(key) = PrivateKey::from_pem(order.key.as_bytes())
        {
            return Ok((key, Some(order.url.clone())));
        }
        if self.section().reuse_key {
            let stands = self.file.as_ref().and_then(|file| file.read().ok().flatten());
            if let Some(key) = stands.and_then(|bytes| PrivateKey::from_pem(&bytes).ok()) {
                return Ok((key, None));
            }
        }
        let key = PrivateKey::generate(self.section().key);
        key.map(|key| (key, None)).map_err(|error| Failure::new(format!("no key can be made: {error}")))
    }

    /// Takes what the authority has made: looks whether it is what was asked for, and writes the file.
    fn take_issued(&self, certificate: &str, key: &PrivateKey) -> Result<Arc<Identity>, Failure> {
        let wrong = |why: String| Failure::new(format!("the authority sends a certificate that is not taken: {why}"));
        let pem = Pem::read(format!("{certificate}\n{}", key.to_pem()).as_bytes())
            .map_err(|error| wrong(error.to_string()))?;
        let identity = Identity::new(&pem).map_err(|error| wrong(error.to_string()))?;
        let read = Certificate::read(identity.certificate()).ok_or_else(|| wrong("it is malformed".to_owned()))?;
        if let Some(name) = self.lacks(&read) {
            return Err(wrong(format!("it is not for '{name}'")));
        }
        if read.ends_at().is_none_or(|ends| ends <= now()) {
            return Err(wrong("it has ended already; look at this machine's clock".to_owned()));
        }
        if identity.chain().any(|der| Certificate::read(der).is_none()) {
            return Err(wrong("a certificate of its chain is malformed".to_owned()));
        }
        if let Some(begins) = read.begins_at().filter(|begins| *begins > now()) {
            let begins = dates::to_iso8601(begins);
            self.tell(Level::Warning, &format!("begins at {begins} only: look at this machine's clock"));
        }
        let chain: String = identity.chain().map(|der| tls::pem_block("CERTIFICATE", der)).collect();
        if let Some(file) = &self.file
            && let Err(why) = file.write((chain + &key.to_pem()).as_bytes())
        {
            let remedy = match &why {
                FileError::File(_, _, error) if error.kind() == ErrorKind::StorageFull => "make room on its disk",
                _ => "the folder must be writable by the user that the process runs as",
            };
            self.tell(Level::Warning, &format!("is served, but not kept: {why}; {remedy}"));
        }
        Ok(Arc::new(identity))
    }

    /// Asks the authority when the certificate is to be renewed (RFC 9773).
    async fn ask_when(&mut self) {
        let identity = self.change(|entry| entry.identity.clone());
        let id = identity.as_ref().and_then(|identity| Certificate::read(identity.certificate()));
        let id = id.as_ref().and_then(renewal::certificate_id);
        let (said, pause) = match id {
            Some(id) => self.renewal_info(&id).await.unwrap_or((None, None)),
            None => (None, None),
        };
        self.info_at = now().saturating_add(i64::try_from(renewal::ask_again(pause).as_secs()).unwrap_or(0));
        let Some(said) = said else { return };
        let window = said.window();
        if window.is_some() && window != self.kept.window {
            if let (Some((from, to)), Some(why)) = (window, &said.explanation) {
                let (from, to) = (dates::to_iso8601(from), dates::to_iso8601(to));
                self.tell(
                    Level::Notice,
                    &format!("is to be renewed from {from} to {to}: the authority says why at {why}"),
                );
            }
            self.kept.window = window;
            self.keep();
        }
    }

    async fn renewal_info(&self, id: &str) -> Option<(Option<RenewalInfo>, Option<Duration>)> {
        let get = |url: String| Request { method: "GET", url, body: Vec::new() };
        let directory = self.client.ask(&get(self.section().directory.clone())).await.ok()?;
        let directory: Directory = serde_json::from_slice(&directory.body).ok()?;
        let url = format!("{}/{id}", directory.renewal_info?.trim_end_matches('/'));
        let response = self.client.ask(&get(url)).await.ok()?;
        let said = if response.is_fine() { serde_json::from_slice(&response.body).ok() } else { None };
        Some((said, response.retry_after))
    }
}

/// From 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers, everybody comes at once: that is borne.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
