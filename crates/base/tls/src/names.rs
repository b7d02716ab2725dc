//! OpenSSL's names of what certificates are made of.

use std::fmt::Write as _;

/// Parts of names, by the last byte behind `2.5.4`.
const ATTRIBUTES: &[(u8, &str)] = &[
    (3, "CN"),
    (4, "SN"),
    (5, "serialNumber"),
    (6, "C"),
    (7, "L"),
    (8, "ST"),
    (9, "street"),
    (10, "O"),
    (11, "OU"),
    (12, "title"),
    (13, "description"),
    (15, "businessCategory"),
    (17, "postalCode"),
    (41, "name"),
    (42, "GN"),
    (43, "initials"),
    (44, "generationQualifier"),
    (46, "dnQualifier"),
    (65, "pseudonym"),
    (97, "organizationIdentifier"),
];

/// Everything else, as DER has it.
const OTHERS: &[(&[u8], &str)] = &[
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01], "UID"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01], "rsaEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], "RSA-SHA1"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a], "RSASSA-PSS"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], "RSA-SHA256"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], "RSA-SHA384"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], "RSA-SHA512"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01], "id-ecPublicKey"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], "ecdsa-with-SHA256"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], "ecdsa-with-SHA384"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], "ecdsa-with-SHA512"),
    (&[0x2b, 0x65, 0x70], "ED25519"),
    (&[0x2b, 0x65, 0x71], "ED448"),
];

/// The short name of a part of a name, or its numbers.
pub fn short(oid: &[u8]) -> String {
    of_oid(oid)
}

/// The short name of an algorithm or a part of a name, or its numbers.
pub fn of_oid(oid: &[u8]) -> String {
    if let [0x55, 0x04, last] = oid
        && let Some((_, name)) = ATTRIBUTES.iter().find(|(number, _)| number == last)
    {
        return (*name).to_owned();
    }
    OTHERS.iter().find(|(known, _)| *known == oid).map_or_else(|| numbers(oid), |(_, name)| (*name).to_owned())
}

/// An object identifier as numbers with dots.
fn numbers(oid: &[u8]) -> String {
    let mut text = String::new();
    let (mut number, mut is_first) = (0_u64, true);
    for byte in oid {
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let root = (number / 40).min(2);
            let _ = write!(text, "{root}.{}", number - root * 40);
            is_first = false;
        } else {
            let _ = write!(text, ".{number}");
        }
        number = 0;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_have_names_or_numbers() {
        assert_eq!(of_oid(&[0x55, 0x04, 0x03]), "CN");
        assert_eq!(of_oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01]), "emailAddress");
        assert_eq!(of_oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x02]), "1.2.840.113549.1.9.2");
        assert_eq!(of_oid(&[0x88, 0x37]), "2.999");
    }
}
