//! Signatures of JSON Web Tokens (RFC 7515): what `jwt_verify` answers.
//!
//! Only the signature is looked at: what the token says, and whether it has expired, is for rules to ask.

mod keys;

use aws_lc_rs::hmac;

use crate::base64::{self, Alphabet};
pub use keys::PublicKeys;
pub(crate) use keys::{KeyKind, Unusable};

/// How many digests there are; algorithms that end in 256, 384 and 512 use the first, second and third.
const DIGESTS: usize = 3;

/// What signs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A secret that both sides know (RFC 7518, section 3.2).
    Hmac,
    /// RSASSA-PKCS1-v1_5 (section 3.3).
    Rsa,
    /// ECDSA (section 3.4).
    Ecdsa,
}

/// An algorithm of RFC 7518, section 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// No signature at all.
    None,
    /// One that is verified here, with the number of its digest.
    Verified(Family, usize),
    /// RSASSA-PSS, which HAProxy 2.6 does not verify either.
    Pss,
}

impl Algorithm {
    /// The algorithm called `name`, exactly.
    pub(crate) fn find(name: &[u8]) -> Option<Self> {
        if name == b"none" {
            return Some(Algorithm::None);
        }
        let (family, bits) = name.split_at_checked(2)?;
        let digest = [b"256", b"384", b"512"].iter().position(|digest| *digest == bits)?;
        Some(match family {
            b"HS" => Algorithm::Verified(Family::Hmac, digest),
            b"RS" => Algorithm::Verified(Family::Rsa, digest),
            b"ES" => Algorithm::Verified(Family::Ecdsa, digest),
            b"PS" => Algorithm::Pss,
            _ => return None,
        })
    }
}

/// What is said of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Failure,
    Success,
    UnknownAlgorithm,
    UnmanagedAlgorithm,
    InvalidToken,
    UnknownKey,
}

impl Verdict {
    /// HAProxy's number for it.
    pub(crate) fn number(self) -> i64 {
        match self {
            Verdict::Failure => 0,
            Verdict::Success => 1,
            Verdict::UnknownAlgorithm => -1,
            Verdict::UnmanagedAlgorithm => -2,
            Verdict::InvalidToken => -3,
            Verdict::UnknownKey => -5,
        }
    }

    fn of(holds: bool) -> Self {
        if holds { Verdict::Success } else { Verdict::Failure }
    }
}

/// Verifies `token`, in compact form (RFC 7515, section 3.1); `key` is the secret or the path of a public key.
pub(crate) fn verify(token: &[u8], algorithm: &[u8], key: &[u8], keys: &PublicKeys) -> Verdict {
    let Some(algorithm) = Algorithm::find(algorithm) else { return Verdict::UnknownAlgorithm };
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(header), Some(payload)) = (parts.next(), parts.next()) else { return Verdict::InvalidToken };
    let signature = parts.next();
    if parts.next().is_some() {
        return Verdict::InvalidToken;
    }
    if algorithm == Algorithm::None {
        return Verdict::of(signature.is_none_or(<[u8]>::is_empty));
    }
    let Some(encoded) = signature.filter(|signature| !signature.is_empty()) else { return Verdict::InvalidToken };
    let signature = match decode(encoded) {
        Ok(signature) => signature,
        Err(verdict) => return verdict,
    };
    let signed = token.get(..header.len() + 1 + payload.len()).unwrap_or_default();
    match algorithm {
        Algorithm::None | Algorithm::Pss => Verdict::UnmanagedAlgorithm,
        Algorithm::Verified(Family::Hmac, digest) => Verdict::of(is_tag(signed, digest, key, &signature)),
        Algorithm::Verified(Family::Rsa, digest) => match keys.find(key) {
            Some(found) => Verdict::of(found.verifies_rsa(digest, signed, &signature)),
            None => Verdict::UnknownKey,
        },
        Algorithm::Verified(Family::Ecdsa, digest) => {
            let Some(found) = keys.find(key) else { return Verdict::UnknownKey };
            let (r, s) = match signature.len() {
                length if length % 2 == 0 => signature.split_at(length / 2),
                _ => return Verdict::InvalidToken,
            };
            Verdict::of(found.verifies_ecdsa(digest, signed, &der_of(r, s)))
        }
    }
}

/// The signature's bytes. Tokens have no padding (RFC 7515, section 2): one that has is wrong, but not malformed, as HAProxy
/// takes padding for digits.
fn decode(encoded: &[u8]) -> Result<Vec<u8>, Verdict> {
    if encoded.len() % 4 == 1 {
        return Err(Verdict::InvalidToken);
    }
    let digits: Vec<u8> = encoded.iter().map(|byte| if *byte == b'=' { b'_' } else { *byte }).collect();
    let signature = base64::decode(&digits, Alphabet::Url).ok_or(Verdict::InvalidToken)?;
    if digits == encoded { Ok(signature) } else { Err(Verdict::Failure) }
}

fn is_tag(signed: &[u8], digest: usize, secret: &[u8], tag: &[u8]) -> bool {
    let algorithm = match digest {
        0 => hmac::HMAC_SHA256,
        1 => hmac::HMAC_SHA384,
        _ => hmac::HMAC_SHA512,
    };
    // Compares in a time that tells nothing.
    hmac::verify(&hmac::Key::new(algorithm, secret), signed, tag).is_ok()
}

/// An ECDSA signature as ASN.1 has it (RFC 3279, section 2.2.3), of the two numbers that a token has one after the other.
fn der_of(r: &[u8], s: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::with_capacity(r.len() + s.len() + 8);
    for number in [r, s] {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = number.get(zeros..).unwrap_or_default();
        // The first bit is the sign, and zero has a byte too.
        let sign = number.first().is_none_or(|byte| *byte >= 0x80);
        numbers.push(0x02);
        length(&mut numbers, number.len() + usize::from(sign));
        numbers.extend(sign.then_some(0));
        numbers.extend_from_slice(number);
    }
    let mut sequence = Vec::with_capacity(numbers.len() + 4);
    sequence.push(0x30);
    length(&mut sequence, numbers.len());
    sequence.append(&mut numbers);
    sequence
}

fn length(output: &mut Vec<u8>, length: usize) {
    let bytes = length.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let significant = bytes.get(zeros..).unwrap_or_default();
    match significant {
        [] => output.push(0),
        [short @ 0..0x80] => output.push(*short),
        long => {
            output.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            output.extend_from_slice(long);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_as_asn1() {
        assert_eq!(der_of(&[0, 0, 5], &[0x80, 1]), [0x30, 8, 2, 1, 5, 2, 3, 0, 0x80, 1]);
        assert_eq!(der_of(&[0, 0], &[0, 0]), [0x30, 6, 2, 1, 0, 2, 1, 0]);
        let long = der_of(&[1; 66], &[0x81; 66]);
        assert_eq!(long[..5], [0x30, 0x81, 137, 2, 66]);
        assert_eq!(long[3 + 68..3 + 71], [2, 67, 0]);
        assert_eq!(der_of(&[1; 200], &[1])[..7], [0x30, 0x81, 206, 2, 0x81, 200, 1]);
    }

    #[test]
    fn names_of_algorithms() {
        assert_eq!(Algorithm::find(b"none"), Some(Algorithm::None));
        assert_eq!(Algorithm::find(b"HS256"), Some(Algorithm::Verified(Family::Hmac, 0)));
        assert_eq!(Algorithm::find(b"RS384"), Some(Algorithm::Verified(Family::Rsa, 1)));
        assert_eq!(Algorithm::find(b"ES512"), Some(Algorithm::Verified(Family::Ecdsa, 2)));
        assert_eq!(Algorithm::find(b"PS256"), Some(Algorithm::Pss));
        for name in ["", "H", "HS", "HS25", "HS2567", "hs256", "HS256 ", "NONE", "ES256K", "EdDSA", "XS256"] {
            assert_eq!(Algorithm::find(name.as_bytes()), None, "{name}");
        }
    }
}
