//! From a sample to the key of a stick table.

use std::borrow::Cow;

use stick::{Key, KeyType};

use crate::{
    bytes::Bytes,
    value::{Type, Value},
};

/// The type that a sample is cast to for keys of this type.
#[must_use]
pub const fn stick_key_type(key: KeyType) -> Type {
    match key {
        KeyType::Ip => Type::Ipv4,
        KeyType::Ipv6 => Type::Ipv6,
        KeyType::Integer => Type::Sint,
        KeyType::String => Type::Str,
        KeyType::Binary => Type::Bin,
    }
}

/// The key that a value makes in a table with keys of this type and length; none when the value cannot be cast to it.
#[must_use]
pub fn stick_key(value: Value<'_>, key: KeyType, len: usize) -> Option<Key<'_>> {
    Some(match value.cast(stick_key_type(key))? {
        Value::Ipv4(address) => Key::ip(address),
        Value::Ipv6(address) => Key::ipv6(address),
        // As in HAProxy, the lower half of it.
        Value::Sint(number) => Key::integer(number as u32),
        Value::Str(bytes) => shaped(bytes, |bytes| Key::text(bytes, len)),
        Value::Bin(bytes) => shaped(bytes, |bytes| Key::block(bytes, len)),
        Value::Bool(_) | Value::Meth(_) => return None,
    })
}

fn shaped<'a>(bytes: Bytes<'a>, shape: impl for<'b> Fn(&'b [u8]) -> Key<'b>) -> Key<'a> {
    match bytes {
        Bytes::Borrowed(bytes) => shape(bytes),
        other => Key::Long(Cow::Owned(shape(&other).bytes().to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value<'_>, key: KeyType, len: usize, expected: Option<&[u8]>) {
        let found = stick_key(value.clone(), key, len);
        assert_eq!(found.as_ref().map(Key::bytes), expected, "{value:?} as {key:?}");
    }

    #[test]
    fn values_become_keys() {
        let v4 = || Value::Ipv4([192, 0, 2, 7].into());
        let v6 = || Value::Ipv6("2001:db8::1".parse().unwrap());
        check(v4(), KeyType::Ip, 4, Some(&[192, 0, 2, 7]));
        check(Value::str(&b"192.0.2.7"[..]), KeyType::Ip, 4, Some(&[192, 0, 2, 7]));
        check(Value::str(&b"nonsense"[..]), KeyType::Ip, 4, None);
        check(v6(), KeyType::Ip, 4, None);
        check(Value::Ipv6("::ffff:192.0.2.7".parse().unwrap()), KeyType::Ip, 4, Some(&[192, 0, 2, 7]));
        check(v4(), KeyType::Ipv6, 16, Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 7]));
        check(Value::Sint(-1), KeyType::Integer, 4, Some(&[255; 4]));
        check(Value::Sint(5), KeyType::String, 31, Some(b"5"));
        check(v4(), KeyType::String, 5, Some(b"192.0"));
        check(Value::str(&b"ab"[..]), KeyType::Binary, 4, Some(b"ab\0\0"));
        check(Value::bin(vec![1, 2, 3, 4, 5]), KeyType::Binary, 4, Some(&[1, 2, 3, 4]));
        check(Value::Meth(b"GET".to_vec().into()), KeyType::Integer, 4, None);
    }
}
