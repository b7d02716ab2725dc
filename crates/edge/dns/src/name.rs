//! Domain names.

use std::fmt;

/// Bytes of the longest label.
pub const LABEL_BYTES_MAX: usize = 63;

/// Bytes of the longest name as it is sent, without the root's (RFC 1035, section 2.3.4).
pub const NAME_BYTES_MAX: usize = 254;

/// Pointers that are followed in one name.
const POINTERS_MAX: usize = 100;

/// A name in lower case, as it is sent but for the root at its end: each label after its length.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Reads `www.example.com`; a dot at the end is nothing. `None` when a label is empty or too long, or all is.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        if text.len() >= NAME_BYTES_MAX {
            return None;
        }
        let mut wire = Vec::with_capacity(text.len() + 1);
        for label in text.split(|byte| *byte == b'.') {
            let length = u8::try_from(label.len()).ok().filter(|_| (1..=LABEL_BYTES_MAX).contains(&label.len()))?;
            wire.push(length);
            wire.extend(label.iter().map(u8::to_ascii_lowercase));
        }
        Some(Self(wire.into()))
    }

    /// As it is sent, without the root.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// Reads a name out of a message at `at`, following pointers; returns it and where it ends there. `None` for the root,
    /// and for what is no name.
    pub(crate) fn read(message: &[u8], at: usize) -> Option<(Self, usize)> {
        let mut wire = Vec::new();
        let (mut position, mut end, mut pointers) = (at, None, 0);
        loop {
            let length = *message.get(position)?;
            match length {
                0 => break,
                0xC0.. => {
                    let low = *message.get(position + 1)?;
                    end.get_or_insert(position + 2);
                    let target = usize::from(length & 0x3F) << 8 | usize::from(low);
                    pointers += 1;
                    // NOTE: a pointer leads back, so that none leads in a circle; the bound is for those that creep.
                    if target >= position || pointers > POINTERS_MAX {
                        return None;
                    }
                    position = target;
                }
                64.. => return None,
                _ => {
                    let label = message.get(position + 1..position + 1 + usize::from(length))?;
                    if wire.len() + label.len() + 1 > NAME_BYTES_MAX {
                        return None;
                    }
                    wire.push(length);
                    wire.extend(label.iter().map(u8::to_ascii_lowercase));
                    position += 1 + label.len();
                }
            }
        }
        if wire.is_empty() {
            return None;
        }
        Some((Self(wire.into()), end.unwrap_or(position + 1)))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &*self.0;
        let mut is_first = true;
        while let Some((length, after)) = rest.split_first() {
            let (label, after) = after.split_at_checked(usize::from(*length)).unwrap_or((after, &[]));
            if !std::mem::take(&mut is_first) {
                formatter.write_str(".")?;
            }
            formatter.write_str(&String::from_utf8_lossy(label))?;
            rest = after;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Name({self})")
    }
}
