//! The variables of the language: what they are and where they may be used. One table; the compiler, the machine's host and the
//! reference come from it (`vcl-var(7)` of Varnish 7.1).

use crate::{
    subroutine::{Subroutine, Subroutines},
    types::Type,
};

/// A version of the language: 30 for VCL 3, 40 and 41 for 4.0 and 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8);

impl Version {
    /// The language of Varnish 2 and 3, which needs no line that says so.
    pub const V3: Self = Self(30);
    /// VCL 4.0.
    pub const V4_0: Self = Self(40);
    /// VCL 4.1.
    pub const V4_1: Self = Self(41);
}

/// Where a variable may be read, set and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read.
    pub read: Subroutines,
    /// Set.
    pub write: Subroutines,
    /// Removed.
    pub unset: Subroutines,
}

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Type,
    /// Where it may be used.
    pub access: Access,
    /// The first version that has it.
    pub since: Version,
    /// The last one.
    pub until: Version,
}

const NEVER: Subroutines = Subroutines::NONE;
const CLIENT: Subroutines = Subroutines::CLIENT;
const BACKEND: Subroutines = Subroutines::BACKEND;
const BOTH: Subroutines = Subroutines::BOTH;
const ALL: Subroutines = Subroutines::ALL;
const FETCH_AND_PIPE: Subroutines = BACKEND.or(Subroutine::Pipe.alone());
const RESPONSE: Subroutines = Subroutine::BackendResponse.alone().or(Subroutine::BackendError.alone());
const BACKEND_RESPONSE: Subroutines = Subroutine::BackendResponse.alone();
const BACKEND_ERROR: Subroutines = Subroutine::BackendError.alone();
const BACKEND_FETCH: Subroutines = Subroutine::BackendFetch.alone();
const HIT: Subroutines = Subroutine::Hit.alone();
const DELIVER: Subroutines = Subroutine::Deliver.alone();
const SYNTH: Subroutines = Subroutine::Synth.alone();
const HIT_AND_DELIVER: Subroutines = HIT.or(DELIVER);
const DELIVER_AND_SYNTH: Subroutines = DELIVER.or(SYNTH);
const HASHED: Subroutines =
    HIT_AND_DELIVER.or(Subroutine::Miss.alone()).or(Subroutine::Pass.alone()).or(Subroutine::Purge.alone());

/// All versions, those from 4.1 on, and those before.
const ANY: (u8, u8) = (0, 99);
const NEW: (u8, u8) = (41, 99);
const OLD: (u8, u8) = (0, 40);

macro_rules! variables {
    ($($id:ident $name:literal $kind:ident $versions:ident $read:ident $write:ident $unset:ident;)*) => {
        /// A variable, other than headers and those of storages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Variable {
            $(
                #[doc = concat!("`", $name, "`")]
                $id,
            )*
        }

        impl Variable {
            /// What the table says of it. Two definitions may share a name: each is of other versions.
            #[must_use]
            pub const fn definition(self) -> Definition {
                match self {
                    $(Self::$id => Definition {
                        name: $name,
                        kind: Type::$kind,
                        access: Access { read: $read, write: $write, unset: $unset },
                        since: Version($versions.0),
                        until: Version($versions.1),
                    },)*
                }
            }

            /// All, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$id,)*];
        }
    };
}

variables! {
    Bereq "bereq" Http ANY BACKEND NEVER NEVER;
    BereqBackend "bereq.backend" Backend ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER;
    BereqBetweenBytesTimeout "bereq.between_bytes_timeout" Duration ANY BACKEND BACKEND NEVER;
    BereqBody "bereq.body" Body ANY NEVER NEVER BACKEND_FETCH;
    BereqConnectTimeout "bereq.connect_timeout" Duration ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER;
    BereqFirstByteTimeout "bereq.first_byte_timeout" Duration ANY BACKEND BACKEND NEVER;
    BereqHash "bereq.hash" Blob ANY FETCH_AND_PIPE NEVER NEVER;
    BereqIsBgfetch "bereq.is_bgfetch" Bool ANY BACKEND NEVER NEVER;
    BereqIsHitmiss "bereq.is_hitmiss" Bool ANY BACKEND NEVER NEVER;
    BereqIsHitpass "bereq.is_hitpass" Bool ANY BACKEND NEVER NEVER;
    BereqMethod "bereq.method" String ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER;
    BereqProtoOld "bereq.proto" String OLD FETCH_AND_PIPE FETCH_AND_PIPE NEVER;
    BereqProto "bereq.proto" String NEW FETCH_AND_PIPE NEVER NEVER;
    BereqRetries "bereq.retries" Int ANY BACKEND NEVER NEVER;
    BereqTime "bereq.time" Time ANY FETCH_AND_PIPE NEVER NEVER;
    BereqUncacheable "bereq.uncacheable" Bool ANY BACKEND NEVER NEVER;
    BereqUrl "bereq.url" String ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER;
    BereqXid "bereq.xid" String ANY FETCH_AND_PIPE NEVER NEVER;
    Beresp "beresp" Http ANY RESPONSE NEVER NEVER;
    BerespAge "beresp.age" Duration ANY RESPONSE NEVER NEVER;
    BerespBackend "beresp.backend" Backend ANY RESPONSE NEVER NEVER;
    BerespBackendIp "beresp.backend.ip" Ip OLD BACKEND_RESPONSE NEVER NEVER;
    BerespBackendName "beresp.backend.name" String ANY RESPONSE NEVER NEVER;
    BerespBody "beresp.body" Body ANY NEVER BACKEND_ERROR NEVER;
    BerespDoEsi "beresp.do_esi" Bool ANY RESPONSE RESPONSE NEVER;
    BerespDoGunzip "beresp.do_gunzip" Bool ANY RESPONSE RESPONSE NEVER;
    BerespDoGzip "beresp.do_gzip" Bool ANY RESPONSE RESPONSE NEVER;
    BerespDoStream "beresp.do_stream" Bool ANY RESPONSE RESPONSE NEVER;
    BerespFilters "beresp.filters" String ANY BACKEND_RESPONSE BACKEND_RESPONSE NEVER;
    BerespGrace "beresp.grace" Duration ANY RESPONSE RESPONSE NEVER;
    BerespKeep "beresp.keep" Duration ANY RESPONSE RESPONSE NEVER;
    BerespProtoOld "beresp.proto" String OLD RESPONSE RESPONSE NEVER;
    BerespProto "beresp.proto" String NEW RESPONSE NEVER NEVER;
    BerespReason "beresp.reason" String ANY RESPONSE RESPONSE NEVER;
    BerespStatus "beresp.status" Int ANY RESPONSE RESPONSE NEVER;
    BerespStorage "beresp.storage" Stevedore ANY RESPONSE RESPONSE NEVER;
    BerespStorageHint "beresp.storage_hint" String OLD RESPONSE RESPONSE NEVER;
    BerespTime "beresp.time" Time ANY RESPONSE NEVER NEVER;
    BerespTtl "beresp.ttl" Duration ANY RESPONSE RESPONSE NEVER;
    BerespUncacheable "beresp.uncacheable" Bool ANY RESPONSE RESPONSE NEVER;
    BerespWas304 "beresp.was_304" Bool ANY RESPONSE NEVER NEVER;
    ClientIdentity "client.identity" String ANY BOTH CLIENT NEVER;
    ClientIp "client.ip" Ip ANY BOTH NEVER NEVER;
    LocalEndpoint "local.endpoint" String NEW BOTH NEVER NEVER;
    LocalIp "local.ip" Ip ANY BOTH NEVER NEVER;
    LocalSocket "local.socket" String NEW BOTH NEVER NEVER;
    Now "now" Time ANY ALL NEVER NEVER;
    ObjAge "obj.age" Duration ANY HIT_AND_DELIVER NEVER NEVER;
    ObjCanEsi "obj.can_esi" Bool ANY HIT_AND_DELIVER NEVER NEVER;
    ObjGrace "obj.grace" Duration ANY HIT_AND_DELIVER NEVER NEVER;
    ObjHits "obj.hits" Int ANY HIT_AND_DELIVER NEVER NEVER;
    ObjKeep "obj.keep" Duration ANY HIT_AND_DELIVER NEVER NEVER;
    ObjProto "obj.proto" String ANY HIT NEVER NEVER;
    ObjReason "obj.reason" String ANY HIT NEVER NEVER;
    ObjStatus "obj.status" Int ANY HIT NEVER NEVER;
    ObjStorage "obj.storage" Stevedore ANY HIT_AND_DELIVER NEVER NEVER;
    ObjTime "obj.time" Time ANY HIT_AND_DELIVER NEVER NEVER;
    ObjTtl "obj.ttl" Duration ANY HIT_AND_DELIVER NEVER NEVER;
    ObjUncacheable "obj.uncacheable" Bool ANY DELIVER NEVER NEVER;
    RemoteIp "remote.ip" Ip ANY BOTH NEVER NEVER;
    Req "req" Http ANY CLIENT NEVER NEVER;
    ReqBackendHint "req.backend_hint" Backend ANY CLIENT CLIENT NEVER;
    ReqCanGzip "req.can_gzip" Bool ANY CLIENT NEVER NEVER;
    ReqEsi "req.esi" Bool OLD CLIENT CLIENT NEVER;
    ReqEsiLevel "req.esi_level" Int ANY CLIENT NEVER NEVER;
    ReqGrace "req.grace" Duration ANY CLIENT CLIENT NEVER;
    ReqHash "req.hash" Blob ANY HASHED NEVER NEVER;
    ReqHashAlwaysMiss "req.hash_always_miss" Bool ANY CLIENT CLIENT NEVER;
    ReqHashIgnoreBusy "req.hash_ignore_busy" Bool ANY CLIENT CLIENT NEVER;
    ReqHashIgnoreVary "req.hash_ignore_vary" Bool ANY CLIENT CLIENT NEVER;
    ReqIsHitmiss "req.is_hitmiss" Bool ANY CLIENT NEVER NEVER;
    ReqIsHitpass "req.is_hitpass" Bool ANY CLIENT NEVER NEVER;
    ReqMethod "req.method" String ANY CLIENT CLIENT NEVER;
    ReqProtoOld "req.proto" String OLD CLIENT CLIENT NEVER;
    ReqProto "req.proto" String NEW CLIENT NEVER NEVER;
    ReqRestarts "req.restarts" Int ANY CLIENT NEVER NEVER;
    ReqStorage "req.storage" Stevedore ANY CLIENT CLIENT NEVER;
    ReqTime "req.time" Time ANY CLIENT NEVER NEVER;
    ReqTransport "req.transport" String ANY CLIENT NEVER NEVER;
    ReqTtl "req.ttl" Duration ANY CLIENT CLIENT NEVER;
    ReqUrl "req.url" String ANY CLIENT CLIENT NEVER;
    ReqXid "req.xid" String ANY CLIENT NEVER NEVER;
    ReqTopMethod "req_top.method" String ANY CLIENT NEVER NEVER;
    ReqTopProto "req_top.proto" String ANY CLIENT NEVER NEVER;
    ReqTopTime "req_top.time" Time ANY CLIENT NEVER NEVER;
    ReqTopUrl "req_top.url" String ANY CLIENT NEVER NEVER;
    Resp "resp" Http ANY DELIVER_AND_SYNTH NEVER NEVER;
    RespBody "resp.body" Body ANY NEVER SYNTH NEVER;
    RespDoEsi "resp.do_esi" Bool NEW DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER;
    RespFilters "resp.filters" String ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER;
    RespIsStreaming "resp.is_streaming" Bool ANY DELIVER_AND_SYNTH NEVER NEVER;
    RespProtoOld "resp.proto" String OLD DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER;
    RespProto "resp.proto" String NEW DELIVER_AND_SYNTH NEVER NEVER;
    RespReason "resp.reason" String ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER;
    RespStatus "resp.status" Int ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER;
    RespTime "resp.time" Time ANY DELIVER_AND_SYNTH NEVER NEVER;
    ServerHostname "server.hostname" String ANY ALL NEVER NEVER;
    ServerIdentity "server.identity" String ANY ALL NEVER NEVER;
    ServerIp "server.ip" Ip ANY BOTH NEVER NEVER;
    SessIdleSendTimeout "sess.idle_send_timeout" Duration ANY CLIENT CLIENT NEVER;
    SessSendTimeout "sess.send_timeout" Duration ANY CLIENT CLIENT NEVER;
    SessTimeoutIdle "sess.timeout_idle" Duration ANY CLIENT CLIENT NEVER;
    SessTimeoutLinger "sess.timeout_linger" Duration ANY CLIENT CLIENT NEVER;
    SessXid "sess.xid" String NEW BOTH NEVER NEVER;
}

impl Variable {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// Those of this name, each for other versions.
    pub fn of_name(name: &str) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |variable| variable.name() == name)
    }
}

macro_rules! messages {
    ($($id:ident $name:literal $read:ident $write:ident;)*) => {
        /// A message with headers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Message {
            $(
                #[doc = concat!("`", $name, "`")]
                $id,
            )*
        }

        impl Message {
            /// All.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name,)*
                }
            }

            /// Where its headers may be used. Whoever may set them may remove them.
            #[must_use]
            pub const fn headers(self) -> Access {
                match self {
                    $(Self::$id => Access { read: $read, write: $write, unset: $write },)*
                }
            }
        }
    };
}

messages! {
    Req "req" CLIENT CLIENT;
    ReqTop "req_top" CLIENT NEVER;
    Bereq "bereq" FETCH_AND_PIPE FETCH_AND_PIPE;
    Beresp "beresp" RESPONSE RESPONSE;
    Obj "obj" HIT NEVER;
    Resp "resp" DELIVER_AND_SYNTH DELIVER_AND_SYNTH;
}

macro_rules! storage_variables {
    ($($id:ident $name:literal $kind:ident;)*) => {
        /// What can be asked of a storage: `storage.NAME.free_space`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StorageVariable {
            $(
                #[doc = concat!("`", $name, "`")]
                $id,
            )*
        }

        impl StorageVariable {
            /// The one of this name, and what it is.
            #[must_use]
            pub fn of_name(name: &str) -> Option<(Self, Type)> {
                match name {
                    $($name => Some((Self::$id, Type::$kind)),)*
                    _ => None,
                }
            }
        }
    };
}

storage_variables! {
    FreeSpace "free_space" Bytes;
    UsedSpace "used_space" Bytes;
    Happy "happy" Bool;
}
