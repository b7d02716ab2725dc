//! The types of the language.

use std::fmt;

macro_rules! types {
    ($($name:ident $text:literal,)*) => {
        /// What an expression or a variable is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Type {
            $(
                #[doc = concat!("`", $text, "`")]
                $name,
            )*
            /// An object that a module makes, by its class: `directors.round_robin`.
            Instance(&'static str),
        }

        impl Type {
            /// Its name in VCL and in messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Instance(class) => class,
                }
            }
        }
    };
}

types! {
    Acl "ACL",
    Backend "BACKEND",
    Blob "BLOB",
    Body "BODY",
    Bool "BOOL",
    Bytes "BYTES",
    Duration "DURATION",
    Enum "ENUM",
    Header "HEADER",
    Http "HTTP",
    Int "INT",
    Ip "IP",
    Probe "PROBE",
    Real "REAL",
    Regex "REGEX",
    Stevedore "STEVEDORE",
    String "STRING",
    Sub "SUB",
    Time "TIME",
    Vcl "VCL",
    Void "VOID",
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Type {
    /// Whether it has a form as a string.
    #[must_use]
    pub const fn is_printable(self) -> bool {
        !matches!(
            self,
            Self::Body
                | Self::Enum
                | Self::Http
                | Self::Probe
                | Self::Regex
                | Self::Sub
                | Self::Vcl
                | Self::Void
                | Self::Instance(_)
        )
    }

    /// Whether it can stand where a condition is asked for.
    #[must_use]
    pub const fn is_condition(self) -> bool {
        matches!(self, Self::Bool | Self::Backend | Self::Int | Self::Duration | Self::String | Self::Header)
    }

    /// Whether it is counted with.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Bytes | Self::Duration | Self::Int | Self::Real | Self::Time)
    }
}
