//! What is read of a certificate: names, dates, keys. A reader of DER for the few fields that configurations ask for; whether a
//! certificate is to be trusted is not decided by what stands here.

use basics::calendar;
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Kinds of values in DER.
pub(crate) mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const OID: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    /// `[0]` of a certificate: its version. In the names of SAN: something else.
    pub const VERSION: u8 = 0xa0;
    /// `[0]`, of a kind that the place says.
    pub const FIRST: u8 = 0xa0;
    /// `[3]`: extensions.
    pub const EXTENSIONS: u8 = 0xa3;
    /// `[2]` of SAN: a DNS name.
    pub const DNS_NAME: u8 = 0x82;
    /// `[7]` of SAN: an address.
    pub const IP_ADDRESS: u8 = 0x87;
}

/// Bytes of DER, value by value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The next value: its tag, its contents, and all of it.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len() - rest.len())?;
        self.0 = rest;
        Some((tag, contents, whole))
    }

    pub(crate) fn expect(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, ..)| *tag == wanted).map(|(_, contents, _)| contents)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }
}

/// The fields of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    der: &'a [u8],
    signed: Signed<'a>,
    version: u8,
    serial: &'a [u8],
    signature_algorithm: &'a [u8],
    issuer: &'a [u8],
    not_before: (u8, &'a [u8]),
    not_after: (u8, &'a [u8]),
    subject: &'a [u8],
    key: &'a [u8],
    extensions: &'a [u8],
}

/// `2.5.29.17`: subjectAltName.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `2.5.29.35`: authorityKeyIdentifier.
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];
/// `2.5.4.3`: commonName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

impl<'a> Certificate<'a> {
    /// Reads one; `None` for what is none.
    #[must_use]
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let (content, wrapped) = Signed::read(der)?;
        let mut signed = Der(content);
        let version = match signed.peek()? {
            tag::VERSION => {
                let number = Der(signed.expect(tag::VERSION)?).expect(tag::INTEGER)?;
                number.last()?.checked_add(1)?
            }
            _ => 1,
        };
        let serial = signed.expect(tag::INTEGER)?;
        signed.expect(tag::SEQUENCE)?;
        let issuer = signed.expect(tag::SEQUENCE)?;
        let mut validity = Der(signed.expect(tag::SEQUENCE)?);
        let time = |(tag, contents, _)| (tag, contents);
        let (not_before, not_after) = (validity.next().map(time)?, validity.next().map(time)?);
        let subject = signed.expect(tag::SEQUENCE)?;
        let key = signed.expect(tag::SEQUENCE)?;
        let mut extensions: &[u8] = &[];
        while let Some((tag, contents, _)) = signed.next() {
            if tag == tag::EXTENSIONS {
                extensions = Der(contents).expect(tag::SEQUENCE)?;
            }
        }
        let signature_algorithm = Der(wrapped.algorithm).expect(tag::OID)?;
        Some(Self {
            der,
            signed: wrapped,
            version,
            serial,
            signature_algorithm,
            issuer,
            not_before,
            not_after,
            subject,
            key,
            extensions,
        })
    }

    /// What its maker has signed.
    #[must_use]
    pub fn signed(&self) -> Signed<'a> {
        self.signed
    }

    /// The bytes that it was read from.
    #[must_use]
    pub fn der(&self) -> &'a [u8] {
        self.der
    }

    /// Its version, from 1.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Its serial number as it stands there.
    #[must_use]
    pub fn whole_serial(&self) -> &'a [u8] {
        self.serial
    }

    /// Its serial number's bytes.
    #[must_use]
    pub fn serial(&self) -> &'a [u8] {
        match self.serial {
            // It only says that the number is positive.
            [0, rest @ ..] if !rest.is_empty() => rest,
            serial => serial,
        }
    }

    /// Its serial number as DER has it, with a zero before it where it would be negative otherwise.
    #[must_use]
    pub fn serial_der(&self) -> &'a [u8] {
        self.serial
    }

    /// Which key of its maker it was signed with, by the maker's identifier.
    #[must_use]
    pub fn authority_key(&self) -> Option<&'a [u8]> {
        /// `[0]`: keyIdentifier.
        const KEY_IDENTIFIER: u8 = 0x80;
        Der(self.extension(AUTHORITY_KEY)?).expect(KEY_IDENTIFIER)
    }

    /// Its fingerprint by SHA-1.
    #[must_use]
    pub fn sha1(&self) -> Vec<u8> {
        digest(&SHA1_FOR_LEGACY_USE_ONLY, self.der).as_ref().to_vec()
    }

    /// When it begins, as OpenSSL has it: `YYMMDDhhmmssZ`, with a century where the certificate has one.
    #[must_use]
    pub fn not_before(&self) -> &'a [u8] {
        self.not_before.1
    }

    /// When it ends.
    #[must_use]
    pub fn not_after(&self) -> &'a [u8] {
        self.not_after.1
    }

    /// When it ends, in seconds since 1970.
    #[must_use]
    pub fn ends_at(&self) -> Option<i64> {
        seconds(self.not_after)
    }

    /// When it begins, in seconds since 1970.
    #[must_use]
    pub fn begins_at(&self) -> Option<i64> {
        seconds(self.not_before)
    }

    /// Whom it is for, part by part.
    #[must_use]
    pub fn subject(&self) -> DistinguishedName<'a> {
        DistinguishedName(self.subject)
    }

    /// Who has made it, part by part.
    #[must_use]
    pub fn issuer(&self) -> DistinguishedName<'a> {
        DistinguishedName(self.issuer)
    }

    /// Whether it names itself as its maker.
    #[must_use]
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// The algorithm of its key, by OpenSSL's name.
    #[must_use]
    pub fn key_algorithm(&self) -> String {
        let oid = Der(self.key).expect(tag::SEQUENCE).and_then(|algorithm| Der(algorithm).expect(tag::OID));
        crate::names::of_oid(oid.unwrap_or_default())
    }

    /// The algorithm of its signature, by OpenSSL's name.
    #[must_use]
    pub fn signature_algorithm(&self) -> String {
        crate::names::of_oid(self.signature_algorithm)
    }

    /// Its key, as the contents of a SubjectPublicKeyInfo.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The common name, if there is one.
    #[must_use]
    pub fn common_name(&self) -> Option<String> {
        let found = self.subject().parts().find(|part| part.oid == COMMON_NAME)?;
        Some(String::from_utf8_lossy(found.value).into_owned())
    }

    /// The host names that it is for, by subjectAltName.
    pub fn dns_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.alternative_names(tag::DNS_NAME).filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// The addresses that it is for: four or sixteen bytes each.
    pub fn addresses(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.alternative_names(tag::IP_ADDRESS)
    }

    fn alternative_names(&self, kind: u8) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut names = Der(self.extension(ALTERNATIVE_NAMES).unwrap_or_default());
        std::iter::from_fn(move || names.next()).filter(move |(tag, ..)| *tag == kind).map(|(_, contents, _)| contents)
    }

    /// Its extensions, in order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        let mut extensions = Der(self.extensions);
        std::iter::from_fn(move || {
            let mut extension = Der(extensions.expect(tag::SEQUENCE)?);
            let oid = extension.expect(tag::OID)?;
            let is_critical = match extension.peek()? {
                tag::BOOLEAN => extension.expect(tag::BOOLEAN)? != [0],
                _ => false,
            };
            Some(Extension { oid, is_critical, value: extension.expect(tag::OCTET_STRING)? })
        })
    }

    /// What an extension holds, without the sequence around it.
    fn extension(&self, oid: &[u8]) -> Option<&'a [u8]> {
        let found = self.extensions().find(|extension| extension.oid == oid)?;
        Der(found.value).expect(tag::SEQUENCE)
    }

    /// The kind of its key and how many bits that has, as HAProxy says it: `RSA2048`, `EC256`.
    #[must_use]
    pub fn key_kind(&self) -> Option<String> {
        // Before the key itself stands how many bits of its last byte do not count.
        let key = self.public_key()?.get(1..)?;
        if let Some(numbers) = Der(key).expect(tag::SEQUENCE) {
            let modulus = Der(numbers).expect(tag::INTEGER)?;
            let length = modulus.iter().skip_while(|byte| **byte == 0).count();
            return Some(format!("RSA{}", length * 8));
        }
        // A point: a byte that says so, and two coordinates.
        Some(match key.len() {
            133 => "EC521".to_owned(),
            length => format!("EC{}", length / 2 * 8),
        })
    }

    /// The public key's own bits.
    #[must_use]
    pub fn public_key(&self) -> Option<&'a [u8]> {
        let mut key = Der(self.key);
        key.expect(tag::SEQUENCE)?;
        key.expect(tag::BIT_STRING)
    }
}

/// What somebody has signed: the common form of certificates and of lists of those that were revoked.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// What the signature is of, whole.
    pub content: &'a [u8],
    /// The contents of the AlgorithmIdentifier.
    pub algorithm: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Reads it, and what is within the content's sequence.
    fn read(der: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let mut parts = Der(Der(der).expect(tag::SEQUENCE)?);
        let (kind, within, content) = parts.next()?;
        let algorithm = parts.expect(tag::SEQUENCE)?;
        // Before the signature stands how many bits of its last byte do not count: none.
        let (0, signature) = parts.expect(tag::BIT_STRING)?.split_first()? else { return None };
        (kind == tag::SEQUENCE).then_some((within, Self { content, algorithm, signature }))
    }
}

/// What is read of a list of revoked certificates beside what webpki reads.
#[derive(Clone, Copy, Debug)]
pub struct RevocationList<'a> {
    /// What its maker has signed.
    pub(crate) signed: Signed<'a>,
    /// Its version, from 1.
    pub version: u8,
    /// Who has made it.
    pub issuer: DistinguishedName<'a>,
    /// When it was made, in seconds since 1970.
    pub begins_at: Option<i64>,
    /// When the next one is due, in seconds since 1970.
    pub ends_at: Option<i64>,
    revoked: &'a [u8],
}

impl<'a> RevocationList<'a> {
    /// Reads one; `None` for what is none.
    #[must_use]
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let (content, signed) = Signed::read(der)?;
        let mut content = Der(content);
        let version = match content.peek() {
            Some(tag::INTEGER) => content.expect(tag::INTEGER)?.first()?.saturating_add(1),
            _ => 1,
        };
        content.expect(tag::SEQUENCE)?;
        let issuer = DistinguishedName(content.expect(tag::SEQUENCE)?);
        let (kind, begins, _) = content.next()?;
        let begins_at = seconds((kind, begins));
        let ends_at = match content.peek() {
            Some(tag::UTC_TIME | tag::GENERALIZED_TIME) => {
                content.next().and_then(|(kind, text, _)| seconds((kind, text)))
            }
            _ => None,
        };
        let revoked = match content.peek() {
            Some(tag::SEQUENCE) => content.expect(tag::SEQUENCE)?,
            _ => &[],
        };
        Some(Self { signed, version, issuer, begins_at, ends_at, revoked })
    }

    /// The algorithm of its signature, by OpenSSL's name.
    #[must_use]
    pub fn signature_algorithm(&self) -> String {
        crate::names::of_oid(Der(self.signed.algorithm).expect(tag::OID).unwrap_or_default())
    }

    /// The numbers of certificates that were revoked, each with when.
    pub fn revoked(&self) -> impl Iterator<Item = (&'a [u8], Option<i64>)> + use<'a> {
        let mut revoked = Der(self.revoked);
        std::iter::from_fn(move || {
            let mut one = Der(revoked.expect(tag::SEQUENCE)?);
            let serial = match one.expect(tag::INTEGER)? {
                [0, rest @ ..] if !rest.is_empty() => rest,
                serial => serial,
            };
            Some((serial, one.next().and_then(|(kind, text, _)| seconds((kind, text)))))
        })
    }
}

/// An extension of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    /// What it is.
    pub oid: &'a [u8],
    /// Whether whoever does not understand it must refuse the certificate.
    pub is_critical: bool,
    value: &'a [u8],
}

impl<'a> Extension<'a> {
    /// What it holds as a list of identifiers.
    pub fn identifiers(self) -> impl Iterator<Item = &'a [u8]> {
        let mut list = Der(Der(self.value).expect(tag::SEQUENCE).unwrap_or_default());
        std::iter::from_fn(move || list.expect(tag::OID))
    }

    /// What it holds as basicConstraints: whether it is an authority, and how many authorities may be below it.
    #[must_use]
    pub fn constraints(self) -> Option<(bool, Option<usize>)> {
        let mut fields = Der(Der(self.value).expect(tag::SEQUENCE)?);
        let is_authority = match fields.peek() {
            Some(tag::BOOLEAN) => fields.expect(tag::BOOLEAN)? != [0],
            _ => false,
        };
        let most = match fields.peek() {
            Some(tag::INTEGER) => {
                let number = fields.expect(tag::INTEGER)?;
                Some(number.iter().fold(0_usize, |most, byte| most.saturating_mul(256).saturating_add((*byte).into())))
            }
            _ => None,
        };
        Some((is_authority, most))
    }

    /// What it holds as bytes.
    #[must_use]
    pub fn octets(self) -> Option<&'a [u8]> {
        Der(self.value).expect(tag::OCTET_STRING)
    }

    /// The first eight of its bits, of a bit string.
    #[must_use]
    pub fn bits(self) -> Option<u8> {
        Der(self.value).expect(tag::BIT_STRING)?.get(1).copied()
    }
}

/// These contents with the head of a sequence before them.
#[must_use]
pub fn in_sequence(contents: &[u8]) -> Vec<u8> {
    wrapped(tag::SEQUENCE, contents)
}

/// A value of this kind with these contents.
pub(crate) fn wrapped(kind: u8, contents: &[u8]) -> Vec<u8> {
    let mut whole = vec![kind];
    let length: Vec<u8> = contents.len().to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    match length.as_slice() {
        [] => whole.push(0),
        [length @ 0..=0x7f] => whole.push(*length),
        bytes => {
            whole.push(0x80 | u8::try_from(bytes.len()).unwrap_or(8));
            whole.extend_from_slice(bytes);
        }
    }
    whole.extend_from_slice(contents);
    whole
}

/// A name in parts.
#[derive(Clone, Copy, Debug)]
pub struct DistinguishedName<'a>(&'a [u8]);

/// A part of a name.
#[derive(Clone, Copy, Debug)]
pub struct NamePart<'a> {
    /// What it is, as DER has it.
    pub oid: &'a [u8],
    /// What it says.
    pub value: &'a [u8],
}

impl<'a> DistinguishedName<'a> {
    /// That of these bytes, without the sequence around them.
    #[must_use]
    pub fn of(der: &'a [u8]) -> Self {
        Self(der)
    }

    /// Its bytes, without the sequence around them.
    #[must_use]
    pub fn der(self) -> &'a [u8] {
        self.0
    }

    /// Its parts, in order.
    pub fn parts(self) -> impl Iterator<Item = NamePart<'a>> {
        let mut sets = Der(self.0);
        let mut within = Der(&[]);
        std::iter::from_fn(move || {
            loop {
                if let Some((_, part, _)) = within.next() {
                    let mut part = Der(part);
                    let oid = part.expect(tag::OID)?;
                    let (_, value, _) = part.next()?;
                    return Some(NamePart { oid, value });
                }
                within = Der(sets.expect(tag::SET)?);
            }
        })
    }

    /// As OpenSSL writes it in one line: `/C=FR/O=Example/CN=www`.
    #[must_use]
    pub fn one_line(self) -> String {
        let mut line = String::new();
        for part in self.parts() {
            let _ = write!(line, "/{}={}", crate::names::short(part.oid), String::from_utf8_lossy(part.value));
        }
        line
    }

    /// As RFC 2253 writes it: `CN=www,O=Example,C=FR`.
    #[must_use]
    pub fn rfc2253(self) -> String {
        let mut parts: Vec<String> = self
            .parts()
            .map(|part| {
                let mut text = format!("{}=", crate::names::short(part.oid));
                for (at, byte) in part.value.iter().enumerate() {
                    let is_at_edge =
                        *byte == b' ' && (at == 0 || at + 1 == part.value.len()) || *byte == b'#' && at == 0;
                    match byte {
                        // What is no ASCII is written by number, as OpenSSL does.
                        0..0x20 | 0x7f.. => {
                            let _ = write!(text, "\\{byte:02X}");
                            continue;
                        }
                        b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => text.push('\\'),
                        _ if is_at_edge => text.push('\\'),
                        _ => {}
                    }
                    text.push(char::from(*byte));
                }
                text
            })
            .collect();
        parts.reverse();
        parts.join(",")
    }

    /// The part of this name, by OpenSSL's short name in either case: the `occurrence`th, from the end where it is negative. There is none at 0.
    #[must_use]
    pub fn part(self, name: &str, occurrence: i64) -> Option<&'a [u8]> {
        let mut found: Vec<&'a [u8]> = self
            .parts()
            .filter(|part| crate::names::short(part.oid).eq_ignore_ascii_case(name))
            .map(|part| part.value)
            .collect();
        if occurrence < 0 {
            found.reverse();
        }
        let index = usize::try_from(occurrence.unsigned_abs().checked_sub(1)?).ok()?;
        found.get(index).copied()
    }
}

/// A time of a certificate, in seconds since 1970.
pub(crate) fn seconds((kind, text): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match kind {
        tag::UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        tag::GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let number = |place: usize| -> Option<i64> { rest.get(place * 2..place * 2 + 2)?.parse().ok() };
    let (month, day) = (number(0)?, number(1)?);
    let (hour, minute, second) = (number(2)?, number(3)?, number(4).unwrap_or(0));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = calendar::days_from_1970(year, month, day);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds((tag::UTC_TIME, b"700101000000Z")), Some(0));
        assert_eq!(seconds((tag::UTC_TIME, b"240229120000Z")), Some(1_709_208_000));
        assert_eq!(seconds((tag::GENERALIZED_TIME, b"20500101000000Z")), Some(2_524_608_000));
        assert_eq!(seconds((tag::UTC_TIME, b"24")), None);
        assert_eq!(seconds((tag::UTC_TIME, b"241301000000Z")), None);
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        assert!(Certificate::read(b"").is_none());
        assert!(Certificate::read(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).is_none());
        assert!(Certificate::read(&[0x30, 0x80]).is_none());
    }
}
