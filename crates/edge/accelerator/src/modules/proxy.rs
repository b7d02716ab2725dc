//! `proxy`: what the PROXY protocol, version 2, says of the client's TLS.

use http::proxy_protocol::{tlv_type, tlvs};
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
};

use super::{Outcome, string};
use crate::common::Common;

/// Parts of the TLV about TLS (section 2.2.6 of the protocol's specification).
mod ssl {
    pub(super) const VERSION: u8 = 0x21;
    pub(super) const COMMON_NAME: u8 = 0x22;
    pub(super) const CIPHER: u8 = 0x23;
    pub(super) const SIGNATURE: u8 = 0x24;
    pub(super) const KEY: u8 = 0x25;
    pub(super) const IS_TLS: u8 = 1;
    pub(super) const CERTIFICATE_OF_CONNECTION: u8 = 2;
    pub(super) const CERTIFICATE_OF_SESSION: u8 = 4;
}

fn find(bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    tlvs(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// What is said of TLS: flags, the outcome of the check of the certificate, and more TLVs.
fn tls(bytes: &[u8]) -> Option<(u8, u32, &[u8])> {
    let (flags, rest) = find(bytes, tlv_type::SSL)?.split_first()?;
    let (verified, rest) = rest.split_first_chunk::<4>()?;
    Some((*flags, u32::from_be_bytes(*verified), rest))
}

/// Does what a function does.
pub(super) fn call<'w>(common: &Common, id: FunctionId, workspace: &'w Workspace) -> Option<Outcome<'w>> {
    let bytes = common.connection.proxy_tlvs.as_deref().unwrap_or_default();
    let flag = |flag: u8| Some(Ok(Value::Bool(tls(bytes).is_some_and(|(flags, ..)| flags & flag == flag))));
    let of_tls = |kind: u8| tls(bytes).and_then(|(_, _, rest)| find(rest, kind));
    let text = match id {
        FunctionId::ProxyIsSsl => return flag(ssl::IS_TLS),
        FunctionId::ProxyClientHasCertConn => return flag(ssl::CERTIFICATE_OF_CONNECTION),
        FunctionId::ProxyClientHasCertSess => return flag(ssl::CERTIFICATE_OF_SESSION),
        FunctionId::ProxySslVerifyResult => {
            return Some(Ok(Value::Int(tls(bytes).map_or(0, |(_, verified, _)| i64::from(verified)))));
        }
        FunctionId::ProxyAlpn => find(bytes, tlv_type::ALPN),
        FunctionId::ProxyAuthority => find(bytes, tlv_type::AUTHORITY),
        FunctionId::ProxySslVersion => of_tls(ssl::VERSION),
        FunctionId::ProxyClientCertCn => of_tls(ssl::COMMON_NAME),
        FunctionId::ProxySslCipher => of_tls(ssl::CIPHER),
        FunctionId::ProxyCertSign => of_tls(ssl::SIGNATURE),
        FunctionId::ProxyCertKey => of_tls(ssl::KEY),
        _ => return None,
    };
    Some(string(workspace, text))
}
