//! Lists of revoked certificates, of a `crl-file`.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateRevocationListDer;
use webpki::{CertRevocationList, OwnedCertRevocationList};

use crate::{anchors::TrustError, pem::Pem, x509::RevocationList};

/// A list: as it came, and as it is read.
#[derive(Debug)]
pub struct ReadList {
    der: Vec<u8>,
    pub read: CertRevocationList<'static>,
    begins_at: Option<i64>,
    ends_at: Option<i64>,
}

impl ReadList {
    fn new(der: &CertificateRevocationListDer<'_>) -> Result<Self, webpki::Error> {
        let list = OwnedCertRevocationList::from_der(der)?.into();
        let times = RevocationList::read(der).map(|read| (read.begins_at, read.ends_at));
        let (begins_at, ends_at) = times.unwrap_or_default();
        Ok(Self { der: der.to_vec(), read: list, begins_at, ends_at })
    }

    /// As it came.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// When it was made, in seconds since 1970.
    pub fn begins_at(&self) -> Option<i64> {
        self.begins_at
    }

    /// When the next one is due.
    pub fn ends_at(&self) -> Option<i64> {
        self.ends_at
    }

    fn holds_at(&self, now: i64) -> bool {
        self.begins_at.is_some_and(|begins| begins <= now) && self.ends_at.is_some_and(|ends| ends >= now)
    }

    /// Whether it is about all that its maker has made.
    fn is_whole(&self) -> bool {
        self.read.issuing_distribution_point().is_none()
    }
}

/// Lists of revoked certificates.
#[derive(Clone, Debug, Default)]
pub struct RevocationLists {
    /// What configurations call them: their file.
    name: Option<Arc<str>>,
    lists: Arc<Vec<ReadList>>,
}

impl RevocationLists {
    /// Those of a file.
    ///
    /// # Errors
    /// When one is malformed, or none is there.
    pub fn new(pem: &Pem) -> Result<Self, TrustError> {
        let lists = pem.revocation_lists.iter().map(ReadList::new).collect::<Result<Vec<_>, _>>();
        let lists = lists.map_err(|error| TrustError::RevocationList(error.to_string()))?;
        if lists.is_empty() {
            return Err(TrustError::NoRevocationList);
        }
        Ok(Self { name: None, lists: Arc::new(lists) })
    }

    /// The same under a name.
    #[must_use]
    pub fn named(mut self, name: Arc<str>) -> Self {
        self.name = Some(name);
        self
    }

    /// What configurations call them, if they are of a file.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// The lists, in order, as DER.
    pub fn lists(&self) -> impl Iterator<Item = &[u8]> {
        self.lists.iter().map(ReadList::der)
    }

    /// Whether nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// That of whoever has this name: of several the newest that holds now, or else the newest; of two that are as new the first.
    pub(crate) fn best(&self, issuer: &[u8], now: i64) -> Option<&ReadList> {
        let lists = self.lists.iter().filter(|list| list.read.issuer() == issuer && list.is_whole());
        lists.rev().max_by_key(|list| (list.holds_at(now), list.begins_at))
    }

    /// The best of everybody's.
    pub(crate) fn all_best(&self, now: i64) -> Vec<&CertRevocationList<'static>> {
        let is_best =
            |list: &&ReadList| self.best(list.read.issuer(), now).is_some_and(|best| std::ptr::eq(best, *list));
        self.lists.iter().filter(is_best).map(|list| &list.read).collect()
    }

    /// What tells them from others.
    pub(crate) fn digests(&self) -> Vec<u8> {
        self.lists.iter().flat_map(|list| digest(&SHA256, &list.der).as_ref().to_vec()).collect()
    }
}
