//! What modules have: one line a function or method.

use super::{Absent, Class, Function, Method, Parameter};
use crate::{subroutine::Subroutines, types::Type};

const fn needed(name: &'static str, kind: Type) -> Parameter {
    Parameter { name, kind, absent: Absent::Needed, words: &[] }
}

const fn optional(name: &'static str, kind: Type) -> Parameter {
    Parameter { name, kind, absent: Absent::Unknown, words: &[] }
}

const fn or(name: &'static str, kind: Type, absent: Absent) -> Parameter {
    Parameter { name, kind, absent, words: &[] }
}

const fn word(name: &'static str, absent: Absent, words: &'static [&'static str]) -> Parameter {
    Parameter { name, kind: Type::Enum, absent, words }
}

const WORKSPACES: &[&str] = &["client", "backend", "session", "thread"];
const ENCODINGS: &[&str] = &["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];
const CASES: &[&str] = &["LOWER", "UPPER", "DEFAULT"];
const SHARD_KEYS: &[&str] = &["HASH", "URL", "KEY", "BLOB"];
const SHARD_HEALTH: &[&str] = &["CHOSEN", "IGNORE", "ALL"];
const SHARD_MOMENTS: &[&str] = &["NOW", "LAZY"];

macro_rules! functions {
    ($($id:ident $module:literal $name:literal $returns:ident $places:expr, $parameters:expr;)*) => {
        /// A function of a module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FunctionId {
            $(
                #[doc = concat!("`", $module, ".", $name, "`")]
                $id,
            )*
        }

        static FUNCTIONS: &[Function] = &[$(Function {
            id: FunctionId::$id,
            module: $module,
            name: $name,
            returns: Type::$returns,
            parameters: $parameters,
            places: $places,
        },)*];
    };
}

macro_rules! class_table {
    ($($class:literal $parameters:expr => { $($id:ident $name:literal $returns:ident $taken:expr;)* })*) => {
        /// A method of a class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MethodId {
            $($(
                #[doc = concat!("`", $class, "`'s `.", $name, "`")]
                $id,
            )*)*
        }

        static CLASSES: &[Class] = &[$(Class {
            name: $class,
            parameters: $parameters,
            methods: &[$(Method {
                id: MethodId::$id,
                name: $name,
                returns: Type::$returns,
                parameters: $taken,
                places: Subroutines::ALL,
            },)*],
        },)*];
    };
}

functions! {
    StdRandom "std" "random" Real Subroutines::ALL, &[needed("lo", Type::Real), needed("hi", Type::Real)];
    StdRound "std" "round" Real Subroutines::ALL, &[needed("r", Type::Real)];
    StdCollect "std" "collect" Void Subroutines::BOTH, &[needed("hdr", Type::Header), or("sep", Type::String, Absent::String(", "))];
    StdQuerysort "std" "querysort" String Subroutines::ALL, &[needed("", Type::String)];
    StdToupper "std" "toupper" String Subroutines::ALL, &[needed("s", Type::String)];
    StdTolower "std" "tolower" String Subroutines::ALL, &[needed("s", Type::String)];
    StdStrstr "std" "strstr" String Subroutines::ALL, &[needed("s1", Type::String), needed("s2", Type::String)];
    StdFnmatch "std" "fnmatch" Bool Subroutines::ALL, &[needed("pattern", Type::String), needed("subject", Type::String), or("pathname", Type::Bool, Absent::Bool(true)), or("noescape", Type::Bool, Absent::Bool(false)), or("period", Type::Bool, Absent::Bool(false))];
    StdFileread "std" "fileread" String Subroutines::ALL, &[needed("", Type::String)];
    StdBlobread "std" "blobread" Blob Subroutines::ALL, &[needed("", Type::String)];
    StdFileExists "std" "file_exists" Bool Subroutines::ALL, &[needed("path", Type::String)];
    StdHealthy "std" "healthy" Bool Subroutines::ALL, &[needed("be", Type::Backend)];
    StdPort "std" "port" Int Subroutines::ALL, &[needed("ip", Type::Ip)];
    StdDuration "std" "duration" Duration Subroutines::ALL, &[optional("s", Type::String), optional("fallback", Type::Duration), optional("real", Type::Real), optional("integer", Type::Int)];
    StdBytes "std" "bytes" Bytes Subroutines::ALL, &[optional("s", Type::String), optional("fallback", Type::Bytes), optional("real", Type::Real), optional("integer", Type::Int)];
    StdInteger "std" "integer" Int Subroutines::ALL, &[optional("s", Type::String), optional("fallback", Type::Int), optional("bool", Type::Bool), optional("bytes", Type::Bytes), optional("duration", Type::Duration), optional("real", Type::Real), optional("time", Type::Time)];
    StdIp "std" "ip" Ip Subroutines::ALL, &[needed("s", Type::String), optional("fallback", Type::Ip), or("resolve", Type::Bool, Absent::Bool(true)), optional("p", Type::String)];
    StdReal "std" "real" Real Subroutines::ALL, &[optional("s", Type::String), optional("fallback", Type::Real), optional("integer", Type::Int), optional("bool", Type::Bool), optional("bytes", Type::Bytes), optional("duration", Type::Duration), optional("time", Type::Time)];
    StdTime "std" "time" Time Subroutines::ALL, &[optional("s", Type::String), optional("fallback", Type::Time), optional("real", Type::Real), optional("integer", Type::Int)];
    StdStrftime "std" "strftime" String Subroutines::ALL, &[needed("time", Type::Time), needed("format", Type::String)];
    StdLog "std" "log" Void Subroutines::ALL, &[needed("s", Type::String)];
    StdSyslog "std" "syslog" Void Subroutines::ALL, &[needed("priority", Type::Int), needed("s", Type::String)];
    StdTimestamp "std" "timestamp" Void Subroutines::BOTH, &[needed("s", Type::String)];
    StdSyntax "std" "syntax" Bool Subroutines::ALL, &[needed("", Type::Real)];
    StdGetenv "std" "getenv" String Subroutines::ALL, &[needed("name", Type::String)];
    StdCacheReqBody "std" "cache_req_body" Bool Subroutines::CLIENT, &[needed("size", Type::Bytes)];
    StdLate100Continue "std" "late_100_continue" Void Subroutines::ALL, &[needed("late", Type::Bool)];
    StdSetIpTos "std" "set_ip_tos" Void Subroutines::CLIENT, &[needed("tos", Type::Int)];
    StdRollback "std" "rollback" Void Subroutines::BOTH, &[needed("h", Type::Http)];
    StdBan "std" "ban" Bool Subroutines::ALL, &[needed("", Type::String)];
    StdBanError "std" "ban_error" String Subroutines::ALL, &[];
    StdReal2integer "std" "real2integer" Int Subroutines::ALL, &[needed("r", Type::Real), needed("fallback", Type::Int)];
    StdReal2time "std" "real2time" Time Subroutines::ALL, &[needed("r", Type::Real), needed("fallback", Type::Time)];
    StdTime2integer "std" "time2integer" Int Subroutines::ALL, &[needed("t", Type::Time), needed("fallback", Type::Int)];
    StdTime2real "std" "time2real" Real Subroutines::ALL, &[needed("t", Type::Time), needed("fallback", Type::Real)];
    DirectorsLookup "directors" "lookup" Backend Subroutines::ALL, &[needed("", Type::String)];
    BlobDecode "blob" "decode" Blob Subroutines::ALL, &[word("decoding", Absent::Word("IDENTITY"), ENCODINGS), or("length", Type::Int, Absent::Int(0)), needed("encoded", Type::String)];
    BlobEncode "blob" "encode" String Subroutines::ALL, &[word("encoding", Absent::Word("IDENTITY"), ENCODINGS), word("case", Absent::Word("DEFAULT"), CASES), needed("blob", Type::Blob)];
    BlobTranscode "blob" "transcode" String Subroutines::ALL, &[word("decoding", Absent::Word("IDENTITY"), ENCODINGS), word("encoding", Absent::Word("IDENTITY"), ENCODINGS), word("case", Absent::Word("DEFAULT"), CASES), or("length", Type::Int, Absent::Int(0)), needed("encoded", Type::String)];
    BlobSame "blob" "same" Bool Subroutines::ALL, &[needed("", Type::Blob), needed("", Type::Blob)];
    BlobEqual "blob" "equal" Bool Subroutines::ALL, &[needed("", Type::Blob), needed("", Type::Blob)];
    BlobLength "blob" "length" Int Subroutines::ALL, &[needed("", Type::Blob)];
    BlobSub "blob" "sub" Blob Subroutines::ALL, &[needed("", Type::Blob), needed("length", Type::Bytes), or("offset", Type::Bytes, Absent::Int(0))];
    CookieClean "cookie" "clean" Void Subroutines::ALL, &[];
    CookieDelete "cookie" "delete" Void Subroutines::ALL, &[needed("cookiename", Type::String)];
    CookieFilter "cookie" "filter" Void Subroutines::ALL, &[needed("filterstring", Type::String)];
    CookieFilterRe "cookie" "filter_re" Void Subroutines::ALL, &[needed("expression", Type::Regex)];
    CookieKeep "cookie" "keep" Void Subroutines::ALL, &[needed("filterstring", Type::String)];
    CookieKeepRe "cookie" "keep_re" Void Subroutines::ALL, &[needed("expression", Type::Regex)];
    CookieFormatDate "cookie" "format_date" String Subroutines::ALL, &[needed("now", Type::Time), needed("timedelta", Type::Duration)];
    CookieFormatRfc1123 "cookie" "format_rfc1123" String Subroutines::ALL, &[needed("now", Type::Time), needed("timedelta", Type::Duration)];
    CookieGet "cookie" "get" String Subroutines::ALL, &[needed("cookiename", Type::String)];
    CookieGetRe "cookie" "get_re" String Subroutines::ALL, &[needed("expression", Type::Regex)];
    CookieGetString "cookie" "get_string" String Subroutines::ALL, &[];
    CookieIsset "cookie" "isset" Bool Subroutines::ALL, &[needed("cookiename", Type::String)];
    CookieParse "cookie" "parse" Void Subroutines::ALL, &[needed("cookieheader", Type::String)];
    CookieSet "cookie" "set" Void Subroutines::ALL, &[needed("cookiename", Type::String), needed("value", Type::String)];
    PurgeHard "purge" "hard" Int Subroutines::ALL, &[];
    PurgeSoft "purge" "soft" Int Subroutines::ALL, &[or("ttl", Type::Duration, Absent::Duration(0.0)), or("grace", Type::Duration, Absent::Duration(-1.0)), or("keep", Type::Duration, Absent::Duration(-1.0))];
    UnixUser "unix" "user" String Subroutines::ALL, &[];
    UnixGroup "unix" "group" String Subroutines::ALL, &[];
    UnixUid "unix" "uid" Int Subroutines::ALL, &[];
    UnixGid "unix" "gid" Int Subroutines::ALL, &[];
    ProxyAlpn "proxy" "alpn" String Subroutines::CLIENT, &[];
    ProxyAuthority "proxy" "authority" String Subroutines::CLIENT, &[];
    ProxyIsSsl "proxy" "is_ssl" Bool Subroutines::CLIENT, &[];
    ProxyClientHasCertSess "proxy" "client_has_cert_sess" Bool Subroutines::CLIENT, &[];
    ProxyClientHasCertConn "proxy" "client_has_cert_conn" Bool Subroutines::CLIENT, &[];
    ProxySslVerifyResult "proxy" "ssl_verify_result" Int Subroutines::CLIENT, &[];
    ProxySslVersion "proxy" "ssl_version" String Subroutines::CLIENT, &[];
    ProxyClientCertCn "proxy" "client_cert_cn" String Subroutines::CLIENT, &[];
    ProxySslCipher "proxy" "ssl_cipher" String Subroutines::CLIENT, &[];
    ProxyCertSign "proxy" "cert_sign" String Subroutines::CLIENT, &[];
    ProxyCertKey "proxy" "cert_key" String Subroutines::CLIENT, &[];
    VtcBarrierSync "vtc" "barrier_sync" Void Subroutines::ALL, &[needed("addr", Type::String), or("timeout", Type::Duration, Absent::Duration(0.0))];
    VtcNoBackend "vtc" "no_backend" Backend Subroutines::ALL, &[];
    VtcNoStevedore "vtc" "no_stevedore" Stevedore Subroutines::ALL, &[];
    VtcNoIp "vtc" "no_ip" Ip Subroutines::ALL, &[];
    VtcSleep "vtc" "sleep" Void Subroutines::ALL, &[needed("", Type::Duration)];
    VtcPanic "vtc" "panic" Void Subroutines::ALL, &[needed("", Type::String)];
    VtcWorkspaceAlloc "vtc" "workspace_alloc" Void Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES), needed("size", Type::Int)];
    VtcWorkspaceReserve "vtc" "workspace_reserve" Bytes Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES), needed("size", Type::Int)];
    VtcWorkspaceFree "vtc" "workspace_free" Int Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES)];
    VtcWorkspaceSnapshot "vtc" "workspace_snapshot" Void Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES)];
    VtcWorkspaceReset "vtc" "workspace_reset" Void Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES)];
    VtcWorkspaceOverflowed "vtc" "workspace_overflowed" Bool Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES)];
    VtcWorkspaceOverflow "vtc" "workspace_overflow" Void Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES)];
    VtcWorkspaceDump "vtc" "workspace_dump" Blob Subroutines::ALL, &[word("", Absent::Needed, WORKSPACES), word("", Absent::Needed, &["s", "f", "r"]), or("off", Type::Bytes, Absent::Int(0)), or("len", Type::Bytes, Absent::Int(64))];
    VtcTypesize "vtc" "typesize" Int Subroutines::ALL, &[needed("", Type::String)];
    VtcProxyHeader "vtc" "proxy_header" Blob Subroutines::ALL, &[word("version", Absent::Needed, &["v1", "v2"]), needed("client", Type::Ip), needed("server", Type::Ip), optional("authority", Type::String)];
    VtcVsl "vtc" "vsl" Void Subroutines::ALL, &[needed("vxid", Type::Int), needed("tag", Type::String), word("side", Absent::Needed, &["c", "b"]), needed("s", Type::String)];
    VtcVslReplay "vtc" "vsl_replay" Void Subroutines::ALL, &[needed("s", Type::String)];
    HeaderAppend "header" "append" Void Subroutines::BOTH, &[needed("hdr", Type::Header), needed("value", Type::String)];
    HeaderCopy "header" "copy" Void Subroutines::BOTH, &[needed("from", Type::Header), needed("to", Type::Header)];
    HeaderGet "header" "get" String Subroutines::BOTH, &[needed("hdr", Type::Header), needed("expression", Type::Regex)];
    HeaderRemove "header" "remove" Void Subroutines::BOTH, &[needed("hdr", Type::Header), needed("expression", Type::Regex)];
    HeaderRegsub "header" "regsub" Void Subroutines::BOTH, &[needed("h", Type::Http), needed("expression", Type::Regex), needed("sub", Type::String), or("all", Type::Bool, Absent::Bool(false))];
    XkeyPurge "xkey" "purge" Int Subroutines::CLIENT, &[needed("keys", Type::String)];
    XkeySoftpurge "xkey" "softpurge" Int Subroutines::CLIENT, &[needed("keys", Type::String)];
    VsthrottleIsDenied "vsthrottle" "is_denied" Bool Subroutines::BOTH, &[needed("key", Type::String), needed("limit", Type::Int), needed("period", Type::Duration), or("block", Type::Duration, Absent::Duration(0.0))];
    VsthrottleReturnToken "vsthrottle" "return_token" Void Subroutines::BOTH, &[needed("key", Type::String), needed("limit", Type::Int), needed("period", Type::Duration), or("block", Type::Duration, Absent::Duration(0.0))];
    VsthrottleRemaining "vsthrottle" "remaining" Int Subroutines::BOTH, &[needed("key", Type::String), needed("limit", Type::Int), needed("period", Type::Duration), or("block", Type::Duration, Absent::Duration(0.0))];
    VsthrottleBlocked "vsthrottle" "blocked" Duration Subroutines::BOTH, &[needed("key", Type::String), needed("limit", Type::Int), needed("period", Type::Duration), or("block", Type::Duration, Absent::Duration(0.0))];
    VsthrottleRemoveBucket "vsthrottle" "remove_bucket" Void Subroutines::BOTH, &[needed("key", Type::String), needed("limit", Type::Int), needed("period", Type::Duration), or("block", Type::Duration, Absent::Duration(0.0))];
}

class_table! {
    "directors.round_robin" &[] => {
        RoundRobinAddBackend "add_backend" Void &[needed("", Type::Backend)];
        RoundRobinRemoveBackend "remove_backend" Void &[needed("", Type::Backend)];
        RoundRobinBackend "backend" Backend &[];
    }
    "directors.fallback" &[or("sticky", Type::Bool, Absent::Bool(false))] => {
        FallbackAddBackend "add_backend" Void &[needed("", Type::Backend)];
        FallbackRemoveBackend "remove_backend" Void &[needed("", Type::Backend)];
        FallbackBackend "backend" Backend &[];
    }
    "directors.random" &[] => {
        RandomAddBackend "add_backend" Void &[needed("", Type::Backend), needed("", Type::Real)];
        RandomRemoveBackend "remove_backend" Void &[needed("", Type::Backend)];
        RandomBackend "backend" Backend &[];
    }
    "directors.hash" &[] => {
        HashAddBackend "add_backend" Void &[needed("", Type::Backend), or("weight", Type::Real, Absent::Real(1.0))];
        HashRemoveBackend "remove_backend" Void &[needed("", Type::Backend)];
        HashBackend "backend" Backend &[needed("", Type::String)];
    }
    "directors.shard" &[] => {
        ShardSetWarmup "set_warmup" Void &[or("probability", Type::Real, Absent::Real(0.0))];
        ShardSetRampup "set_rampup" Void &[or("duration", Type::Duration, Absent::Duration(0.0))];
        ShardAssociate "associate" Void &[optional("param", Type::Blob)];
        ShardAddBackend "add_backend" Bool &[needed("backend", Type::Backend), optional("ident", Type::String), optional("rampup", Type::Duration), optional("weight", Type::Real)];
        ShardRemoveBackend "remove_backend" Bool &[optional("backend", Type::Backend), optional("ident", Type::String)];
        ShardClear "clear" Bool &[];
        ShardReconfigure "reconfigure" Bool &[or("replicas", Type::Int, Absent::Int(67))];
        ShardKey "key" Int &[needed("", Type::String)];
        ShardBackend "backend" Backend &[word("by", Absent::Unknown, SHARD_KEYS), optional("key", Type::Int), optional("key_blob", Type::Blob), optional("alt", Type::Int), optional("warmup", Type::Real), optional("rampup", Type::Bool), word("healthy", Absent::Unknown, SHARD_HEALTH), optional("param", Type::Blob), word("resolve", Absent::Unknown, SHARD_MOMENTS)];
        ShardDebug "debug" Void &[needed("", Type::Int)];
    }
    "directors.shard_param" &[] => {
        ShardParamClear "clear" Void &[];
        ShardParamSet "set" Void &[word("by", Absent::Unknown, SHARD_KEYS), optional("key", Type::Int), optional("key_blob", Type::Blob), optional("alt", Type::Int), optional("warmup", Type::Real), optional("rampup", Type::Bool), word("healthy", Absent::Unknown, SHARD_HEALTH)];
        ShardParamGetBy "get_by" String &[];
        ShardParamGetKey "get_key" Int &[];
        ShardParamGetAlt "get_alt" Int &[];
        ShardParamGetWarmup "get_warmup" Real &[];
        ShardParamGetRampup "get_rampup" Bool &[];
        ShardParamGetHealthy "get_healthy" String &[];
        ShardParamUse "use" Blob &[];
    }
    "blob.blob" &[word("decoding", Absent::Word("IDENTITY"), ENCODINGS), needed("encoded", Type::String)] => {
        BlobGet "get" Blob &[];
        BlobObjectEncode "encode" String &[word("encoding", Absent::Word("IDENTITY"), ENCODINGS), word("case", Absent::Word("DEFAULT"), CASES)];
    }
}

/// All functions.
#[must_use]
pub fn functions() -> &'static [Function] {
    FUNCTIONS
}

/// All classes.
#[must_use]
pub fn classes() -> &'static [Class] {
    CLASSES
}

/// One function.
#[must_use]
pub fn function(module: &str, name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.module == module && function.name == name)
}

/// Whether there is a module of this name.
#[must_use]
pub fn is_module(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.module == name)
}
