//! Writing headers.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use super::{V2_SIGNATURE, decode::checksum, tlv_type};

/// Appends a version 1 line. Without both addresses, or for a unix socket, it says UNKNOWN; when the families differ,
/// IPv4 is written as IPv6.
pub fn encode_v1(addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    let Some((source, destination)) = addresses else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let (source_ip, destination_ip) = (canonical(source.ip()), canonical(destination.ip()));
    let (source_port, destination_port) = (source.port(), destination.port());
    // Writing into a Vec cannot fail.
    let _ = match (source_ip, destination_ip) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            write!(out, "PROXY TCP4 {from} {to} {source_port} {destination_port}\r\n")
        }
        (from, to) => {
            let (from, to) = (as_v6(from), as_v6(to));
            write!(out, "PROXY TCP6 {from} {to} {source_port} {destination_port}\r\n")
        }
    };
}

/// Appends a version 2 header for a client's TCP connection, with these TLVs (type and value). Without both addresses it
/// is LOCAL. TLVs that would take the header beyond its 65,535 bytes are left out. One of type CRC32C, with four bytes that do
/// not matter, must be the first, and gets the checksum.
pub fn encode_v2(addresses: Option<(SocketAddr, SocketAddr)>, tlvs: &[(u8, &[u8])], out: &mut Vec<u8>) {
    let start = out.len();
    encode_fields(addresses, tlvs, out);
    let Some((tlv_type::CRC32C, [_, _, _, _])) = tlvs.first() else { return };
    let header = out.get(start..).unwrap_or_default();
    let addresses = match header.get(FAMILY_AT) {
        Some(0x11) => V4_BYTES,
        Some(0x21) => V6_BYTES,
        _ => 0,
    };
    let place = HEAD_BYTES + addresses + TLV_HEAD_BYTES;
    let sum = checksum(header, place).to_be_bytes();
    if let Some(value) = out.get_mut(start + place..start + place + sum.len()) {
        value.copy_from_slice(&sum);
    }
}

/// Bytes before the addresses, and where the family is among them.
const HEAD_BYTES: usize = 16;
const FAMILY_AT: usize = 13;
/// Bytes of two addresses with their ports.
const V4_BYTES: usize = 12;
const V6_BYTES: usize = 36;
/// Bytes of a TLV's type and length.
const TLV_HEAD_BYTES: usize = 3;

fn encode_fields(addresses: Option<(SocketAddr, SocketAddr)>, tlvs: &[(u8, &[u8])], out: &mut Vec<u8>) {
    let Some((source, destination)) = addresses else {
        begin_v2(out, 0x20, 0x00);
        return finish_v2(out, &[], tlvs);
    };
    let mut block = Vec::with_capacity(36);
    let family = match (canonical(source.ip()), canonical(destination.ip())) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            block.extend_from_slice(&from.octets());
            block.extend_from_slice(&to.octets());
            0x11
        }
        (from, to) => {
            block.extend_from_slice(&as_v6(from).octets());
            block.extend_from_slice(&as_v6(to).octets());
            0x21
        }
    };
    block.extend_from_slice(&source.port().to_be_bytes());
    block.extend_from_slice(&destination.port().to_be_bytes());
    begin_v2(out, 0x21, family);
    finish_v2(out, &block, tlvs);
}

/// Appends a version 2 header that says the connection is the proxy's own, as for a health check.
pub fn encode_v2_local(out: &mut Vec<u8>) {
    encode_v2(None, &[], out);
}

fn begin_v2(out: &mut Vec<u8>, version_and_command: u8, family_and_protocol: u8) {
    out.extend_from_slice(V2_SIGNATURE);
    out.push(version_and_command);
    out.push(family_and_protocol);
}

fn finish_v2(out: &mut Vec<u8>, addresses: &[u8], tlvs: &[(u8, &[u8])]) {
    let mut len = u16::try_from(addresses.len()).unwrap_or(0);
    let fitting: Vec<(u8, u16, &[u8])> = tlvs
        .iter()
        .filter_map(|(kind, value)| {
            let value_len = u16::try_from(value.len()).ok()?;
            len = len.checked_add(value_len)?.checked_add(3)?;
            Some((*kind, value_len, *value))
        })
        .collect();
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(addresses);
    for (kind, value_len, value) in fitting {
        out.push(kind);
        out.extend_from_slice(&value_len.to_be_bytes());
        out.extend_from_slice(value);
    }
}

/// IPv4 that came in over an IPv6 socket, as what it is.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn as_v6(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
