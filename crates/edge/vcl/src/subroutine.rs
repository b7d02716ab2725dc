//! The subroutines that the cache calls, and sets of them.

use std::{fmt, ops::BitOr};

/// Bytes of `vcl_`.
const PREFIX_BYTES: usize = 4;

/// A name in capitals, without `vcl_`.
#[expect(clippy::indexing_slicing, reason = "evaluated at compile time: a mistake does not build")]
const fn logged<const BYTES: usize>(name: &str) -> [u8; BYTES] {
    let mut capitals = [0; BYTES];
    let mut place = 0;
    while place < BYTES {
        capitals[place] = name.as_bytes()[PREFIX_BYTES + place].to_ascii_uppercase();
        place += 1;
    }
    capitals
}

macro_rules! subroutines {
    ($($name:ident $text:literal $doc:literal,)*) => {
        /// A subroutine that the cache calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Subroutine {
            $(
                #[doc = $doc]
                $name,
            )*
        }

        impl Subroutine {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in VCL.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// When it runs.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$name => $doc,)*
                }
            }

            /// Its name in the log: in capitals, without `vcl_`.
            #[must_use]
            pub const fn log_name(self) -> &'static [u8] {
                match self {
                    $(Self::$name => {
                        const NAME: [u8; $text.len() - PREFIX_BYTES] = logged($text);
                        &NAME
                    })*
                }
            }
        }
    };
}

subroutines! {
    Recv "vcl_recv" "A request has come, or begins again.",
    Pipe "vcl_pipe" "Bytes are about to go both ways without being looked at.",
    Pass "vcl_pass" "The request goes past the cache.",
    Hash "vcl_hash" "The key of the cache is made.",
    Purge "vcl_purge" "The object and its variants have been removed.",
    Miss "vcl_miss" "The cache has nothing.",
    Hit "vcl_hit" "The cache has an object.",
    Deliver "vcl_deliver" "A response is about to go to the client.",
    Synth "vcl_synth" "A response is made here.",
    BackendFetch "vcl_backend_fetch" "A request is about to go to a backend.",
    BackendResponse "vcl_backend_response" "The head of a backend's response has come.",
    BackendError "vcl_backend_error" "No response has come.",
    Init "vcl_init" "The program has been loaded.",
    Fini "vcl_fini" "The program goes, when nothing runs it any more.",
}

impl Subroutine {
    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|subroutine| subroutine.name() == name)
    }

    /// The set that has only this one.
    #[must_use]
    pub const fn alone(self) -> Subroutines {
        Subroutines(1 << self as u16)
    }
}

impl fmt::Display for Subroutine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of subroutines: where something may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subroutines(u16);

impl Subroutines {
    /// None.
    pub const NONE: Self = Self(0);
    /// Those of a client's request.
    pub const CLIENT: Self = Self(
        Subroutine::Recv.alone().0
            | Subroutine::Pipe.alone().0
            | Subroutine::Pass.alone().0
            | Subroutine::Hash.alone().0
            | Subroutine::Purge.alone().0
            | Subroutine::Miss.alone().0
            | Subroutine::Hit.alone().0
            | Subroutine::Deliver.alone().0
            | Subroutine::Synth.alone().0,
    );
    /// Those of a fetch.
    pub const BACKEND: Self = Self(
        Subroutine::BackendFetch.alone().0 | Subroutine::BackendResponse.alone().0 | Subroutine::BackendError.alone().0,
    );
    /// Those of a client's request and of a fetch.
    pub const BOTH: Self = Self(Self::CLIENT.0 | Self::BACKEND.0);
    /// Those that begin and end a program.
    pub const HOUSEKEEPING: Self = Self(Subroutine::Init.alone().0 | Subroutine::Fini.alone().0);
    /// All.
    pub const ALL: Self = Self(Self::BOTH.0 | Self::HOUSEKEEPING.0);

    /// Whether this one is in it.
    #[must_use]
    pub const fn contains(self, subroutine: Subroutine) -> bool {
        self.0 & subroutine.alone().0 != 0
    }

    /// Whether none is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Subroutines {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}
