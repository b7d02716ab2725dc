//! What a subroutine may answer: `return (...)`.

use crate::subroutine::{Subroutine, Subroutines};

macro_rules! actions {
    ($($name:ident $text:literal $places:expr, $doc:literal;)*) => {
        /// What is done next.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action {
            $(
                #[doc = $doc]
                $name,
            )*
        }

        impl Action {
            /// All, in the order in which messages list them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in VCL.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What it means.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$name => $doc,)*
                }
            }

            /// Where it may be answered.
            #[must_use]
            pub const fn places(self) -> Subroutines {
                match self {
                    $(Self::$name => $places,)*
                }
            }
        }
    };
}

const fn of(subroutines: &[Subroutine]) -> Subroutines {
    let mut set = Subroutines::NONE;
    let mut rest = subroutines;
    while let [first, others @ ..] = rest {
        set = set.or(first.alone());
        rest = others;
    }
    set
}

use Subroutine::{
    BackendError, BackendFetch, BackendResponse, Deliver, Fini, Hash, Hit, Init, Miss, Pass, Pipe, Purge, Recv, Synth,
};

actions! {
    Abandon "abandon" Subroutines::BACKEND, "The fetch ends without an object.";
    Deliver "deliver" of(&[Hit, Deliver, Synth, BackendResponse, BackendError]), "The response is delivered, or stored and delivered.";
    Error "error" of(&[BackendFetch, BackendResponse]), "The fetch goes on in `vcl_backend_error`.";
    Fail "fail" Subroutines::CLIENT.or(Subroutines::BACKEND).or(Init.alone()), "The program has failed here.";
    Fetch "fetch" of(&[Pass, Miss, BackendFetch]), "The backend is asked.";
    Hash "hash" Recv.alone(), "The cache is asked.";
    Lookup "lookup" Hash.alone(), "The key is complete.";
    Ok "ok" of(&[Init, Fini]), "The program may begin, or has ended.";
    Pass "pass" of(&[Recv, Miss, Hit, BackendResponse]), "Past the cache; in `vcl_backend_response` for some time.";
    Pipe "pipe" of(&[Recv, Pipe]), "Bytes both ways.";
    Purge "purge" Recv.alone(), "The object and its variants go.";
    Restart "restart" of(&[Recv, Pass, Purge, Miss, Hit, Deliver, Synth]), "The request begins again.";
    Retry "retry" of(&[BackendResponse, BackendError]), "The fetch begins again.";
    Synth "synth" of(&[Recv, Pipe, Pass, Purge, Miss, Hit, Deliver]), "A response is made here.";
    Vcl "vcl" Recv.alone(), "Another program takes the request.";
}

impl Action {
    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// What may be answered there, as messages list it.
    #[must_use]
    pub fn legal_in(subroutine: Subroutine) -> String {
        let legal = Self::ALL.iter().filter(|action| action.places().contains(subroutine));
        legal.map(|action| format!("\"{}\"", action.name())).collect::<Vec<_>>().join(" ")
    }
}
