//! ACL keywords, whose names say how to match, and the predefined ACLs.

use crate::pattern::MatchMethod;

/// A word that stands for a fetch and a matching method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclKeyword {
    /// The word.
    pub name: &'static str,
    /// The fetch.
    pub fetch: &'static str,
    /// The matching method.
    pub method: MatchMethod,
}

/// An ACL that needs no declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedAcl {
    /// Its name.
    pub name: &'static str,
    /// What its declaration would be.
    pub words: &'static [&'static str],
}

const fn word(name: &'static str, fetch: &'static str, method: MatchMethod) -> AclKeyword {
    AclKeyword { name, fetch, method }
}

/// A keyword for each matching method on strings, as most string fetches have them.
macro_rules! family {
    ($fetch:literal, $name:literal) => {
        [
            word($name, $fetch, MatchMethod::Str),
            word(concat!($name, "_beg"), $fetch, MatchMethod::Beg),
            word(concat!($name, "_dir"), $fetch, MatchMethod::Dir),
            word(concat!($name, "_dom"), $fetch, MatchMethod::Dom),
            word(concat!($name, "_end"), $fetch, MatchMethod::End),
            word(concat!($name, "_len"), $fetch, MatchMethod::Len),
            word(concat!($name, "_reg"), $fetch, MatchMethod::Reg),
            word(concat!($name, "_sub"), $fetch, MatchMethod::Sub),
        ]
    };
}

const FAMILIES: [[AclKeyword; 8]; 8] = [
    family!("base", "base"),
    family!("req.cook", "cook"),
    family!("req.hdr", "hdr"),
    family!("path", "path"),
    family!("res.cook", "scook"),
    family!("res.hdr", "shdr"),
    family!("url", "url"),
    family!("urlp", "urlp"),
];

const OTHERS: [AclKeyword; 13] = [
    word("http_auth_group", "http_auth_group", MatchMethod::Group),
    word("method", "method", MatchMethod::Method),
    word("payload", "req.payload", MatchMethod::Bin),
    word("payload_lv", "req.payload_lv", MatchMethod::Bin),
    word("req.ssl_ver", "req.ssl_ver", MatchMethod::Version),
    word("req_rdp_cookie", "req.rdp_cookie", MatchMethod::Str),
    word("req_rdp_cookie_cnt", "req.rdp_cookie_cnt", MatchMethod::Int),
    word("req_ssl_sni", "req.ssl_sni", MatchMethod::Str),
    word("req_ssl_ver", "req.ssl_ver", MatchMethod::Version),
    word("req_ver", "req.ver", MatchMethod::Str),
    word("resp_ver", "res.ver", MatchMethod::Str),
    word("ssl_fc_sni_end", "ssl_fc_sni", MatchMethod::End),
    word("ssl_fc_sni_reg", "ssl_fc_sni", MatchMethod::Reg),
];

/// Every ACL keyword.
pub fn keywords() -> impl Iterator<Item = &'static AclKeyword> {
    FAMILIES.iter().flatten().chain(&OTHERS)
}

/// The name of every ACL keyword.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    keywords().map(|keyword| keyword.name)
}

/// The keyword called `name`.
pub(crate) fn find(name: &str) -> Option<&'static AclKeyword> {
    keywords().find(|keyword| keyword.name == name)
}

/// The predefined ACLs.
pub const PREDEFINED: &[PredefinedAcl] = &[
    PredefinedAcl { name: "FALSE", words: &["always_false"] },
    PredefinedAcl { name: "HTTP", words: &["req.proto_http"] },
    PredefinedAcl { name: "HTTP_1.0", words: &["req.ver", "1.0"] },
    PredefinedAcl { name: "HTTP_1.1", words: &["req.ver", "1.1"] },
    PredefinedAcl { name: "HTTP_2.0", words: &["req.ver", "2.0"] },
    PredefinedAcl { name: "HTTP_CONTENT", words: &["req.hdr_val(content-length)", "gt", "0"] },
    PredefinedAcl { name: "HTTP_URL_ABS", words: &["url_reg", "^[^/:]*://"] },
    PredefinedAcl { name: "HTTP_URL_SLASH", words: &["url_beg", "/"] },
    PredefinedAcl { name: "HTTP_URL_STAR", words: &["url", "*"] },
    PredefinedAcl { name: "LOCALHOST", words: &["src", "127.0.0.1/8", "::1"] },
    PredefinedAcl { name: "METH_CONNECT", words: &["method", "CONNECT"] },
    PredefinedAcl { name: "METH_DELETE", words: &["method", "DELETE"] },
    PredefinedAcl { name: "METH_GET", words: &["method", "GET", "HEAD"] },
    PredefinedAcl { name: "METH_HEAD", words: &["method", "HEAD"] },
    PredefinedAcl { name: "METH_OPTIONS", words: &["method", "OPTIONS"] },
    PredefinedAcl { name: "METH_POST", words: &["method", "POST"] },
    PredefinedAcl { name: "METH_PUT", words: &["method", "PUT"] },
    PredefinedAcl { name: "METH_TRACE", words: &["method", "TRACE"] },
    PredefinedAcl { name: "RDP_COOKIE", words: &["req.rdp_cookie_cnt", "gt", "0"] },
    PredefinedAcl { name: "REQ_CONTENT", words: &["req.len", "gt", "0"] },
    PredefinedAcl { name: "TRUE", words: &["always_true"] },
    PredefinedAcl { name: "WAIT_END", words: &["wait_end"] },
];
