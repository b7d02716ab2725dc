//! The way from a certificate to one that is trusted, and all that is wrong with it: as OpenSSL's `X509_verify_cert` finds it, which goes
//! on for as long as its caller lets faults pass. Names that an authority may not certify are not looked at here: webpki does.

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;

use crate::{
    anchors::TrustAnchors,
    ciphers::algorithms,
    failure::Distrust,
    revocation::RevocationLists,
    x509::{Certificate, Extension, RevocationList, Signed, in_sequence},
};

/// Certificates of a way at most.
const CERTIFICATES_MAX: usize = 12;

/// Extensions by what stands behind `2.5.29` (id-ce).
mod extension {
    pub const SUBJECT_KEY: u8 = 14;
    pub const KEY_USAGE: u8 = 15;
    pub const ALTERNATIVE_NAMES: u8 = 17;
    pub const BASIC_CONSTRAINTS: u8 = 19;
    pub const NAME_CONSTRAINTS: u8 = 30;
    pub const DISTRIBUTION_POINTS: u8 = 31;
    pub const POLICIES: u8 = 32;
    pub const POLICY_MAPPINGS: u8 = 33;
    pub const POLICY_CONSTRAINTS: u8 = 36;
    pub const EXTENDED_KEY_USAGE: u8 = 37;
    pub const INHIBIT_ANY_POLICY: u8 = 54;
}

/// Bits of a key's usage.
mod usage {
    pub const DIGITAL_SIGNATURE: u8 = 0x80;
    pub const KEY_ENCIPHERMENT: u8 = 0x20;
    pub const KEY_AGREEMENT: u8 = 0x08;
    pub const SIGNS_CERTIFICATES: u8 = 0x04;
    pub const SIGNS_LISTS: u8 = 0x02;
}

/// `1.3.6.1.5.5.7.3.1`: as a server.
const AS_SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// `1.3.6.1.5.5.7.3.2`: as a client.
const AS_CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To a client.
    Server,
    /// To a server.
    Client,
}

/// Something that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub distrust: Distrust,
    /// With which certificate: 0 for the one that was shown, 1 for who has made that, and so on.
    pub depth: u8,
}

/// What was found of a certificate.
#[derive(Debug)]
pub struct Findings<'a> {
    /// The certificates of the way behind the one that was shown, as far as it leads: who has made it, who has made that.
    pub makers: Vec<&'a [u8]>,
    /// What is wrong, in OpenSSL's order.
    pub faults: Vec<Fault>,
    /// The certificate itself is trusted: nobody vouches for it.
    pub is_anchor: bool,
    /// Somebody on the way may certify certain names alone.
    pub has_name_constraints: bool,
}

/// What a way is looked for with.
#[derive(Debug)]
pub struct Search<'a> {
    pub anchors: &'a TrustAnchors,
    pub lists: &'a RevocationLists,
    pub purpose: Purpose,
    /// In seconds since 1970.
    pub now: i64,
}

impl Search<'_> {
    /// Looks for the way of a certificate, by way of those that were shown with it.
    pub fn judge<'a>(&'a self, certificate: &'a CertificateDer<'_>, shown: &'a [CertificateDer<'_>]) -> Findings<'a> {
        let mut findings =
            Findings { makers: Vec::new(), faults: Vec::new(), is_anchor: false, has_name_constraints: false };
        let Some(leaf) = Certificate::read(certificate) else {
            findings.faults.push(Fault { distrust: Distrust::Other, depth: 0 });
            return findings;
        };
        let shown: Vec<Certificate<'_>> = shown.iter().filter_map(|der| Certificate::read(der)).collect();
        let path = self.path(leaf, shown, &mut findings);
        findings.makers = path.iter().skip(1).map(Certificate::der).collect();
        findings.has_name_constraints =
            path.iter().any(|certificate| find(certificate, extension::NAME_CONSTRAINTS).is_some());
        let faults = &mut findings.faults;
        self.check_extensions(&path, faults);
        self.check_revocation(&path, faults);
        self.check_signatures(&path, faults);
        findings
    }

    /// The certificates of the way, as far as it leads.
    fn path<'c>(
        &'c self,
        leaf: Certificate<'c>,
        mut shown: Vec<Certificate<'c>>,
        findings: &mut Findings<'_>,
    ) -> Vec<Certificate<'c>> {
        let mut path = vec![leaf];
        let (mut current, mut is_among_trusted) = (leaf, false);
        let distrust = loop {
            let ends = is_self_signed(&current);
            let maker = self.best(self.anchors.of_subject(current.issuer().der()), &current);
            match maker {
                // NOTE: one that has made itself is trusted if it is the very one that is; not if it has the name.
                Some(trusted) if ends && (is_among_trusted || trusted.der() == current.der()) => {
                    findings.is_anchor = path.len() == 1;
                    return path;
                }
                Some(trusted) if !ends && path.len() < CERTIFICATES_MAX => {
                    is_among_trusted = true;
                    current = trusted;
                    path.push(trusted);
                    continue;
                }
                _ => {}
            }
            if !ends && !is_among_trusted && path.len() < CERTIFICATES_MAX {
                let issuer = current.issuer().der();
                let named = shown.iter().copied().filter(|shown| shown.subject().der() == issuer);
                if let Some(next) = self.best(named, &current) {
                    shown.retain(|shown| shown.der() != next.der());
                    current = next;
                    path.push(next);
                    continue;
                }
            }
            break match (ends, path.len()) {
                (_, CERTIFICATES_MAX..) => Distrust::TooLong,
                (true, 1) => Distrust::SelfSigned,
                (true, _) => Distrust::SelfSignedInChain,
                (false, _) if is_among_trusted => Distrust::IssuerMissing,
                (false, _) => Distrust::UnknownIssuer,
            };
        };
        findings.faults.push(Fault { distrust, depth: depth(path.len() - 1) });
        path
    }

    /// Of several that have the maker's name and key identifier: the one who has signed it and is valid, or else who has signed it, or else the first.
    fn best<'c>(
        &self,
        named: impl Iterator<Item = Certificate<'c>>,
        made: &Certificate<'_>,
    ) -> Option<Certificate<'c>> {
        let mut named: Vec<Certificate<'c>> = named.filter(|maker| may_have_made(maker, made)).collect();
        if named.len() > 1 {
            let rank = |maker: &Certificate<'_>| {
                (!is_signed_by(&made.signed(), maker.key()), check_time(maker, self.now).is_err())
            };
            named.sort_by_cached_key(rank);
        }
        named.first().copied()
    }

    /// Whether each may be on the way, where it stands there.
    fn check_extensions(&self, path: &[Certificate<'_>], faults: &mut Vec<Fault>) {
        let mut authorities = 0;
        for (at, certificate) in path.iter().enumerate() {
            let mut fault = |distrust| faults.push(Fault { distrust, depth: depth(at) });
            let is_unknown = |extension: &Extension<'_>| extension.is_critical && !is_known(extension);
            if certificate.extensions().any(|extension| is_unknown(&extension)) {
                fault(Distrust::CriticalExtension);
            }
            let is_last = at + 1 == path.len();
            let authority = Authority::of(certificate);
            if at > 0 && (authority == Authority::No || authority == Authority::Perhaps && !is_last) {
                fault(Distrust::NoAuthority);
            }
            let may_be_here = if at == 0 { self.may_be_used(certificate) } else { authority != Authority::No };
            if !self.is_for_purpose(certificate) || !may_be_here {
                fault(Distrust::Purpose);
            }
            if at == 0 {
                continue;
            }
            let most = constraints(certificate).and_then(|(_, most)| most);
            if most.is_some_and(|most| authorities > most) {
                fault(Distrust::PathLength);
            }
            if !certificate.is_self_issued() {
                authorities += 1;
            }
        }
    }

    /// By its extended key usage, which authorities have for those below them.
    fn is_for_purpose(&self, certificate: &Certificate<'_>) -> bool {
        let wanted = match self.purpose {
            Purpose::Server => AS_SERVER,
            Purpose::Client => AS_CLIENT,
        };
        find(certificate, extension::EXTENDED_KEY_USAGE)
            .is_none_or(|purposes| purposes.identifiers().any(|purpose| purpose == wanted))
    }

    /// By its key usage.
    fn may_be_used(&self, certificate: &Certificate<'_>) -> bool {
        let wanted = match self.purpose {
            Purpose::Server => usage::DIGITAL_SIGNATURE | usage::KEY_ENCIPHERMENT | usage::KEY_AGREEMENT,
            Purpose::Client => usage::DIGITAL_SIGNATURE | usage::KEY_AGREEMENT,
        };
        allows(certificate, wanted)
    }

    /// Whether each is known not to be revoked, if there are lists at all.
    fn check_revocation(&self, path: &[Certificate<'_>], faults: &mut Vec<Fault>) {
        if self.lists.is_empty() {
            return;
        }
        for (at, certificate) in path.iter().enumerate() {
            let mut fault = |distrust| faults.push(Fault { distrust, depth: depth(at) });
            let Some(list) = self.lists.best(certificate.issuer().der(), self.now) else {
                fault(Distrust::NoRevocationList);
                continue;
            };
            match path.get(at + 1).or(Some(certificate).filter(|last| is_self_signed(last))) {
                None => fault(Distrust::RevocationListIssuer),
                Some(maker) => {
                    if !allows(maker, usage::SIGNS_LISTS) {
                        fault(Distrust::SignsNoLists);
                    }
                    let is_genuine =
                        RevocationList::read(list.der()).is_some_and(|read| is_signed_by(&read.signed, maker.key()));
                    if !is_genuine {
                        fault(Distrust::RevocationListSignature);
                    }
                }
            }
            if list.begins_at().is_none_or(|begins| begins > self.now) {
                fault(Distrust::RevocationListNotYetValid);
            }
            if list.ends_at().is_none_or(|ends| ends < self.now) {
                fault(Distrust::RevocationListExpired);
            }
            match list.read.find_serial(certificate.whole_serial()) {
                Ok(None) => {}
                Ok(Some(_)) => fault(Distrust::Revoked),
                Err(_) => fault(Distrust::Other),
            }
        }
    }

    /// From who is trusted down: whether each was signed by the one above it, and is valid now.
    fn check_signatures(&self, path: &[Certificate<'_>], faults: &mut Vec<Fault>) {
        let mut above: Option<&Certificate<'_>> = None;
        for (at, certificate) in path.iter().enumerate().rev() {
            let mut fault = |distrust, at| faults.push(Fault { distrust, depth: depth(at) });
            match above {
                Some(maker) => {
                    if !allows(maker, usage::SIGNS_CERTIFICATES) {
                        fault(Distrust::SignsNoCertificates, at + 1);
                    }
                    if !is_signed_by(&certificate.signed(), maker.key()) {
                        fault(Distrust::Signature, at);
                    }
                }
                // Nobody is above who has made itself.
                None if is_self_signed(certificate) => {}
                None if at == 0 => fault(Distrust::LeafSignature, 0),
                // Who has made it is not there.
                None => {
                    above = Some(certificate);
                    continue;
                }
            }
            if let Err(distrust) = check_time(certificate, self.now) {
                fault(distrust, at);
            }
            above = Some(certificate);
        }
    }
}

/// What a certificate says of whether it may make others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authority {
    /// It may not.
    No,
    /// It does not say so, but it is old enough not to: enough for one that is trusted.
    Perhaps,
    /// It may.
    Yes,
}

impl Authority {
    fn of(certificate: &Certificate<'_>) -> Self {
        let key_usage = find(certificate, extension::KEY_USAGE);
        if !allows(certificate, usage::SIGNS_CERTIFICATES) {
            return Self::No;
        }
        match find(certificate, extension::BASIC_CONSTRAINTS) {
            Some(_) => match constraints(certificate) {
                Some((true, _)) => Self::Yes,
                _ => Self::No,
            },
            None if certificate.version() == 1 && is_self_signed(certificate) => Self::Perhaps,
            None if key_usage.is_some() => Self::Perhaps,
            None => Self::No,
        }
    }
}

fn depth(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

fn find<'c>(certificate: &Certificate<'c>, number: u8) -> Option<Extension<'c>> {
    certificate.extensions().find(|extension| extension.oid == [0x55, 0x1d, number])
}

fn constraints(certificate: &Certificate<'_>) -> Option<(bool, Option<usize>)> {
    find(certificate, extension::BASIC_CONSTRAINTS)?.constraints()
}

/// Whether one is known that has to be understood.
fn is_known(found: &Extension<'_>) -> bool {
    let [0x55, 0x1d, number] = *found.oid else { return false };
    matches!(
        number,
        extension::KEY_USAGE
            | extension::ALTERNATIVE_NAMES
            | extension::BASIC_CONSTRAINTS
            | extension::NAME_CONSTRAINTS
            | extension::DISTRIBUTION_POINTS
            | extension::POLICIES
            | extension::POLICY_MAPPINGS
            | extension::POLICY_CONSTRAINTS
            | extension::EXTENDED_KEY_USAGE
            | extension::INHIBIT_ANY_POLICY
    )
}

/// Whether a key may be used in one of these ways, or has no restriction.
fn allows(certificate: &Certificate<'_>, wanted: u8) -> bool {
    find(certificate, extension::KEY_USAGE).is_none_or(|usage| usage.bits().is_some_and(|bits| bits & wanted != 0))
}

/// Whether a certificate names itself as its maker, with the key that it names.
fn is_self_signed(certificate: &Certificate<'_>) -> bool {
    certificate.is_self_issued() && may_have_made(certificate, certificate)
}

/// Whether a certificate has the key identifier that another one gives of its maker's, if both have one.
fn may_have_made(maker: &Certificate<'_>, made: &Certificate<'_>) -> bool {
    let own = find(maker, extension::SUBJECT_KEY).and_then(Extension::octets);
    own.zip(made.authority_key()).is_none_or(|(own, wanted)| own == wanted)
}

/// Whether a certificate is valid at this time.
///
/// # Errors
/// When it has ended, or not begun.
pub fn check_time(certificate: &Certificate<'_>, now: i64) -> Result<(), Distrust> {
    if certificate.begins_at().ok_or(Distrust::Other)? > now {
        return Err(Distrust::NotYetValid);
    }
    if certificate.ends_at().ok_or(Distrust::Other)? < now {
        return Err(Distrust::Expired);
    }
    Ok(())
}

/// Whether somebody's key has signed something.
fn is_signed_by(signed: &Signed<'_>, key: &[u8]) -> bool {
    let key = SubjectPublicKeyInfoDer::from(in_sequence(key));
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
    let algorithms = algorithms().all.iter();
    algorithms
        .filter(|algorithm| algorithm.signature_alg_id().as_ref() == signed.algorithm)
        .any(|algorithm| key.verify_signature(*algorithm, signed.content, signed.signature).is_ok())
}

#[cfg(test)]
mod tests;
