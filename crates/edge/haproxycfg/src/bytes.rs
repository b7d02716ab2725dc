//! Writing and reading the blocks that a bundle is made of.

/// Writes.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(magic: &[u8]) -> Self {
        Self(magic.to_vec())
    }

    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    /// A number of 32 bits; lengths and counts of what fits in memory as configuration are far below.
    pub fn number(&mut self, number: usize) -> &mut Self {
        self.0.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        self
    }

    pub fn block(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len());
        self.0.extend(bytes);
        self
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] wrote; `None` when there is less.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn number(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    pub fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.block()?.to_vec()).ok()
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
