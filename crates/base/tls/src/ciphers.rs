//! Versions, ciphers and curves by OpenSSL's names.

use rustls::{
    SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{SupportedKxGroup, aws_lc_rs as provider},
};
use thiserror::Error;

/// A version of TLS that a configuration may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// SSL 3.0, which is not there.
    Ssl3,
    /// TLS 1.0, which is not there.
    Tls10,
    /// TLS 1.1, which is not there.
    Tls11,
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    /// By its name of `ssl-min-ver`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "SSLv3" => Self::Ssl3,
            "TLSv1.0" => Self::Tls10,
            "TLSv1.1" => Self::Tls11,
            "TLSv1.2" => Self::Tls12,
            "TLSv1.3" => Self::Tls13,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssl3 => "SSLv3",
            Self::Tls10 => "TLSv1.0",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    /// Whether there is an implementation of it.
    #[must_use]
    pub fn is_there(self) -> bool {
        self >= Self::Tls12
    }
}

/// Which versions are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2 is.
    pub tls12: bool,
    /// TLS 1.3 is.
    pub tls13: bool,
}

impl Default for Versions {
    fn default() -> Self {
        Self { tls12: true, tls13: true }
    }
}

impl Versions {
    pub(crate) fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        let mut list = Vec::with_capacity(2);
        if self.tls13 {
            list.push(&rustls::version::TLS13);
        }
        if self.tls12 {
            list.push(&rustls::version::TLS12);
        }
        list
    }
}

/// Why options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// No cipher is left.
    #[error("none of these ciphers is there")]
    NoCipher,
    /// No curve is left.
    #[error("none of these curves is there")]
    NoCurve,
}

/// Names that stand in a list and for which there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownNames(pub Vec<String>);

/// Ciphers up to TLS 1.2, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct CipherList(Vec<SupportedCipherSuite>);

/// A cipher of TLS 1.2: its name, its suite, and words that stand for it and others.
struct Cipher {
    name: &'static str,
    suite: SupportedCipherSuite,
    words: &'static [&'static str],
}

macro_rules! cipher {
    ($name:literal, $suite:ident, $($word:literal),*) => {
        Cipher { name: $name, suite: provider::cipher_suite::$suite, words: &[$($word),*] }
    };
}

/// In OpenSSL's order of strength.
static CIPHERS: &[Cipher] = &[
    cipher!(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDSA",
        "aECDSA",
        "AES",
        "AES256",
        "AESGCM",
        "SHA384",
        "SUITEB128",
        "SUITEB192",
        "FIPS"
    ),
    cipher!(
        "ECDHE-RSA-AES256-GCM-SHA384",
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "aRSA",
        "AES",
        "AES256",
        "AESGCM",
        "SHA384",
        "FIPS"
    ),
    cipher!(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDSA",
        "aECDSA",
        "CHACHA20"
    ),
    cipher!("ECDHE-RSA-CHACHA20-POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "aRSA", "CHACHA20"),
    cipher!(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDSA",
        "aECDSA",
        "AES",
        "AES128",
        "AESGCM",
        "SHA256",
        "SUITEB128",
        "SUITEB128ONLY",
        "FIPS"
    ),
    cipher!(
        "ECDHE-RSA-AES128-GCM-SHA256",
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "aRSA",
        "AES",
        "AES128",
        "AESGCM",
        "SHA256",
        "FIPS"
    ),
];

/// Words for all of them.
const ALL: &[&str] = &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "TLSv1.2"];

/// Words of OpenSSL for which none of them stands.
const NONE: &[&str] = &[
    "COMPLEMENTOFDEFAULT",
    "COMPLEMENTOFALL",
    "MEDIUM",
    "LOW",
    "EXP",
    "EXPORT",
    "EXPORT40",
    "EXPORT56",
    "NULL",
    "eNULL",
    "aNULL",
    "DES",
    "3DES",
    "RC4",
    "RC2",
    "MD5",
    "SHA1",
    "SHA",
    "PSK",
    "kPSK",
    "aPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "SRP",
    "kSRP",
    "aSRP",
    "DSS",
    "aDSS",
    "DHE",
    "EDH",
    "kDHE",
    "kEDH",
    "DH",
    "kDH",
    "ADH",
    "AECDH",
    "kRSA",
    "RSA",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "SEED",
    "IDEA",
    "GOST",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CBC",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "KRB5",
    "kECDH",
    "aECDH",
    "kECDHr",
    "kECDHe",
    "aDH",
    "kDHr",
    "kDHd",
];

impl CipherList {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self(CIPHERS.iter().map(|cipher| cipher.suite).collect())
    }

    /// Those of an expression of OpenSSL, and the names in it for which there is none.
    ///
    /// # Errors
    /// When none is left.
    pub fn parse(expression: &str) -> Result<(Self, UnknownNames), OptionsError> {
        let (mut chosen, mut killed) = (Vec::<&Cipher>::new(), Vec::<&str>::new());
        let mut unknown = UnknownNames::default();
        for word in expression.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
            if word.starts_with('@') {
                // An order or a level: those that are there are all of one strength, and of the highest level but one.
                continue;
            }
            let (what, names) = match word.as_bytes().first() {
                Some(b'!' | b'-' | b'+') => word.split_at(1),
                _ => ("", word),
            };
            let matching: Vec<&Cipher> =
                CIPHERS.iter().filter(|cipher| names.split('+').all(|name| cipher.is(name))).collect();
            match what {
                "!" => {
                    killed.extend(matching.iter().map(|cipher| cipher.name));
                    chosen.retain(|cipher| !killed.contains(&cipher.name));
                }
                "-" => chosen.retain(|cipher| !matching.iter().any(|other| other.name == cipher.name)),
                "+" => {
                    let (last, mut first): (Vec<&Cipher>, Vec<&Cipher>) =
                        chosen.iter().partition(|cipher| matching.iter().any(|other| other.name == cipher.name));
                    first.extend(last);
                    chosen = first;
                }
                _ => {
                    if matching.is_empty() && !names.split('+').any(|name| NONE.contains(&name)) {
                        unknown.0.push(names.to_owned());
                    }
                    for cipher in matching {
                        let is_there = chosen.iter().any(|other| other.name == cipher.name);
                        if !is_there && !killed.contains(&cipher.name) {
                            chosen.push(cipher);
                        }
                    }
                }
            }
        }
        match chosen.is_empty() {
            true => Err(OptionsError::NoCipher),
            false => Ok((Self(chosen.iter().map(|cipher| cipher.suite).collect()), unknown)),
        }
    }
}

impl Cipher {
    fn is(&self, name: &str) -> bool {
        self.name == name || ALL.contains(&name) || self.words.contains(&name)
    }
}

/// Cipher suites of TLS 1.3, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Suites(Vec<SupportedCipherSuite>);

static SUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", provider::cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", provider::cipher_suite::TLS13_AES_128_GCM_SHA256),
];

impl Suites {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self(SUITES.iter().map(|(_, suite)| *suite).collect())
    }

    /// Those of a list, and the names in it for which there is none.
    ///
    /// # Errors
    /// When none is left.
    pub fn parse(list: &str) -> Result<(Self, UnknownNames), OptionsError> {
        let (mut chosen, mut unknown) = (Vec::new(), UnknownNames::default());
        for name in list.split(':').filter(|name| !name.is_empty()) {
            match SUITES.iter().find(|(known, _)| *known == name) {
                Some((_, suite)) if chosen.contains(suite) => {}
                Some((_, suite)) => chosen.push(*suite),
                None => unknown.0.push(name.to_owned()),
            }
        }
        match chosen.is_empty() {
            true => Err(OptionsError::NoCipher),
            false => Ok((Self(chosen), unknown)),
        }
    }
}

/// Curves for the exchange of keys, in order.
#[derive(Clone, Debug)]
pub struct Curves(Vec<&'static dyn SupportedKxGroup>);

impl Curves {
    /// Those that are offered where nothing is said.
    #[must_use]
    pub fn all() -> Self {
        Self(provider::DEFAULT_KX_GROUPS.to_vec())
    }

    /// Those of a list, and the names in it for which there is none.
    ///
    /// # Errors
    /// When none is left.
    pub fn parse(list: &str) -> Result<(Self, UnknownNames), OptionsError> {
        let (mut chosen, mut unknown) = (Vec::<&'static dyn SupportedKxGroup>::new(), UnknownNames::default());
        for name in list.split(':').filter(|name| !name.is_empty()) {
            let group = match name.to_ascii_lowercase().as_str() {
                "x25519" => provider::kx_group::X25519,
                "p-256" | "prime256v1" | "secp256r1" => provider::kx_group::SECP256R1,
                "p-384" | "secp384r1" => provider::kx_group::SECP384R1,
                "x25519mlkem768" => provider::kx_group::X25519MLKEM768,
                "secp256r1mlkem768" => provider::kx_group::SECP256R1MLKEM768,
                _ => {
                    unknown.0.push(name.to_owned());
                    continue;
                }
            };
            if !chosen.iter().any(|known| known.name() == group.name()) {
                chosen.push(group);
            }
        }
        match chosen.is_empty() {
            true => Err(OptionsError::NoCurve),
            false => Ok((Self(chosen), unknown)),
        }
    }
}

/// What all of it makes of rustls.
pub fn crypto_provider(ciphers: &CipherList, suites: &Suites, curves: &Curves) -> rustls::crypto::CryptoProvider {
    rustls::crypto::CryptoProvider {
        cipher_suites: suites.0.iter().chain(&ciphers.0).copied().collect(),
        kx_groups: curves.0.clone(),
        ..provider::default_provider()
    }
}

/// A suite's name in OpenSSL, and the bits of its key.
pub fn name_of(suite: SupportedCipherSuite) -> (&'static str, u16) {
    let known = SUITES.iter().map(|(name, suite)| (*name, *suite));
    let known = known.chain(CIPHERS.iter().map(|cipher| (cipher.name, cipher.suite)));
    let name = known.into_iter().find(|(_, known)| *known == suite).map_or("unknown", |(name, _)| name);
    (name, if name.contains("128") { 128 } else { 256 })
}

/// Those of signatures.
pub fn algorithms() -> rustls::crypto::WebPkiSupportedAlgorithms {
    rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(expression: &str) -> Vec<&'static str> {
        let (list, _) = CipherList::parse(expression).unwrap();
        list.0.iter().map(|suite| name_of(*suite).0).collect()
    }

    #[test]
    fn expressions_are_those_of_openssl() {
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256"),
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("ECDHE+AESGCM:!aRSA"), ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"]);
        assert_eq!(names("HIGH:!AESGCM:!MD5:!aNULL"), ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"]);
        assert_eq!(
            names("CHACHA20:AES128:+ECDSA:@STRENGTH"),
            [
                "ECDHE-RSA-CHACHA20-POLY1305",
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
                "ECDHE-ECDSA-AES128-GCM-SHA256"
            ]
        );
        assert_eq!(names("ALL:-ECDHE:AES256+aRSA"), ["ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(CipherList::parse("AES128-SHA:RC4").unwrap_err(), OptionsError::NoCipher);
    }

    #[test]
    fn names_that_are_not_there_are_told() {
        let (_, unknown) = CipherList::parse("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!DHE-FOO").unwrap();
        assert_eq!(unknown.0, ["DHE-RSA-AES128-GCM-SHA256"]);
        let (_, unknown) = Curves::parse("X25519:prime256v1:X448").unwrap();
        assert_eq!(unknown.0, ["X448"]);
        assert!(Suites::parse("TLS_AES_128_CCM_SHA256").is_err());
    }
}
