//! What authorities are shown: pages of http-01, certificates of tls-alpn-01, records of DNS.

use std::{
    collections::HashMap,
    io,
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use haproxycfg::model::{Acme, ChallengeKind};
use thiserror::Error;
use tls::{Challenges, KeyError};

use crate::{
    host::{Host, Level},
    proof::Proof,
};

/// How long a program may take to set a record and see it.
const PROGRAM_TIME: Duration = Duration::from_secs(1_800);

/// Where http-01 looks (RFC 8555, section 8.3).
pub const WELL_KNOWN: &[u8] = b"/.well-known/acme-challenge/";

/// The pages that http-01 looks at, by token.
#[derive(Debug, Default)]
pub struct Pages {
    waiting: AtomicUsize,
    by_token: RwLock<HashMap<String, Arc<str>>>,
}

impl Pages {
    fn change(&self, change: impl FnOnce(&mut HashMap<String, Arc<str>>)) {
        let mut by_token = self.by_token.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut by_token);
        self.waiting.store(by_token.len(), Relaxed);
    }

    /// Whether an authority may look for anything now.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// What stands at a path.
    pub fn at(&self, path: &[u8]) -> Option<Arc<str>> {
        let token = std::str::from_utf8(path.strip_prefix(WELL_KNOWN)?).ok()?;
        self.by_token.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

/// What cannot be shown.
#[derive(Debug, Error)]
pub enum ShowError {
    /// No certificate can be made.
    #[error("cannot make a certificate that proves '{0}': {1}")]
    Certificate(String, KeyError),
    /// The program does not start.
    #[error(
        "{0} cannot be started: {why} ('challenge-program'; 'insecure-fork-wanted' lets workers start programs)",
        why = crate::client::system_words(.1)
    )]
    Start(String, io::Error),
    /// The program does not end.
    #[error("{0} has not ended within {minutes} minutes", minutes = PROGRAM_TIME.as_secs() / 60)]
    Time(String),
    /// The program fails.
    #[error("{0} has failed ({1}): {2}")]
    Program(String, ExitStatus, String),
}

/// Everything that shows proofs.
#[derive(Debug, Default)]
pub struct Showroom {
    /// Pages.
    pub pages: Pages,
    /// Certificates.
    pub challenges: Arc<Challenges>,
}

/// Proofs that are shown until this goes.
pub struct Shown {
    showroom: Arc<Showroom>,
    host: Arc<dyn Host>,
    section: Arc<Acme>,
    proofs: Vec<Proof>,
    thumbprint: String,
}

impl Shown {
    /// Shows proofs. What takes time, the program that sets records, is waited for.
    ///
    /// # Errors
    /// What cannot be shown, for people. What was shown before that is taken back.
    pub async fn show(
        showroom: &Arc<Showroom>,
        host: &Arc<dyn Host>,
        section: &Arc<Acme>,
        proofs: Vec<Proof>,
        thumbprint: &str,
    ) -> Result<Self, ShowError> {
        let mut shown = Self {
            showroom: Arc::clone(showroom),
            host: Arc::clone(host),
            section: Arc::clone(section),
            proofs: Vec::new(),
            thumbprint: thumbprint.to_owned(),
        };
        for proof in proofs {
            shown.show_one(&proof).await?;
            shown.proofs.push(proof);
        }
        Ok(shown)
    }

    async fn show_one(&self, proof: &Proof) -> Result<(), ShowError> {
        match proof.kind {
            ChallengeKind::Http01 => {
                let (token, page) = (proof.token.clone(), proof.authorization.as_str().into());
                self.showroom.pages.change(|by_token| {
                    by_token.insert(token, page);
                });
                if let Some(map) = &self.section.map {
                    self.host.show_in_map(map, &proof.token, Some(&self.thumbprint));
                }
                Ok(())
            }
            ChallengeKind::TlsAlpn01 => {
                let shown = self.showroom.challenges.show(&proof.name, &proof.digest());
                shown.map_err(|error| ShowError::Certificate(proof.name.clone(), error))
            }
            ChallengeKind::Dns01 => run(&self.section, "set", proof).await,
            // It stays, so a person sets it once.
            ChallengeKind::DnsPersist01 => Ok(()),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut records = Vec::new();
        for proof in std::mem::take(&mut self.proofs) {
            match proof.kind {
                ChallengeKind::Http01 => {
                    self.showroom.pages.change(|by_token| {
                        by_token.remove(&proof.token);
                    });
                    if let Some(map) = &self.section.map {
                        self.host.show_in_map(map, &proof.token, None);
                    }
                }
                ChallengeKind::TlsAlpn01 => self.showroom.challenges.withdraw(&proof.name),
                ChallengeKind::Dns01 => records.push(proof),
                ChallengeKind::DnsPersist01 => {}
            }
        }
        if records.is_empty() {
            return;
        }
        let (section, host) = (Arc::clone(&self.section), Arc::clone(&self.host));
        tokio::task::spawn_local(async move {
            // One after the other: several may have one name.
            for proof in records {
                if let Err(why) = run(&section, "unset", &proof).await {
                    host.tell(Level::Warning, &why.to_string());
                }
            }
        });
    }
}

/// Has the section's program set or remove a record, and waits for it.
async fn run(section: &Acme, what: &'static str, proof: &Proof) -> Result<(), ShowError> {
    /// Of what it says, so much is told.
    const SAID_MAX: usize = 400;
    let (Some(program), Some(name)) = (section.program.clone(), proof.record_name()) else { return Ok(()) };
    let text = proof.record_text();
    let told = format!("'{program} {what} {name}'");
    let ran = tokio::task::spawn_blocking(move || {
        Command::new(program).args([what, &name, &text]).stdin(Stdio::null()).stdout(Stdio::null()).output()
    });
    let ended = tokio::time::timeout(PROGRAM_TIME, ran).await;
    let output = match ended {
        Ok(Ok(Ok(output))) => output,
        Ok(Ok(Err(error))) => return Err(ShowError::Start(told, error)),
        Ok(Err(_)) | Err(_) => return Err(ShowError::Time(told)),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String =
        said.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(SAID_MAX).collect();
    Err(ShowError::Program(told, output.status, said))
}
