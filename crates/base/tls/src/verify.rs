//! Whether the certificate of the other end is to be trusted.

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder};

use crate::{
    anchors::TrustAnchors,
    ciphers::algorithms,
    failure::Distrust,
    path::{Fault, Purpose, Search},
    revocation::RevocationLists,
    x509::Certificate,
};

/// What certificates of the other end are verified against.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    pub anchors: TrustAnchors,
    pub revocation: RevocationLists,
}

impl Verification {
    /// Whether a certificate is to be trusted now.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), Distrust> {
        self.faults(certificate, chain, purpose, now).first().map_or(Ok(()), |fault| Err(fault.distrust))
    }

    /// All that is wrong with a certificate, or with who has made it. It is to be trusted if that is nothing, or nothing that is not let
    /// pass.
    ///
    /// Two judge: [`Search`], which finds what OpenSSL finds, and webpki, without which nothing is trusted that has no faults: it
    /// knows more of what an authority may certify, and whoever reads certificates makes mistakes. webpki judges the way that was found,
    /// and no other: each of two ways may lack what is wrong with the other one (RFC 5280 section 6.1).
    pub fn faults(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Vec<Fault> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let search = Search { anchors: &self.anchors, lists: &self.revocation, purpose, now: seconds };
        let mut findings = search.judge(certificate, chain);
        let distrust = if findings.is_anchor {
            None
        } else if !findings.faults.is_empty() {
            // NOTE: webpki names one fault alone, so it cannot say whether names are within bounds where there is another one.
            findings.has_name_constraints.then_some(Distrust::NameConstraints)
        } else {
            match self.judge_strictly(certificate, &findings.makers, purpose, now) {
                Ok(()) => None,
                // It reads none of version 1, and no authority's own. OpenSSL takes them.
                Err(webpki::Error::UnsupportedCertVersion | webpki::Error::CaUsedAsEndEntity) => {
                    findings.has_name_constraints.then_some(Distrust::NameConstraints)
                }
                Err(error) => Some(distrust(&error)),
            }
        };
        findings.faults.extend(distrust.map(|distrust| Fault { distrust, depth: 0 }));
        findings.faults
    }

    fn judge_strictly(
        &self,
        certificate: &CertificateDer<'_>,
        makers: &[&[u8]],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let end_entity = EndEntityCert::try_from(certificate)?;
        let makers: Vec<CertificateDer<'_>> = makers.iter().map(|der| CertificateDer::from(*der)).collect();
        let (trusted, between) = makers.split_last().ok_or(webpki::Error::UnknownIssuer)?;
        let anchors = [webpki::anchor_from_trusted_cert(trusted)?];
        let usage = match purpose {
            Purpose::Server => KeyUsage::server_auth(),
            Purpose::Client => KeyUsage::client_auth(),
        };
        let lists = self.revocation.all_best(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|builder| {
            // As OpenSSL's X509_V_FLAG_CRL_CHECK_ALL, which HAProxy sets: of each certificate it has to be known.
            let builder = builder.with_depth(RevocationCheckDepth::Chain);
            builder.with_expiration_policy(ExpirationPolicy::Enforce).build()
        });
        end_entity.verify_for_usage(algorithms().all, &anchors, between, now, usage, revocation, None).map(drop)
    }
}

fn distrust(error: &webpki::Error) -> Distrust {
    use webpki::Error;
    match error {
        Error::CertExpired { .. } => Distrust::Expired,
        Error::CertNotValidYet { .. } => Distrust::NotYetValid,
        Error::UnknownIssuer => Distrust::UnknownIssuer,
        Error::CertRevoked => Distrust::Revoked,
        Error::UnknownRevocationStatus => Distrust::NoRevocationList,
        Error::CrlExpired { .. } => Distrust::RevocationListExpired,
        Error::RequiredEkuNotFoundContext(_) => Distrust::Purpose,
        Error::EndEntityUsedAsCa => Distrust::NoAuthority,
        Error::PathLenConstraintViolated => Distrust::PathLength,
        Error::NameConstraintViolation => Distrust::NameConstraints,
        Error::InvalidSignatureForPublicKey => Distrust::Signature,
        _ => Distrust::Other,
    }
}

/// Whether a certificate is for a host: by its alternative names or its common name, as HAProxy looks at them, or by its addresses.
pub fn is_for_host(certificate: &Certificate<'_>, host: &str) -> bool {
    if let Ok(address) = host.parse::<std::net::IpAddr>() {
        let wanted = match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        };
        if certificate.addresses().any(|address| address == wanted) {
            return true;
        }
    }
    certificate.dns_names().any(|name| matches_host(name, host))
        || certificate.common_name().is_some_and(|name| matches_host(&name, host))
}

/// Whether a name of a certificate is that of a host; a star in its first label stands for a part of a label.
fn matches_host(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some((first, rest)), Some((label, domain))) = (pattern.split_once('.'), host.split_once('.')) else {
        return false;
    };
    let Some((before, behind)) = first.split_once('*') else { return false };
    rest.eq_ignore_ascii_case(domain)
        && !rest.is_empty()
        && label.len() > before.len() + behind.len()
        && label.get(..before.len()).is_some_and(|start| start.eq_ignore_ascii_case(before))
        && label.get(label.len() - behind.len()..).is_some_and(|end| end.eq_ignore_ascii_case(behind))
}

/// Now, as certificates have it.
pub fn now() -> UnixTime {
    UnixTime::since_unix_epoch(basics::clock::since_1970())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_one_label() {
        for (pattern, host, matches) in [
            ("www.example.com", "WWW.example.com", true),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("w*w.example.com", "wxw.example.com", true),
            ("w*w.example.com", "ww.example.com", false),
            ("*", "localhost", false),
            ("www.*.com", "www.example.com", false),
        ] {
            assert_eq!(matches_host(pattern, host), matches, "{pattern} {host}");
        }
    }
}
