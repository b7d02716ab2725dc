//! Numbers and addresses as text, without memory of their own.

use std::{io::Write as _, net::IpAddr};

/// Room for any address.
pub(crate) const ADDRESS_LEN_MAX: usize = 46;

/// The digits of a number.
pub(crate) fn decimal(number: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut rest = number;
    let mut start = room.len();
    for (index, place) in room.iter_mut().enumerate().rev() {
        *place = b'0' + (rest % 10) as u8;
        start = index;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    room.get(start..).unwrap_or_default()
}

/// The text of an address.
pub(crate) fn address(address: IpAddr, room: &mut [u8; ADDRESS_LEN_MAX]) -> &[u8] {
    let mut length = 0;
    match address {
        IpAddr::V4(address) => {
            let mut push = |byte: u8| {
                if let Some(place) = room.get_mut(length) {
                    *place = byte;
                    length += 1;
                }
            };
            for (place, octet) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    push(b'.');
                }
                if octet >= 100 {
                    push(b'0' + octet / 100);
                }
                if octet >= 10 {
                    push(b'0' + octet / 10 % 10);
                }
                push(b'0' + octet % 10);
            }
        }
        IpAddr::V6(address) => {
            let whole = room.len();
            let mut rest = &mut room[..];
            // There is room for any address.
            let _ = write!(rest, "{address}");
            length = whole - rest.len();
        }
    }
    room.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_library_does() {
        for number in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
        for text in [
            "0.0.0.0",
            "192.0.2.10",
            "255.255.255.255",
            "10.1.100.9",
            "::1",
            "2001:db8:1111:2222:3333:4444:5555:6666",
            "::ffff:255.255.255.255",
        ] {
            assert_eq!(address(text.parse().unwrap(), &mut [0; ADDRESS_LEN_MAX]), text.as_bytes());
        }
    }
}
