//! Settings of what is published in Varnish's shared memory: where it is, and what goes into the log.

use telemetry::vsl::VslTag;
use vsm::log::{SPACE_MAX, SPACE_MIN};

use crate::{
    log::LogLimits,
    settings::{NotSet, bytes},
};

/// Bytes of the log, unless set otherwise.
const SPACE_DEFAULT: usize = 80 << 20;
/// Tags that are not written, unless they are asked for.
const MASKED_DEFAULT: [VslTag; 9] = [
    VslTag::VCL_trace,
    VslTag::WorkThread,
    VslTag::Hash,
    VslTag::VfpAcct,
    VslTag::H2RxHdr,
    VslTag::H2RxBody,
    VslTag::H2TxHdr,
    VslTag::H2TxBody,
    VslTag::VdpAcct,
];

/// What is published, and where.
#[derive(Clone, Debug)]
pub struct Publication {
    /// `-n`: a path, or a name below `/var/lib/varnish`.
    pub workdir: String,
    /// `vsl_space`: bytes of the log.
    pub space: usize,
    /// `vsl_mask`: what the log is not to have.
    pub mask: Mask,
    /// `vsl_buffer` and `vsl_reclen`.
    pub limits: LogLimits,
}

impl Publication {
    /// The usual settings.
    #[must_use]
    pub fn new(workdir: &str) -> Self {
        Self { workdir: workdir.to_owned(), space: SPACE_DEFAULT, mask: Mask::default(), limits: LogLimits::default() }
    }

    /// The parameters that [`Publication::set`] knows.
    pub const NAMES: [&str; 4] = ["vsl_buffer", "vsl_mask", "vsl_reclen", "vsl_space"];

    /// Sets a parameter by its name.
    ///
    /// # Errors
    /// Why it cannot be set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), NotSet> {
        let size = |range: std::ops::RangeInclusive<usize>| {
            bytes(value).filter(|size| range.contains(size)).ok_or(NotSet::Invalid)
        };
        match name {
            "vsl_space" => self.space = size(SPACE_MIN..=SPACE_MAX)?,
            "vsl_buffer" => self.limits.buffer = size(267..=1 << 30)?,
            "vsl_reclen" => self.limits.record = size(16..=65_535)?,
            "vsl_mask" => self.mask.change(value)?,
            _ => return Err(NotSet::Unknown),
        }
        Ok(())
    }
}

/// The tags that a log has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask(Vec<VslTag>);

impl Default for Mask {
    fn default() -> Self {
        Self(MASKED_DEFAULT.to_vec())
    }
}

impl Mask {
    /// All tags are written.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(Vec::new())
    }

    /// Changes it as Varnish's parameter `vsl_mask` says: `+Hash,-VCL_trace`, `default`, `none`.
    ///
    /// # Errors
    /// A word that is no tag with a sign before it.
    pub fn change(&mut self, text: &str) -> Result<(), NotSet> {
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            match (word, word.split_at_checked(1)) {
                ("default", _) => *self = Self::default(),
                ("none", _) => self.0.clear(),
                (_, Some((sign @ ("+" | "-"), name))) => {
                    let tag = VslTag::ALL.iter().copied().find(|tag| tag.name().eq_ignore_ascii_case(name));
                    let tag = tag.ok_or(NotSet::Invalid)?;
                    self.0.retain(|masked| *masked != tag);
                    if sign == "-" {
                        self.0.push(tag);
                    }
                }
                _ => return Err(NotSet::Invalid),
            }
        }
        Ok(())
    }

    /// Whether records with this tag are written.
    #[must_use]
    pub fn writes(&self, tag: VslTag) -> bool {
        !self.0.contains(&tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_varnishs() {
        let mut mask = Mask::default();
        assert!(!mask.writes(VslTag::Hash) && mask.writes(VslTag::ReqURL));
        mask.change("+Hash,-ReqURL").unwrap();
        assert!(mask.writes(VslTag::Hash) && !mask.writes(VslTag::ReqURL));
        mask.change("default").unwrap();
        assert_eq!(mask, Mask::default());
        mask.change("none").unwrap();
        assert!(VslTag::ALL.iter().all(|tag| mask.writes(*tag)));
        for wrong in ["Hash", "+Nothing", "+"] {
            assert_eq!(mask.change(wrong), Err(NotSet::Invalid), "{wrong}");
        }
    }
}
