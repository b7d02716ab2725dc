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
    /// What it says.
    pub doc: &'static str,
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
    ($($id:ident $name:literal $kind:ident $versions:ident $read:ident $write:ident $unset:ident $doc:literal;)*) => {
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
                        doc: $doc,
                    },)*
                }
            }

            /// All, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$id,)*];
        }
    };
}

variables! {
    Bereq "bereq" Http ANY BACKEND NEVER NEVER "The request to a backend, whole: for `std.rollback(bereq)` and functions that take a message.";
    BereqBackend "bereq.backend" Backend ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER "The backend or director that is asked.";
    BereqBetweenBytesTimeout "bereq.between_bytes_timeout" Duration ANY BACKEND BACKEND NEVER "How long a pause within the backend's response may be.";
    BereqBody "bereq.body" Body ANY NEVER NEVER BACKEND_FETCH "The body that goes to the backend; it can only be removed.";
    BereqConnectTimeout "bereq.connect_timeout" Duration ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER "How long opening a connection to the backend may take.";
    BereqFirstByteTimeout "bereq.first_byte_timeout" Duration ANY BACKEND BACKEND NEVER "How long the backend may take until its response begins.";
    BereqHash "bereq.hash" Blob ANY FETCH_AND_PIPE NEVER NEVER "The key of the object in the cache.";
    BereqIsBgfetch "bereq.is_bgfetch" Bool ANY BACKEND NEVER NEVER "Whether nobody waits for this fetch: it refreshes an object in its grace.";
    BereqIsHitmiss "bereq.is_hitmiss" Bool ANY BACKEND NEVER NEVER "Whether a mark of an uncacheable object was found, which let this request be a miss.";
    BereqIsHitpass "bereq.is_hitpass" Bool ANY BACKEND NEVER NEVER "Whether a mark of an uncacheable object was found, which let this request pass.";
    BereqMethod "bereq.method" String ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER "The method of the request to the backend.";
    BereqProtoOld "bereq.proto" String OLD FETCH_AND_PIPE FETCH_AND_PIPE NEVER "The protocol of the request to the backend: `HTTP/1.1`.";
    BereqProto "bereq.proto" String NEW FETCH_AND_PIPE NEVER NEVER "The protocol of the request to the backend: `HTTP/1.1`.";
    BereqRetries "bereq.retries" Int ANY BACKEND NEVER NEVER "How often this fetch has been tried again.";
    BereqTime "bereq.time" Time ANY FETCH_AND_PIPE NEVER NEVER "When the fetch was about to be sent.";
    BereqUncacheable "bereq.uncacheable" Bool ANY BACKEND NEVER NEVER "Whether the response will not be stored, as after a pass.";
    BereqUrl "bereq.url" String ANY FETCH_AND_PIPE FETCH_AND_PIPE NEVER "The URL that the backend is asked for.";
    BereqXid "bereq.xid" String ANY FETCH_AND_PIPE NEVER NEVER "The number of this fetch in the log.";
    Beresp "beresp" Http ANY RESPONSE NEVER NEVER "The backend's response, whole.";
    BerespAge "beresp.age" Duration ANY RESPONSE NEVER NEVER "How old the response was when it came.";
    BerespBackend "beresp.backend" Backend ANY RESPONSE NEVER NEVER "The backend that answered, once a director has chosen.";
    BerespBackendIp "beresp.backend.ip" Ip OLD BACKEND_RESPONSE NEVER NEVER "The address of the backend that answered.";
    BerespBackendName "beresp.backend.name" String ANY RESPONSE NEVER NEVER "The name of the backend that answered.";
    BerespBody "beresp.body" Body ANY NEVER BACKEND_ERROR NEVER "The body of the response that is made in vcl_backend_error.";
    BerespDoEsi "beresp.do_esi" Bool ANY RESPONSE RESPONSE NEVER "Whether the body's ESI elements are carried out.";
    BerespDoGunzip "beresp.do_gunzip" Bool ANY RESPONSE RESPONSE NEVER "Whether the body is unpacked before it is stored.";
    BerespDoGzip "beresp.do_gzip" Bool ANY RESPONSE RESPONSE NEVER "Whether the body is packed before it is stored.";
    BerespDoStream "beresp.do_stream" Bool ANY RESPONSE RESPONSE NEVER "Whether clients read the body while it comes.";
    BerespFilters "beresp.filters" String ANY BACKEND_RESPONSE BACKEND_RESPONSE NEVER "What the body passes on its way into the cache: `gunzip esi gzip`.";
    BerespGrace "beresp.grace" Duration ANY RESPONSE RESPONSE NEVER "How long the object may be delivered after its time, while it is fetched anew.";
    BerespKeep "beresp.keep" Duration ANY RESPONSE RESPONSE NEVER "How long the object is kept after that, to ask the backend whether it has changed.";
    BerespProtoOld "beresp.proto" String OLD RESPONSE RESPONSE NEVER "The protocol of the backend's response.";
    BerespProto "beresp.proto" String NEW RESPONSE NEVER NEVER "The protocol of the backend's response.";
    BerespReason "beresp.reason" String ANY RESPONSE RESPONSE NEVER "The words behind the status of the backend's response.";
    BerespStatus "beresp.status" Int ANY RESPONSE RESPONSE NEVER "The status of the backend's response.";
    BerespStorage "beresp.storage" Stevedore ANY RESPONSE RESPONSE NEVER "The storage that the object goes to.";
    BerespStorageHint "beresp.storage_hint" String OLD RESPONSE RESPONSE NEVER "The name of the storage that the object goes to.";
    BerespTime "beresp.time" Time ANY RESPONSE NEVER NEVER "When the response's head had come.";
    BerespTtl "beresp.ttl" Duration ANY RESPONSE RESPONSE NEVER "How long the object is fresh.";
    BerespUncacheable "beresp.uncacheable" Bool ANY RESPONSE RESPONSE NEVER "Set to true: the response is not stored, and a mark says so for beresp.ttl.";
    BerespWas304 "beresp.was_304" Bool ANY RESPONSE NEVER NEVER "Whether the backend said 304 and the stored object goes on.";
    ClientIdentity "client.identity" String ANY BOTH CLIENT NEVER "Who the client is, for directors that send one client to one backend; its address unless set.";
    ClientIp "client.ip" Ip ANY BOTH NEVER NEVER "The client's address: what the PROXY protocol says, if it is spoken.";
    LocalEndpoint "local.endpoint" String NEW BOTH NEVER NEVER "The address of the listener, as `-a` gives it.";
    LocalIp "local.ip" Ip ANY BOTH NEVER NEVER "The address that the connection came to.";
    LocalSocket "local.socket" String NEW BOTH NEVER NEVER "The name of the listener: `-a NAME=ADDRESS`, else a0, a1 and so on.";
    Now "now" Time ANY ALL NEVER NEVER "The time.";
    ObjAge "obj.age" Duration ANY HIT_AND_DELIVER NEVER NEVER "How old the object is.";
    ObjCanEsi "obj.can_esi" Bool ANY HIT_AND_DELIVER NEVER NEVER "Whether the object has ESI elements.";
    ObjGrace "obj.grace" Duration ANY HIT_AND_DELIVER NEVER NEVER "How long the object may be delivered after its time.";
    ObjHits "obj.hits" Int ANY HIT_AND_DELIVER NEVER NEVER "How often the object was found; 0 for a miss.";
    ObjKeep "obj.keep" Duration ANY HIT_AND_DELIVER NEVER NEVER "How long the object is kept after its grace.";
    ObjProto "obj.proto" String ANY HIT NEVER NEVER "The protocol of the stored response.";
    ObjReason "obj.reason" String ANY HIT NEVER NEVER "The words behind the stored status.";
    ObjStatus "obj.status" Int ANY HIT NEVER NEVER "The stored status.";
    ObjStorage "obj.storage" Stevedore ANY HIT_AND_DELIVER NEVER NEVER "The storage that has the object.";
    ObjTime "obj.time" Time ANY HIT_AND_DELIVER NEVER NEVER "When the object was fetched.";
    ObjTtl "obj.ttl" Duration ANY HIT_AND_DELIVER NEVER NEVER "How long the object is still fresh; below 0 if it is in its grace.";
    ObjUncacheable "obj.uncacheable" Bool ANY DELIVER NEVER NEVER "Whether the object is not in the cache.";
    RemoteIp "remote.ip" Ip ANY BOTH NEVER NEVER "The address of the connection's other end, whatever the PROXY protocol says.";
    Req "req" Http ANY CLIENT NEVER NEVER "The client's request, whole: for `std.rollback(req)` and functions that take a message.";
    ReqBackendHint "req.backend_hint" Backend ANY CLIENT CLIENT NEVER "The backend or director that is asked if the request goes to one.";
    ReqCanGzip "req.can_gzip" Bool ANY CLIENT NEVER NEVER "Whether the client takes gzip.";
    ReqEsi "req.esi" Bool OLD CLIENT CLIENT NEVER "Whether ESI elements are carried out for this request.";
    ReqEsiLevel "req.esi_level" Int ANY CLIENT NEVER NEVER "How deep this request is included by ESI; 0 for the client's own.";
    ReqGrace "req.grace" Duration ANY CLIENT CLIENT NEVER "The longest grace that this request takes.";
    ReqHash "req.hash" Blob ANY HASHED NEVER NEVER "The key of the cache, once it is made.";
    ReqHashAlwaysMiss "req.hash_always_miss" Bool ANY CLIENT CLIENT NEVER "Set to true: the object is fetched anew even if the cache has it.";
    ReqHashIgnoreBusy "req.hash_ignore_busy" Bool ANY CLIENT CLIENT NEVER "Set to true: the request does not wait for a fetch of the same object.";
    ReqHashIgnoreVary "req.hash_ignore_vary" Bool ANY CLIENT CLIENT NEVER "Set to true: any variant of the object will do.";
    ReqIsHitmiss "req.is_hitmiss" Bool ANY CLIENT NEVER NEVER "Whether a mark of an uncacheable object was found, which let this request be a miss.";
    ReqIsHitpass "req.is_hitpass" Bool ANY CLIENT NEVER NEVER "Whether a mark of an uncacheable object was found, which let this request pass.";
    ReqMethod "req.method" String ANY CLIENT CLIENT NEVER "The request's method.";
    ReqProtoOld "req.proto" String OLD CLIENT CLIENT NEVER "The request's protocol: `HTTP/1.1`.";
    ReqProto "req.proto" String NEW CLIENT NEVER NEVER "The request's protocol: `HTTP/1.1`.";
    ReqRestarts "req.restarts" Int ANY CLIENT NEVER NEVER "How often this request has begun again.";
    ReqStorage "req.storage" Stevedore ANY CLIENT CLIENT NEVER "The storage for this request's own body.";
    ReqTime "req.time" Time ANY CLIENT NEVER NEVER "When the request's head had come.";
    ReqTransport "req.transport" String ANY CLIENT NEVER NEVER "How the client speaks: `HTTP/1`, `PROXY`.";
    ReqTtl "req.ttl" Duration ANY CLIENT CLIENT NEVER "The greatest age that this request takes.";
    ReqUrl "req.url" String ANY CLIENT CLIENT NEVER "The request's URL.";
    ReqXid "req.xid" String ANY CLIENT NEVER NEVER "The number of this request in the log.";
    ReqTopMethod "req_top.method" String ANY CLIENT NEVER NEVER "The method of the client's own request, from within one that ESI includes.";
    ReqTopProto "req_top.proto" String ANY CLIENT NEVER NEVER "The protocol of the client's own request.";
    ReqTopTime "req_top.time" Time ANY CLIENT NEVER NEVER "When the client's own request had come.";
    ReqTopUrl "req_top.url" String ANY CLIENT NEVER NEVER "The URL of the client's own request.";
    Resp "resp" Http ANY DELIVER_AND_SYNTH NEVER NEVER "The response to the client, whole.";
    RespBody "resp.body" Body ANY NEVER SYNTH NEVER "The body of a response that is made in vcl_synth.";
    RespDoEsi "resp.do_esi" Bool NEW DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER "Whether ESI elements are carried out in this response.";
    RespFilters "resp.filters" String ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER "What the body passes on its way to the client: `esi gunzip range`.";
    RespIsStreaming "resp.is_streaming" Bool ANY DELIVER_AND_SYNTH NEVER NEVER "Whether the body is still being fetched.";
    RespProtoOld "resp.proto" String OLD DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER "The protocol of the response.";
    RespProto "resp.proto" String NEW DELIVER_AND_SYNTH NEVER NEVER "The protocol of the response.";
    RespReason "resp.reason" String ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER "The words behind the response's status.";
    RespStatus "resp.status" Int ANY DELIVER_AND_SYNTH DELIVER_AND_SYNTH NEVER "The response's status.";
    RespTime "resp.time" Time ANY DELIVER_AND_SYNTH NEVER NEVER "When the response was about to be made.";
    ServerHostname "server.hostname" String ANY ALL NEVER NEVER "The name of this machine.";
    ServerIdentity "server.identity" String ANY ALL NEVER NEVER "The name of this instance: `-i`, else the machine's.";
    ServerIp "server.ip" Ip ANY BOTH NEVER NEVER "The address that the client connected to: what the PROXY protocol says, if it is spoken.";
    SessIdleSendTimeout "sess.idle_send_timeout" Duration ANY CLIENT CLIENT NEVER "How long sending may make no progress; parameter idle_send_timeout.";
    SessSendTimeout "sess.send_timeout" Duration ANY CLIENT CLIENT NEVER "How long sending may take; parameter send_timeout.";
    SessTimeoutIdle "sess.timeout_idle" Duration ANY CLIENT CLIENT NEVER "How long the connection may wait for the next request; parameter timeout_idle.";
    SessTimeoutLinger "sess.timeout_linger" Duration ANY CLIENT CLIENT NEVER "How long a worker stays with the connection; parameter timeout_linger.";
    SessXid "sess.xid" String NEW BOTH NEVER NEVER "The number of the session in the log.";
}

impl Variable {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// Why setting it, where that is allowed, changes nothing, on the client side.
    #[must_use]
    pub const fn limit(self) -> Option<&'static str> {
        match self {
            Self::BereqProtoOld | Self::BerespProtoOld | Self::ReqProtoOld | Self::RespProtoOld => {
                Some("setting it has no effect")
            }
            Self::SessTimeoutLinger | Self::SessSendTimeout | Self::SessIdleSendTimeout => {
                Some("setting it has no effect yet: the parameter counts")
            }
            Self::BereqConnectTimeout => Some("setting it in vcl_pipe has no effect yet: the parameter counts"),
            _ => None,
        }
    }

    /// Those of this name, each for other versions.
    pub fn of_name(name: &str) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |variable| variable.name() == name)
    }
}

macro_rules! messages {
    ($($id:ident $name:literal $read:ident $write:ident $doc:literal;)*) => {
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

            /// What one of its headers is.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$id => $doc,)*
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
    Req "req" CLIENT CLIENT "A field of the client's request.";
    ReqTop "req_top" CLIENT NEVER "A field of the client's own request, from within one that ESI includes.";
    Bereq "bereq" FETCH_AND_PIPE FETCH_AND_PIPE "A field of the request to a backend.";
    Beresp "beresp" RESPONSE RESPONSE "A field of the backend's response.";
    Obj "obj" HIT NEVER "A field of the stored response.";
    Resp "resp" DELIVER_AND_SYNTH DELIVER_AND_SYNTH "A field of the response to the client.";
}

macro_rules! storage_variables {
    ($($id:ident $name:literal $kind:ident $doc:literal;)*) => {
        /// What can be asked of a storage: `storage.NAME.free_space`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StorageVariable {
            $(
                #[doc = concat!("`", $name, "`")]
                $id,
            )*
        }

        impl StorageVariable {
            /// Where they may be used.
            pub const ACCESS: Access =
                Access { read: Subroutines::BOTH, write: Subroutines::NONE, unset: Subroutines::NONE };

            /// All: their names, what they are, what they say.
            pub const ALL: &[(&'static str, Type, &'static str)] = &[$(($name, Type::$kind, $doc),)*];

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
    FreeSpace "free_space" Bytes "Free bytes of the storage.";
    UsedSpace "used_space" Bytes "Used bytes of the storage.";
    Happy "happy" Bool "Whether the storage works.";
}
