//! The parser's states, and the words that lead from one to the next.

/// Where the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing has come but byte order marks.
    Start,
    /// Those are over.
    AfterMark,
    /// Blanks before the first `<`.
    BeforeXml,
    /// The body is no XML.
    NotXml,
    /// Text, before the next `<`.
    Text,
    /// A tag that is not ours.
    OtherTag,
    /// A comment or CDATA, before what ends it.
    Until(Ending),
    /// One of several words may follow.
    Word(Words),
    /// Behind `<!--esi`.
    EsiComment,
    /// Behind `<esi:` or `</esi:`.
    EsiTag {
        is_end: bool,
    },
    /// Behind the name of a tag.
    Include,
    Remove,
    Comment,
    UnknownTag,
    /// Within a tag, between attributes.
    InTag,
    /// Within a tag that is left out.
    BadTag,
    /// Within the name of an attribute that nobody wants.
    OtherAttribute,
    /// Behind `=`.
    BeforeValue,
    /// Within a value, up to this byte; up to a blank if there is none.
    Value(Option<u8>),
}

/// What ends text that is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Comment,
    Cdata,
}

impl Ending {
    pub(super) const fn text(self) -> &'static [u8; 3] {
        match self {
            Self::Comment => b"-->",
            Self::Cdata => b"]]>",
        }
    }
}

/// Attributes of an include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Source,
    Alt,
    OnError,
}

/// Words that are looked for in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    ByteOrderMark,
    AfterLess,
    EsiTag,
    Attribute,
}

/// What a word leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    State(State),
    Attribute(Attribute),
}

/// How far what has come is one of the words.
pub(super) enum Match {
    /// More is needed.
    Partial,
    /// So many bytes are a word; none if it is none of them.
    Decided(usize, Next),
}

impl Words {
    fn table(self) -> (&'static [(&'static [u8], Next)], Next) {
        use Next::{Attribute as A, State as S};
        match self {
            // NOTE: Varnish looks for the first of these alone, which no program writes.
            Self::ByteOrderMark => {
                (&[(b"\xeb\xbb\xbf", S(State::Start)), (b"\xef\xbb\xbf", S(State::Start))], S(State::AfterMark))
            }
            Self::AfterLess => (
                &[
                    (b"!--esi", S(State::EsiComment)),
                    (b"!---->", S(State::Text)),
                    (b"!--", S(State::Until(Ending::Comment))),
                    (b"/esi:", S(State::EsiTag { is_end: true })),
                    (b"esi:", S(State::EsiTag { is_end: false })),
                    (b"![CDATA[", S(State::Until(Ending::Cdata))),
                ],
                S(State::OtherTag),
            ),
            Self::EsiTag => (
                &[(b"include", S(State::Include)), (b"remove", S(State::Remove)), (b"comment", S(State::Comment))],
                S(State::UnknownTag),
            ),
            Self::Attribute => (
                &[(b"src=", A(Attribute::Source)), (b"alt=", A(Attribute::Alt)), (b"onerror=", A(Attribute::OnError))],
                S(State::OtherAttribute),
            ),
        }
    }

    pub(super) fn find(self, text: &[u8]) -> Match {
        let (words, otherwise) = self.table();
        for (word, next) in words {
            if text.starts_with(word) {
                return Match::Decided(word.len(), *next);
            }
            if word.starts_with(text) {
                return Match::Partial;
            }
        }
        Match::Decided(0, otherwise)
    }
}

pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

pub(super) const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b':' | b'_' | 0xc0..=0xd6 | 0xd8..=0xf6 | 0xf8..)
}

pub(super) const fn is_name(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | 0xb7)
}
