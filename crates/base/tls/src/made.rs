//! Certificates that are made here, and requests for certificates.

use std::{net::IpAddr, sync::Arc};

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose};

use crate::{
    identity::Identity,
    keys::{Curve, KeyError, KeyType, PrivateKey},
    pem::Pem,
};

fn params(names: &[String], addresses: &[IpAddr]) -> Result<CertificateParams, KeyError> {
    let all: Vec<String> = names.iter().cloned().chain(addresses.iter().map(IpAddr::to_string)).collect();
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

/// A request (PKCS #10) for a certificate of these names and addresses, as DER.
///
/// # Errors
/// When a name is none, or the library fails.
pub fn certificate_request(key: &PrivateKey, names: &[String], addresses: &[IpAddr]) -> Result<Vec<u8>, KeyError> {
    let mut params = params(names, addresses)?;
    /// Longest common name (RFC 5280, appendix A).
    const COMMON_NAME_MAX: usize = 64;
    if let Some(first) = names.first().filter(|name| name.len() <= COMMON_NAME_MAX) {
        params.distinguished_name.push(DnType::CommonName, first.as_str());
    }
    Ok(params.serialize_request(&key.pair)?.der().to_vec())
}

/// What is shown while there is no certificate: one that has made itself, so that connections come this far and nobody takes it for
/// a real one.
///
/// # Errors
/// When a name is none, or the library fails.
pub fn temporary(names: &[String], addresses: &[IpAddr]) -> Result<Arc<Identity>, KeyError> {
    let mut params = params(names, addresses)?;
    params.distinguished_name.push(DnType::CommonName, "Temporary certificate, until the real one is there");
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    self_signed(&params).map(|identity| Arc::new(identity.for_names(names)))
}

/// The certificate that answers tls-alpn-01 for a name (RFC 8737, section 3).
///
/// # Errors
/// When the name is none, or the library fails.
pub(crate) fn challenge(name: &str, digest: &[u8; 32]) -> Result<Arc<Identity>, KeyError> {
    let names = [name.to_owned()];
    let mut params = params(&names, &[])?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    self_signed(&params).map(Arc::new)
}

fn self_signed(params: &CertificateParams) -> Result<Identity, KeyError> {
    let key = PrivateKey::generate(KeyType::Ecdsa(Curve::P256))?;
    let certificate = params.self_signed(&key.pair)?;
    let text = format!("{}{}", crate::pem::write("CERTIFICATE", certificate.der()), key.to_pem());
    let pem = Pem::read(text.as_bytes()).map_err(|error| KeyError::Library(error.to_string()))?;
    Identity::new(&pem).map_err(|error| KeyError::Library(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::Certificate;

    #[test]
    fn a_temporary_certificate_has_the_names_that_are_asked_for() {
        let names = ["www.example.com".to_owned(), "*.example.org".to_owned()];
        let identity = temporary(&names, &["192.0.2.1".parse().unwrap()]).unwrap();
        assert_eq!(identity.names(), names);
        let certificate = Certificate::read(identity.certificate()).unwrap();
        assert!(certificate.is_self_issued());
        assert_eq!(certificate.dns_names().collect::<Vec<_>>(), names);
        assert_eq!(certificate.addresses().collect::<Vec<_>>(), [[192, 0, 2, 1]]);
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        let key = PrivateKey::generate(KeyType::default()).unwrap();
        assert!(certificate_request(&key, &["www.example.com".to_owned()], &[]).is_ok());
        assert!(certificate_request(&key, &["bücher.example".to_owned()], &[]).is_err());
    }
}
