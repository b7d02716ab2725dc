//! The words of the language.

use crate::source::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name.
    Identifier,
    /// A whole number.
    Integer,
    /// A number with a point.
    Real,
    /// A string in its quotes: `"..."`, `{"..."}` or `"""..."""`.
    String,
    /// Bytes as base64 between colons: `:Zm9v:`.
    Blob,
    /// C source, which is refused where it stands: `C{ ... }C`.
    InlineC,
    /// A sign.
    Sign(Sign),
    /// The end of a text.
    End,
}

macro_rules! signs {
    ($($name:ident $text:literal,)*) => {
        /// A sign of the language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sign {
            $(
                #[doc = concat!("`", $text, "`")]
                $name,
            )*
        }

        /// All signs, those of more characters first.
        pub const SIGNS: &[(&str, Sign)] = &[$(($text, Sign::$name),)*];

        impl Sign {
            /// How it is written.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

signs! {
    Increment "++",
    AddAssign "+=",
    Decrement "--",
    SubtractAssign "-=",
    MultiplyAssign "*=",
    DivideAssign "/=",
    And "&&",
    Or "||",
    Equal "==",
    NotEqual "!=",
    NoMatch "!~",
    ShiftLeft "<<",
    LessOrEqual "<=",
    ShiftRight ">>",
    GreaterOrEqual ">=",
    BraceOpen "{",
    BraceClose "}",
    ParenthesisOpen "(",
    ParenthesisClose ")",
    Times "*",
    Plus "+",
    Minus "-",
    Slash "/",
    Percent "%",
    Greater ">",
    Less "<",
    Assign "=",
    Semicolon ";",
    Not "!",
    Ampersand "&",
    Period ".",
    Bar "|",
    Tilde "~",
    Comma ",",
}

impl Kind {
    /// What Varnish calls it in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identifier => "ID",
            Self::Integer => "CNUM",
            Self::Real => "FNUM",
            Self::String => "CSTR",
            Self::Blob => "CBLOB",
            Self::InlineC => "CSRC",
            Self::Sign(sign) => sign.text(),
            Self::End => "end of input",
        }
    }
}

/// A word where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub span: Span,
}
