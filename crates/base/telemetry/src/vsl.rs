//! The words of Varnish's shared-memory log (VSL), with the numbers that Varnish 7.1 gives them.
//!
//! The crate `vsm` reads and writes records with these numbers. [`crate::ring::Tag`] has the words of Tidegate's own ring: names
//! that are in both tables mean the same.

use crate::query::{TagName, Vocabulary};

macro_rules! tags {
    ($($number:literal $name:ident $doc:literal;)*) => {
        /// What a record of Varnish's log says. The numbers are part of its layout.
        #[expect(non_camel_case_types, reason = "the names are Varnish's, as users write them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum VslTag {
            $(#[doc = $doc] $name = $number,)*
        }

        impl VslTag {
            /// Every tag in the order of the numbers.
            pub const ALL: &[VslTag] = &[$(VslTag::$name),*];

            /// The tag with that number.
            #[must_use]
            pub fn of(number: u8) -> Option<VslTag> {
                match number {
                    $($number => Some(VslTag::$name),)*
                    _ => None,
                }
            }

            /// The name, as printed and as given to filters.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(VslTag::$name => stringify!($name),)* }
            }

            /// What a record with this tag means.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(VslTag::$name => $doc,)* }
            }
        }

        /// What queries of Varnish's log may name.
        pub const VOCABULARY: Vocabulary = Vocabulary {
            tags: &[$(TagName { number: $number, name: stringify!($name), has_names: true }),*],
            hint: "man vsl names them all",
        };
    };
}

tags! {
    1 Debug "For whoever develops the program.";
    2 Error "Something failed.";
    3 CLI "A command of the management protocol, or its answer.";
    4 SessOpen "A client connected: `address port listener local-address local-port time fd`.";
    5 SessClose "The client's connection ended: `reason seconds`.";
    6 BackendOpen "A connection to a backend was opened: `fd name address port local-address local-port reuse-or-connect`.";
    7 BackendReuse "A connection to a backend was kept for the next request: `fd name`.";
    8 BackendClose "A connection to a backend was closed: `fd name [reason]`.";
    9 HttpGarbage "Bytes of a request that could not be understood.";
    10 Proxy "What a PROXY header said: `version client-address port server-address port`.";
    11 ProxyGarbage "A PROXY header that could not be understood.";
    12 Backend "The backend that was chosen.";
    13 Length "Bytes of the object's body.";
    14 FetchError "Why a fetch failed.";
    15 ReqMethod "The method of the request.";
    16 ReqURL "The URL of the request.";
    17 ReqProtocol "The protocol of the request.";
    18 ReqStatus "The status of the request.";
    19 ReqReason "The reason phrase of the request.";
    20 ReqHeader "A header field of the request: `name: value`.";
    21 ReqUnset "A header field that was removed from the request: `name: value`.";
    22 ReqLost "A header field of the request that was lost.";
    23 RespMethod "The method of the response to the client.";
    24 RespURL "The URL of the response to the client.";
    25 RespProtocol "The protocol of the response to the client.";
    26 RespStatus "The status of the response to the client.";
    27 RespReason "The reason phrase of the response to the client.";
    28 RespHeader "A header field of the response to the client: `name: value`.";
    29 RespUnset "A header field that was removed from the response to the client: `name: value`.";
    30 RespLost "A header field of the response to the client that was lost.";
    31 BereqMethod "The method of the request to the backend.";
    32 BereqURL "The URL of the request to the backend.";
    33 BereqProtocol "The protocol of the request to the backend.";
    34 BereqStatus "The status of the request to the backend.";
    35 BereqReason "The reason phrase of the request to the backend.";
    36 BereqHeader "A header field of the request to the backend: `name: value`.";
    37 BereqUnset "A header field that was removed from the request to the backend: `name: value`.";
    38 BereqLost "A header field of the request to the backend that was lost.";
    39 BerespMethod "The method of the response of the backend.";
    40 BerespURL "The URL of the response of the backend.";
    41 BerespProtocol "The protocol of the response of the backend.";
    42 BerespStatus "The status of the response of the backend.";
    43 BerespReason "The reason phrase of the response of the backend.";
    44 BerespHeader "A header field of the response of the backend: `name: value`.";
    45 BerespUnset "A header field that was removed from the response of the backend: `name: value`.";
    46 BerespLost "A header field of the response of the backend that was lost.";
    47 ObjMethod "The method of the object.";
    48 ObjURL "The URL of the object.";
    49 ObjProtocol "The protocol of the object.";
    50 ObjStatus "The status of the object.";
    51 ObjReason "The reason phrase of the object.";
    52 ObjHeader "A header field of the object: `name: value`.";
    53 ObjUnset "A header field that was removed from the object: `name: value`.";
    54 ObjLost "A header field of the object that was lost.";
    55 BogoHeader "A header line that could not be understood.";
    56 LostHeader "A header field for which there was no room.";
    57 TTL "The life that an object was given: `source ttl grace keep reference [age date expires max-age] cacheable|uncacheable`.";
    58 Fetch_Body "How the body comes from the backend: `mode description stream|-`.";
    59 VCL_acl "Whether an address matched: `MATCH|NO_MATCH name [entry]`.";
    60 VCL_call "A subroutine of the VCL begins.";
    61 VCL_trace "A place in the VCL was passed.";
    62 VCL_return "What a subroutine of the VCL returned.";
    63 ReqStart "A request begins: `address port listener`.";
    64 Hit "An object of the cache answers: `vxid ttl grace keep [fetched [length]]`.";
    65 HitPass "The cache says that such requests pass: `vxid ttl`.";
    66 ExpBan "A ban removed the object with this number.";
    67 ExpKill "Something about an object's expiry.";
    68 WorkThread "A thread began or ended.";
    69 ESI_xmlerror "A fault in an ESI document.";
    70 Hash "A text that the hash was made of.";
    71 Backend_health "The result of a probe.";
    72 VCL_Log "What `std.log()` said.";
    73 VCL_Error "An error while VCL ran.";
    74 Gzip "What was compressed or decompressed.";
    75 Link "A transaction that this one gave rise to: `kind vxid reason`.";
    76 Begin "A transaction begins: `kind parent reason`.";
    77 End "A transaction is over.";
    78 VSL "What a reader of the log says itself.";
    79 Storage "Where the object is: `type name`.";
    80 Timestamp "When a stage was reached: `event: absolute since-start since-last`.";
    81 ReqAcct "Bytes of the request: head, body, total in; head, body, total out.";
    82 PipeAcct "Bytes of a pipe: client's head, backend's head, from the client, to the client.";
    83 BereqAcct "Bytes of the backend's request: head, body, total out; head, body, total in.";
    84 VfpAcct "A filter of a fetched body: `name calls bytes`.";
    85 Witness "Order of locks.";
    86 BackendStart "The fetch goes to this address: `address port`.";
    87 H2RxHdr "Head of an HTTP/2 frame that came.";
    88 H2RxBody "Body of an HTTP/2 frame that came.";
    89 H2TxHdr "Head of an HTTP/2 frame that went.";
    90 H2TxBody "Body of an HTTP/2 frame that went.";
    91 HitMiss "The cache says that such requests miss: `vxid ttl`.";
    92 Filters "The filters of the body.";
    93 SessError "A connection could not be accepted.";
    94 VCL_use "The VCL that is in use.";
    95 Notice "Something worth knowing about the request.";
    96 VdpAcct "A filter of a delivered body: `name calls bytes`.";
}

impl VslTag {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether its text is made of any bytes, not of letters.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::H2RxHdr | Self::H2RxBody | Self::H2TxHdr | Self::H2TxBody)
    }

    /// Whether its text may have bytes that a terminal must not see.
    #[must_use]
    pub const fn is_unsafe(self) -> bool {
        matches!(self, Self::Debug | Self::HttpGarbage | Self::Hash)
    }

    /// The tag with that name, letter case ignored.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tag| tag.name().eq_ignore_ascii_case(name))
    }
}
