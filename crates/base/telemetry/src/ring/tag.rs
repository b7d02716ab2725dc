//! The words of the log: one table for numbers, names, meanings and the reference.

macro_rules! tags {
    ($($number:literal $name:ident $form:literal $doc:literal;)*) => {
        /// What a record says. Numbers are part of the ring's layout and never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Tag {
            $(#[doc = $doc] #[doc = ""] #[doc = concat!("Text: `", $form, "`.")] $name = $number,)*
        }

        impl Tag {
            /// Every tag in the order of the numbers.
            pub const ALL: &[Tag] = &[$(Tag::$name),*];

            /// The tag with that number, if this version knows it.
            #[must_use]
            pub fn of(number: u16) -> Option<Tag> {
                match number {
                    $($number => Some(Tag::$name),)*
                    _ => None,
                }
            }

            /// The name, as printed and as given to filters.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Tag::$name => stringify!($name),)* }
            }

            /// What a record with this tag means.
            #[must_use]
            pub fn doc(self) -> &'static str {
                match self { $(Tag::$name => $doc,)* }
            }

            /// What its text is made of.
            #[must_use]
            pub const fn form(self) -> &'static str {
                match self { $(Tag::$name => $form,)* }
            }
        }
    };
}

tags! {
    1 Begin "<kind> <parent id> <reason>" "A transaction begins: `sess 0 HTTP/1`, `sess 0 TCP`, `req <session> rxreq`, `check 0 <backend>/<server>`.";
    2 End "" "The transaction is over; nothing more comes with its id.";
    3 Link "<kind> <id> <reason>" "A transaction that this one gave rise to.";
    4 Timestamp "<event>: <unix time> <seconds since the start> <seconds since the event before>" "When a stage was reached: Start, Req, Queue, Connect, Beresp, Resp, Process.";
    5 Error "<text>" "Something failed: on whose side, and why.";
    6 Debug "<text>" "For whoever develops Tidegate.";
    10 SessOpen "<client address> <client port> <listener> <local address> <local port>" "A client connected.";
    11 SessClose "<reason> <seconds>" "The client's connection ended.";
    12 ProxyProtocol "<version> <client address> <client port> <server address> <server port>" "What a PROXY protocol header said.";
    13 Frontend "<name>" "The frontend that took the session.";
    20 ReqStart "<client address> <client port> <listener>" "A request begins.";
    21 ReqMethod "<method>" "The request's method.";
    22 ReqURL "<target>" "The request's target.";
    23 ReqProtocol "<protocol>" "The request's protocol.";
    24 ReqHeader "<name>: <value>" "A header field of the request.";
    25 ReqUnset "<name>: <value>" "A header field of the request that a rule removed.";
    26 ReqAcct "<head in> <body in> <total in> <head out> <body out> <total out>" "Bytes of the request's client side.";
    30 RespProtocol "<protocol>" "The protocol of the response to the client.";
    31 RespStatus "<status>" "The status of the response to the client.";
    32 RespReason "<reason>" "The reason phrase of the response to the client.";
    33 RespHeader "<name>: <value>" "A header field of the response to the client.";
    40 Backend "<backend> <server>" "Where the request goes; `<NOSRV>` stands for no server and `<STATS>` for the statistics, as in HAProxy's logs.";
    41 BackendOpen "<server address> <server port> <local address> <local port>" "A connection to the server was opened.";
    42 BackendReuse "<server address> <server port> <local address> <local port>" "A connection that stood was used again.";
    43 BackendClose "<reason>" "The connection to the server was closed; without this record it was kept.";
    44 Queue "<queue> <position> <milliseconds>" "The request waited: `server` or `backend`, how many were before it, how long.";
    45 Retry "<number> <reason>" "Another attempt on the same server.";
    46 Redispatch "<backend> <server> <reason>" "Another attempt on another server.";
    50 BereqMethod "<method>" "The method sent to the server.";
    51 BereqURL "<target>" "The target sent to the server.";
    52 BereqProtocol "<protocol>" "The protocol sent to the server.";
    53 BereqHeader "<name>: <value>" "A header field sent to the server.";
    54 BereqAcct "<head out> <body out> <total out> <head in> <body in> <total in>" "Bytes of the request's server side.";
    60 BerespProtocol "<protocol>" "The protocol of the server's response.";
    61 BerespStatus "<status>" "The status of the server's response.";
    62 BerespReason "<reason>" "The reason phrase of the server's response.";
    63 BerespHeader "<name>: <value>" "A header field of the server's response.";
    70 Rule "<file>:<line> <action>" "A rule decided something.";
    71 Intercept "<reason>" "The edge answered itself.";
    72 Upgrade "<protocol>" "The connection became a tunnel.";
    73 Cache "<outcome>, <why>" "What became of the request in the cache: hit, miss, pass, pipe or synth; of a `shared-cache` what its `Cache-Status` says.";
    80 Termination "<code>" "HAProxy's termination state, such as `SH--`.";
    81 Log "<line>" "The line as the log targets got it.";
    82 Summary "<binary>" "A request in short. Readers get the records that it stands for instead: see Summary.";
    90 Health "<backend>/<server> <state> <status> <code> <milliseconds> <info>" "The result of a health check.";
}

impl Tag {
    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        u16::from(self as u8)
    }

    /// Whether its records have a name before a colon that a query can choose: `ReqHeader:host`, `Timestamp:Resp`.
    #[must_use]
    pub const fn has_names(self) -> bool {
        let form = self.form().as_bytes();
        let mut rest = form;
        while let [first, tail @ ..] = rest {
            if let (b'>', [b':', b' ', ..]) = (*first, tail) {
                return true;
            }
            rest = tail;
        }
        false
    }

    /// Whether this version writes such records. Readers know the others already, and nothing is found by them.
    #[must_use]
    pub fn is_written(self) -> bool {
        matches!(
            self,
            Self::Begin
                | Self::End
                | Self::Timestamp
                | Self::SessOpen
                | Self::SessClose
                | Self::Frontend
                | Self::ReqStart
                | Self::ReqMethod
                | Self::ReqURL
                | Self::ReqAcct
                | Self::RespStatus
                | Self::Backend
                | Self::Cache
                | Self::Termination
                | Self::Summary
                | Self::Health
        )
    }

    /// The tag with that name, letter case ignored.
    #[must_use]
    pub fn named(name: &str) -> Option<Tag> {
        Self::ALL.iter().copied().find(|tag| tag.name().eq_ignore_ascii_case(name))
    }
}
