//! Encodings.

use super::{MADE_BYTES_MAX, bytes, integer};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::base64::{self, Alphabet};
use crate::keyword::{Call, Converter};
use crate::number::mapped_v4;
use crate::parser::ParseContext;
use crate::value::{Type, Value};
use basics::hex;

const STRING: &[ArgumentType] = &[ArgumentType::Str];
const CHUNKS: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint, ArgumentType::Sint];

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("b64dec", Type::Str, Type::Bin, |value, _| {
        base64::decode(&bytes(value)?, Alphabet::Standard).map(Value::bin)
    })
    .doc("Decoded from Base64.", "http-request set-var(txn.token) hdr(x-token),b64dec"),
    Converter::new("base64", Type::Bin, Type::Str, |value, _| {
        Some(Value::str(base64::encode(&bytes(value)?, Alphabet::Standard)))
    })
    .doc("Encoded in Base64.", "http-request set-header X-Cert %[req.body,base64]"),
    Converter::new("ub64dec", Type::Str, Type::Bin, |value, _| {
        base64::decode(&bytes(value)?, Alphabet::Url).map(Value::bin)
    })
    .doc("Decoded from Base64 in the alphabet for URLs.", "http-request set-var(txn.id) urlp(id),ub64dec"),
    Converter::new("ub64enc", Type::Bin, Type::Str, |value, _| {
        Some(Value::str(base64::encode(&bytes(value)?, Alphabet::Url)))
    })
    .doc("Encoded in Base64 in the alphabet for URLs.", "http-request set-query id=%[src,ub64enc]"),
    Converter::new("be2dec", Type::Bin, Type::Str, |value, call| {
        chunks(value, call, |chunk| {
            let number = chunk.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
            number.to_string().into_bytes()
        })
    })
    .takes(CHUNKS, 1)
    .checked(check_be2dec)
    .doc(
        "Chunks of so many bytes as decimal numbers with a separator; the last flag drops an incomplete one.",
        "log-format %[src,be2dec(.,1)]",
    ),
    Converter::new("be2hex", Type::Bin, Type::Str, |value, call| chunks(value, call, hexadecimal))
        .takes(CHUNKS, 1)
        .checked(check_be2hex)
        .doc(
            "Chunks of so many bytes in hexadecimal with a separator; the last flag drops an incomplete one.",
            "log-format %[src,be2hex(:,1)]",
        ),
    Converter::new("hex", Type::Bin, Type::Str, |value, _| Some(Value::str(hexadecimal(&bytes(value)?))))
        .doc("In hexadecimal, upper case.", "log-format %[req.body,hex]"),
    Converter::new("hex2i", Type::Str, Type::Sint, |value, _| {
        let mut number = 0i64;
        for byte in bytes(value)?.iter() {
            number = number << 4 | i64::from(hex::value(*byte)?);
        }
        Some(Value::Sint(number))
    })
    .doc("The integer written in hexadecimal.", "acl large hdr(x-size),hex2i gt 1000"),
    Converter::new("htonl", Type::Sint, Type::Bin, |value, _| {
        let [.., a, b, c, d] = integer(&value)?.to_be_bytes();
        Some(Value::bin(vec![a, b, c, d]))
    })
    .doc("The low 32 bits as bytes in network order.", "http-request set-var(txn.id) int(10),htonl,hex"),
    Converter::new("ipmask", Type::Addr, Type::Ipv4, mask).takes(&[ArgumentType::Mask4, ArgumentType::Mask6], 1).doc(
        "The network of an address: the mask for IPv4, and for IPv6 if given.",
        "http-request track-sc0 src,ipmask(24,64)",
    ),
    Converter::new("url_dec", Type::Str, Type::Str, decode_url).takes(&[ArgumentType::Sint], 0).doc(
        "Decoded from percent encoding; with 1, or after a question mark, + is a space.",
        "acl admin path,url_dec -m beg /admin",
    ),
    Converter::new("url_enc", Type::Str, Type::Str, |value, _| {
        let text = bytes(value)?;
        let mut output = Vec::with_capacity(text.len() * 2);
        for byte in text.iter() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                output.push(*byte);
            } else {
                output.push(b'%');
                output.extend_from_slice(&hexadecimal(&[*byte]));
            }
        }
        Some(Value::str(output))
    })
    .takes(STRING, 1)
    .checked(|arguments, _| match arguments.first() {
        Some(Argument::Str(kind)) if !matches!(&**kind, b"" | b"query") => {
            Err("Unexpected encode type. Allowed value is 'query'".to_owned())
        }
        _ => Ok(()),
    })
    .doc(
        "Percent encoded, so that it can stand in a query.",
        "http-request redirect location /login?to=%[url,url_enc(query)]",
    ),
];

pub(super) fn hexadecimal(block: &[u8]) -> Vec<u8> {
    hex::upper(block).into_bytes()
}

fn mask<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let masks = (call.arguments.first()?, call.arguments.get(1));
    let v4 = |address: std::net::Ipv4Addr| match masks.0 {
        Argument::Mask4(mask) => Some(Value::Ipv4((u32::from(address) & mask).into())),
        _ => None,
    };
    match value {
        Value::Ipv4(address) => v4(address),
        Value::Ipv6(address) => match (mapped_v4(address), masks.1) {
            (Some(address), _) => v4(address),
            (None, Some(Argument::Mask6(mask))) => Some(Value::Ipv6((u128::from(address) & mask).into())),
            (None, _) => None,
        },
        _ => None,
    }
}

fn decode_url<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let text = bytes(value)?;
    let mut in_form = call.integer(0).is_some_and(|form| form != 0);
    if memchr::memchr3(b'%', b'+', 0, &text).is_none() {
        return Some(Value::Str(text));
    }
    let mut output = Vec::with_capacity(text.len());
    let mut rest: &[u8] = &text;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            0 => break,
            b'+' if in_form => output.push(b' '),
            b'%' => {
                let [high, low, tail @ ..] = rest else { return None };
                output.push(hex::value(*high)? << 4 | hex::value(*low)?);
                rest = tail;
            }
            byte => {
                in_form |= *byte == b'?';
                output.push(*byte);
            }
        }
    }
    Some(Value::str(output))
}

fn integer_at(arguments: &[Argument], position: usize) -> i64 {
    match arguments.get(position) {
        Some(Argument::Sint(value)) => *value,
        _ => 0,
    }
}

fn check_truncation(arguments: &[Argument]) -> Result<(), String> {
    match integer_at(arguments, 2) {
        0 | 1 => Ok(()),
        value => Err(format!("Unsupported truncate value ({value})")),
    }
}

fn check_be2dec(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let size = integer_at(arguments, 1);
    if !(1..=8).contains(&size) {
        return Err(format!("chunk_size out of [1..8] range ({size})"));
    }
    check_truncation(arguments)
}

fn check_be2hex(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let size = integer_at(arguments, 1);
    let has_separator = matches!(arguments.first(), Some(Argument::Str(text)) if !text.is_empty());
    if size <= 0 && (has_separator || integer_at(arguments, 2) != 0) {
        return Err(format!("chunk_size needs to be positive ({size})"));
    }
    check_truncation(arguments)
}

/// Writes chunk after chunk with a separator between.
fn chunks<'a>(value: Value<'a>, call: &Call<'a>, write: fn(&[u8]) -> Vec<u8>) -> Option<Value<'a>> {
    let block = bytes(value)?;
    let separator = call.text(0)?;
    let truncate = call.integer(2) == Some(1);
    let size = usize::try_from(call.integer(1).unwrap_or(0)).unwrap_or(0);
    let size = if size == 0 { block.len().max(1) } else { size };
    let mut output = Vec::new();
    for (position, chunk) in block.chunks(size).enumerate() {
        if truncate && chunk.len() < size {
            break;
        }
        if position > 0 {
            output.extend_from_slice(separator);
        }
        output.extend_from_slice(&write(chunk));
        if output.len() > MADE_BYTES_MAX {
            break;
        }
    }
    output.truncate(MADE_BYTES_MAX);
    Some(Value::str(output))
}
