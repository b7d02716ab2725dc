//! What entries can hold, and where in an entry it is.

use thiserror::Error;

/// Most elements of an array (`gpc(<n>)`).
pub const ARRAY_LEN_MAX: u32 = 100;

/// What an entry can hold, in HAProxy's order, which is that of `show table` and of the peers protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are HAProxy's, told in `name`")]
pub enum DataType {
    ServerId,
    Gpt0,
    Gpc0,
    Gpc0Rate,
    ConnCnt,
    ConnRate,
    ConnCur,
    SessCnt,
    SessRate,
    HttpReqCnt,
    HttpReqRate,
    HttpErrCnt,
    HttpErrRate,
    BytesInCnt,
    BytesInRate,
    BytesOutCnt,
    BytesOutRate,
    Gpc1,
    Gpc1Rate,
    ServerKey,
    HttpFailCnt,
    HttpFailRate,
    Gpt,
    Gpc,
    GpcRate,
}

/// In which form a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed integer of 32 bits.
    Signed,
    /// An unsigned integer of 32 bits.
    Unsigned,
    /// An unsigned integer of 64 bits.
    Long,
    /// Events over a period.
    Rate,
    /// A word out of a few.
    Word,
}

impl Kind {
    /// How many words of 32 bits it takes.
    const fn words(self) -> usize {
        match self {
            Self::Signed | Self::Unsigned | Self::Word => 1,
            Self::Long => 2,
            Self::Rate => 3,
        }
    }
}

impl DataType {
    /// How many there are.
    pub const COUNT: usize = 25;

    /// All, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ServerId,
        Self::Gpt0,
        Self::Gpc0,
        Self::Gpc0Rate,
        Self::ConnCnt,
        Self::ConnRate,
        Self::ConnCur,
        Self::SessCnt,
        Self::SessRate,
        Self::HttpReqCnt,
        Self::HttpReqRate,
        Self::HttpErrCnt,
        Self::HttpErrRate,
        Self::BytesInCnt,
        Self::BytesInRate,
        Self::BytesOutCnt,
        Self::BytesOutRate,
        Self::Gpc1,
        Self::Gpc1Rate,
        Self::ServerKey,
        Self::HttpFailCnt,
        Self::HttpFailRate,
        Self::Gpt,
        Self::Gpc,
        Self::GpcRate,
    ];

    /// HAProxy's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServerId => "server_id",
            Self::Gpt0 => "gpt0",
            Self::Gpc0 => "gpc0",
            Self::Gpc0Rate => "gpc0_rate",
            Self::ConnCnt => "conn_cnt",
            Self::ConnRate => "conn_rate",
            Self::ConnCur => "conn_cur",
            Self::SessCnt => "sess_cnt",
            Self::SessRate => "sess_rate",
            Self::HttpReqCnt => "http_req_cnt",
            Self::HttpReqRate => "http_req_rate",
            Self::HttpErrCnt => "http_err_cnt",
            Self::HttpErrRate => "http_err_rate",
            Self::BytesInCnt => "bytes_in_cnt",
            Self::BytesInRate => "bytes_in_rate",
            Self::BytesOutCnt => "bytes_out_cnt",
            Self::BytesOutRate => "bytes_out_rate",
            Self::Gpc1 => "gpc1",
            Self::Gpc1Rate => "gpc1_rate",
            Self::ServerKey => "server_key",
            Self::HttpFailCnt => "http_fail_cnt",
            Self::HttpFailRate => "http_fail_rate",
            Self::Gpt => "gpt",
            Self::Gpc => "gpc",
            Self::GpcRate => "gpc_rate",
        }
    }

    /// The type of that name; `server_name` is the old name of `server_key`.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        if name == "server_name" {
            return Some(Self::ServerKey);
        }
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// In which form it is kept.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::ServerId => Kind::Signed,
            Self::Gpt0
            | Self::Gpc0
            | Self::ConnCnt
            | Self::ConnCur
            | Self::SessCnt
            | Self::HttpReqCnt
            | Self::HttpErrCnt
            | Self::Gpc1
            | Self::HttpFailCnt
            | Self::Gpt
            | Self::Gpc => Kind::Unsigned,
            Self::BytesInCnt | Self::BytesOutCnt => Kind::Long,
            Self::Gpc0Rate
            | Self::ConnRate
            | Self::SessRate
            | Self::HttpReqRate
            | Self::HttpErrRate
            | Self::BytesInRate
            | Self::BytesOutRate
            | Self::Gpc1Rate
            | Self::HttpFailRate
            | Self::GpcRate => Kind::Rate,
            Self::ServerKey => Kind::Word,
        }
    }

    /// Whether there is an array of it.
    #[must_use]
    pub const fn is_array(self) -> bool {
        matches!(self, Self::Gpt | Self::Gpc | Self::GpcRate)
    }

    /// Whether it says something of this process alone, so that peers do not learn it.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::ConnCur)
    }

    /// The element of an array that stands for it where it is not stored itself.
    const fn in_array(self) -> Option<(Self, u32)> {
        match self {
            Self::Gpt0 => Some((Self::Gpt, 0)),
            Self::Gpc0 => Some((Self::Gpc, 0)),
            Self::Gpc1 => Some((Self::Gpc, 1)),
            Self::Gpc0Rate => Some((Self::GpcRate, 0)),
            Self::Gpc1Rate => Some((Self::GpcRate, 1)),
            _ => None,
        }
    }
}

/// Why something cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// It is stored already.
    #[error("already enabled")]
    Exists,
    /// It needs a number of elements or a period.
    #[error("missing argument")]
    MissingArgument,
    /// It takes fewer arguments.
    #[error("unexpected argument")]
    UnexpectedArgument,
    /// An array of none, or of too many.
    #[error("array size is out of allowed range (1-{ARRAY_LEN_MAX})")]
    ArrayLen,
}

/// Where in an entry a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The first of its words.
    pub(crate) word: usize,
    /// Its form.
    pub(crate) kind: Kind,
    /// The period of a rate in milliseconds.
    pub(crate) period: u32,
}

/// One type of an entry: where it begins, how many elements it has, and the period of its rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DataSlot {
    word: u16,
    len: u8,
    period: u32,
}

/// What the entries of a table hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    parts: [DataSlot; DataType::COUNT],
    words: usize,
}

impl Layout {
    /// Adds a type: `elements` for arrays, `period_ms` for rates.
    ///
    /// # Errors
    /// When it is there already or the arguments are not its own.
    pub fn store(&mut self, data: DataType, elements: Option<u32>, period_ms: Option<u32>) -> Result<(), StoreError> {
        if self.stores(data) {
            return Err(StoreError::Exists);
        }
        let len = match (data.is_array(), elements) {
            (true, Some(elements)) => u8::try_from(elements)
                .ok()
                .filter(|len| (1..=ARRAY_LEN_MAX).contains(&u32::from(*len)))
                .ok_or(StoreError::ArrayLen)?,
            (true, None) => return Err(StoreError::MissingArgument),
            (false, Some(_)) => return Err(StoreError::UnexpectedArgument),
            (false, None) => 1,
        };
        let period = match (data.kind(), period_ms) {
            (Kind::Rate, Some(period)) => period,
            (Kind::Rate, None) => return Err(StoreError::MissingArgument),
            (_, Some(_)) => return Err(StoreError::UnexpectedArgument),
            (_, None) => 0,
        };
        // All types with the longest arrays have some 600 words, so this always fits.
        let word = u16::try_from(self.words).map_err(|_| StoreError::ArrayLen)?;
        if let Some(part) = self.parts.get_mut(data as usize) {
            *part = DataSlot { word, len, period };
            self.words += usize::from(len) * data.kind().words();
        }
        Ok(())
    }

    /// Whether a type is stored.
    #[must_use]
    pub fn stores(&self, data: DataType) -> bool {
        self.len(data) > 0
    }

    /// Its elements: none when it is not stored.
    #[must_use]
    pub fn len(&self, data: DataType) -> u32 {
        self.parts.get(data as usize).map_or(0, |part| u32::from(part.len))
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// The period of a rate in milliseconds.
    #[must_use]
    pub fn period_ms(&self, data: DataType) -> u32 {
        self.parts.get(data as usize).map_or(0, |part| part.period)
    }

    /// The types that are stored, in order.
    pub fn types(&self) -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().filter(|data| self.stores(*data))
    }

    /// Words of an entry.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Where the element of a type is.
    pub(crate) fn field(&self, data: DataType, index: u32) -> Option<Field> {
        let part = self.parts.get(data as usize).filter(|part| index < u32::from(part.len))?;
        let kind = data.kind();
        Some(Field { word: usize::from(part.word) + index as usize * kind.words(), kind, period: part.period })
    }

    /// Where the element of a type is, or the element of an array that stands for it.
    pub(crate) fn field_or_array(&self, data: DataType, index: u32) -> Option<Field> {
        self.field(data, index).or_else(|| {
            let (array, index) = data.in_array()?;
            self.field(array, index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_order_and_have_names() {
        for (place, data) in DataType::ALL.into_iter().enumerate() {
            assert_eq!(data as usize, place);
            assert_eq!(DataType::find(data.name()), Some(data));
        }
        assert_eq!(DataType::find("server_name"), Some(DataType::ServerKey));
        assert_eq!(DataType::find("gpc2"), None);
    }

    #[test]
    fn arguments_must_fit() {
        let mut layout = Layout::default();
        for (data, elements, period, expected) in [
            (DataType::Gpc0, None, None, Ok(())),
            (DataType::Gpc0, None, None, Err(StoreError::Exists)),
            (DataType::ConnRate, None, None, Err(StoreError::MissingArgument)),
            (DataType::ConnRate, None, Some(1_000), Ok(())),
            (DataType::ConnCnt, None, Some(1), Err(StoreError::UnexpectedArgument)),
            (DataType::Gpt, None, None, Err(StoreError::MissingArgument)),
            (DataType::Gpt, Some(0), None, Err(StoreError::ArrayLen)),
            (DataType::Gpt, Some(101), None, Err(StoreError::ArrayLen)),
            (DataType::Gpt, Some(256), None, Err(StoreError::ArrayLen)),
            (DataType::Gpt, Some(100), None, Ok(())),
            (DataType::GpcRate, Some(3), None, Err(StoreError::MissingArgument)),
            (DataType::GpcRate, Some(3), Some(10), Ok(())),
        ] {
            assert_eq!(layout.store(data, elements, period), expected, "{data:?}");
        }
        assert_eq!(layout.words(), 1 + 3 + 100 + 9);
    }

    #[test]
    fn no_two_fields_share_a_word() {
        let mut layout = Layout::default();
        for data in DataType::ALL {
            let elements = data.is_array().then_some(100);
            layout.store(data, elements, (data.kind() == Kind::Rate).then_some(1)).unwrap();
        }
        let mut used = vec![false; layout.words()];
        for data in DataType::ALL {
            for index in 0..layout.len(data) {
                let field = layout.field(data, index).unwrap();
                for word in &mut used[field.word..field.word + field.kind.words()] {
                    assert!(!std::mem::replace(word, true), "{data:?} {index}");
                }
            }
            assert_eq!(layout.field(data, layout.len(data)), None);
        }
        assert!(used.iter().all(|used| *used));
    }

    #[test]
    fn an_array_stands_for_its_first_elements() {
        let mut layout = Layout::default();
        layout.store(DataType::Gpc, Some(1), None).unwrap();
        assert_eq!(layout.field_or_array(DataType::Gpc0, 0), layout.field(DataType::Gpc, 0));
        assert_eq!(layout.field_or_array(DataType::Gpc1, 0), None);
        assert_eq!(layout.field_or_array(DataType::Gpt0, 0), None);
    }
}
