//! Hashes: those that only spread, and those that resist.

use balance::HashFunction;
use balance::hash::{full_hash, hash_bytes};
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use twox_hash::{XxHash3_64, XxHash32, XxHash64};

use super::{bytes, text_or_variable, variable};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::base64::{self, Alphabet};
use crate::keyword::{Call, Converter};
use crate::parser::ParseContext;
use crate::value::{Type, Value};
use crate::variables::VariableName;

const INTEGER: &[ArgumentType] = &[ArgumentType::Sint];
const STRING: &[ArgumentType] = &[ArgumentType::Str];

/// A hash of 32 bits, which an argument other than 0 spreads further.
macro_rules! spread {
    ($name:literal, $hash:expr) => {
        Converter::new($name, Type::Bin, Type::Sint, |value, call| {
            let hash: fn(&[u8]) -> u32 = $hash;
            let hash = hash(&bytes(value)?);
            let avalanche = call.integer(0).is_some_and(|avalanche| avalanche != 0);
            Some(Value::Sint(i64::from(if avalanche { full_hash(hash) } else { hash })))
        })
        .takes(INTEGER, 0)
        .doc(
            concat!("The ", $name, " hash, with 1 spread over all bits."),
            concat!("http-request set-var(txn.bucket) src,", $name, ",mod(100)"),
        )
    };
}

pub(super) const CONVERTERS: &[Converter] = &[
    spread!("crc32", |block| hash_bytes(HashFunction::Crc32, block)),
    spread!("crc32c", crc32c),
    spread!("djb2", |block| hash_bytes(HashFunction::Djb2, block)),
    spread!("sdbm", |block| hash_bytes(HashFunction::Sdbm, block)),
    spread!("wt6", |block| hash_bytes(HashFunction::Wt6, block)),
    Converter::new("xxh3", Type::Bin, Type::Sint, |value, call| {
        Some(signed(XxHash3_64::oneshot_with_seed(seed(call), &bytes(value)?)))
    })
    .takes(INTEGER, 0)
    .doc("The XXH3 hash of 64 bits with a seed.", "http-request set-var(txn.key) path,xxh3"),
    Converter::new("xxh32", Type::Bin, Type::Sint, |value, call| {
        let [a, b, c, d, ..] = seed(call).to_le_bytes();
        let seed = u32::from_le_bytes([a, b, c, d]);
        Some(Value::Sint(i64::from(XxHash32::oneshot(seed, &bytes(value)?))))
    })
    .takes(INTEGER, 0)
    .doc("The XXH32 hash with a seed.", "http-request set-var(txn.key) path,xxh32"),
    Converter::new("xxh64", Type::Bin, Type::Sint, |value, call| {
        Some(signed(XxHash64::oneshot(seed(call), &bytes(value)?)))
    })
    .takes(INTEGER, 0)
    .doc("The XXH64 hash with a seed.", "http-request set-var(txn.key) path,xxh64"),
    Converter::new("digest", Type::Bin, Type::Bin, |value, call| {
        let algorithm = Algorithm::find(call.text(0)?)?;
        Some(Value::bin(algorithm.digest(&[&bytes(value)?])))
    })
    .takes(STRING, 1)
    .checked(check_algorithm)
    .doc(
        "The digest by md5, sha1, sha224, sha256, sha384 or sha512.",
        "http-request set-var(txn.sum) req.body,digest(sha256),hex",
    ),
    Converter::new("hmac", Type::Bin, Type::Bin, hmac)
        .takes(&[ArgumentType::Str, ArgumentType::Str], 2)
        .checked(check_hmac)
        .doc(
            "The keyed digest; the key in Base64 or in a variable.",
            "http-request set-var(txn.sign) path,hmac(sha256,a2V5),hex",
        ),
    Converter::new("sha1", Type::Bin, Type::Bin, |value, _| {
        Some(Value::bin(Algorithm::Sha1.digest(&[&bytes(value)?])))
    })
    .doc("The SHA-1 digest.", "http-request set-var(txn.sum) req.body,sha1,hex"),
    Converter::new("sha2", Type::Bin, Type::Bin, |value, call| {
        let algorithm = match call.integer(0) {
            Some(224) => Algorithm::Sha224,
            Some(384) => Algorithm::Sha384,
            Some(512) => Algorithm::Sha512,
            _ => Algorithm::Sha256,
        };
        Some(Value::bin(algorithm.digest(&[&bytes(value)?])))
    })
    .takes(INTEGER, 0)
    .checked(|arguments, _| match arguments.first() {
        Some(Argument::Sint(bits)) if !matches!(bits, 224 | 256 | 384 | 512) => {
            Err(format!("Unsupported number of bits: '{bits}'"))
        }
        _ => Ok(()),
    })
    .doc(
        "The SHA-2 digest of 224, 256 (the default), 384 or 512 bits.",
        "http-request set-var(txn.sum) req.body,sha2(512),hex",
    ),
    Converter::new("secure_memcmp", Type::Bin, Type::Bool, |value, call| {
        let (left, right) = (bytes(value)?, bytes(variable(call, 0, Type::Bin)?)?);
        if left.len() != right.len() {
            return Some(Value::Bool(false));
        }
        // Every byte is looked at, so that the time tells nothing of where they differ.
        let difference = left.iter().zip(right.iter()).fold(0u8, |difference, (left, right)| difference | left ^ right);
        Some(Value::Bool(std::hint::black_box(difference) == 0))
    })
    .takes(STRING, 1)
    .checked(|arguments, _| super::variable::check_required(arguments))
    .doc(
        "Whether it equals a variable, found out in a time that tells nothing.",
        "acl known hdr(x-key),secure_memcmp(proc.key)",
    ),
];

fn signed<'a>(hash: u64) -> Value<'a> {
    Value::Sint(i64::from_ne_bytes(hash.to_ne_bytes()))
}

fn seed(call: &Call<'_>) -> u64 {
    u64::from_ne_bytes(call.integer(0).unwrap_or(0).to_ne_bytes())
}

/// CRC with the polynomial of Castagnoli, bit by bit: four times slower than with a table, and rare.
fn crc32c(block: &[u8]) -> u32 {
    !block.iter().fold(u32::MAX, |hash, &byte| {
        (0..8).fold(hash ^ u32::from(byte), |hash, _| (hash >> 1) ^ (0x82f6_3b78 & (hash & 1).wrapping_neg()))
    })
}

#[derive(Clone, Copy)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    fn find(name: &[u8]) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"md5" => Algorithm::Md5,
            b"sha1" => Algorithm::Sha1,
            b"sha224" => Algorithm::Sha224,
            b"sha256" => Algorithm::Sha256,
            b"sha384" => Algorithm::Sha384,
            b"sha512" => Algorithm::Sha512,
            _ => return None,
        })
    }

    fn digest(self, parts: &[&[u8]]) -> Vec<u8> {
        fn run<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
            let mut digest = D::new();
            for part in parts {
                digest.update(part);
            }
            digest.finalize().to_vec()
        }
        match self {
            Algorithm::Md5 => run::<md5::Md5>(parts),
            Algorithm::Sha1 => run::<Sha1>(parts),
            Algorithm::Sha224 => run::<Sha224>(parts),
            Algorithm::Sha256 => run::<Sha256>(parts),
            Algorithm::Sha384 => run::<Sha384>(parts),
            Algorithm::Sha512 => run::<Sha512>(parts),
        }
    }

    /// Bytes that the function works on at a time.
    fn block_bytes(self) -> usize {
        match self {
            Algorithm::Sha384 | Algorithm::Sha512 => 128,
            _ => 64,
        }
    }

    /// RFC 2104.
    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let mut padded = if key.len() > self.block_bytes() { self.digest(&[key]) } else { key.to_vec() };
        padded.resize(self.block_bytes(), 0);
        let with = |pad: u8| padded.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
        let inner = self.digest(&[&with(0x36), message]);
        self.digest(&[&with(0x5c), &inner])
    }
}

fn check_algorithm(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.first() {
        Some(Argument::Str(name)) if Algorithm::find(name).is_none() => Err(
            "algorithm must be a valid OpenSSL message digest name. Supported: md5, sha1, sha224, sha256, sha384, sha512"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Turns the key into a variable, if it is the name of one, or decodes it.
fn check_hmac(arguments: &mut Arguments, parser: &mut ParseContext<'_>) -> Result<(), String> {
    check_algorithm(arguments, parser)?;
    if let Some(key) = arguments.get_mut(1)
        && let Argument::Str(text) = key
    {
        *key = match VariableName::parse(text) {
            Ok(name) => Argument::Variable(name),
            Err(_) => {
                let decoded = base64::decode(text, Alphabet::Standard);
                let decoded = decoded.ok_or("failed to parse key : argument needs to be base64 encoded, and can either be a string or a variable")?;
                Argument::Str(decoded.into_boxed_slice())
            }
        };
    }
    Ok(())
}

fn hmac<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let algorithm = Algorithm::find(call.text(0)?)?;
    let key = text_or_variable(call, 1)?;
    let message = bytes(value)?;
    // A key in a variable is still encoded.
    let hash = match call.text(1) {
        Some(_) => algorithm.hmac(&key, &message),
        None => algorithm.hmac(&base64::decode(&key, Alphabet::Standard)?, &message),
    };
    Some(Value::bin(hash))
}
