//! `show` and `set ssl ocsp-response`.

use std::{collections::BTreeMap, sync::Arc};

use tls::{CertificateId, Identity, OcspError, OcspResponse};

use super::TlsStore;

impl TlsStore {
    /// What certificates are called in responses, and the response that each is shown with.
    #[must_use]
    pub fn responses(&self) -> BTreeMap<CertificateId, Option<Arc<OcspResponse>>> {
        let state = self.lock();
        let known = state.certificates.values().flatten();
        known.filter_map(|identity| Some((identity.ocsp_id()?, identity.ocsp_response().cloned()))).collect()
    }

    /// Shows a response with the certificates that it is for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_response(&self, der: &[u8]) -> Result<(), OcspError> {
        let response = OcspResponse::read(der)?;
        response.check(i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX))?;
        let mut state = self.lock();
        let is_for = |identity: &Arc<Identity>| identity.ocsp_id().as_ref() == Some(&response.id);
        let known = state.certificates.iter();
        let found: Vec<_> = known
            .filter_map(|(name, identity)| Some((Arc::clone(name), Arc::clone(identity.as_ref()?))))
            .filter(|(_, identity)| is_for(identity))
            .collect();
        if found.is_empty() {
            return Err(OcspError::NoCertificate);
        }
        for (name, identity) in found {
            let (identity, outcome) = Identity::clone(&identity).with_ocsp_response(der);
            outcome?;
            state.replace(&self.proxies, &name, Arc::new(identity));
        }
        Ok(())
    }
}
