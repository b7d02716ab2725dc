//! What is done to a body on its way to a client, in Varnish's words (`resp.filters`).

use http::HeaderId;
use telemetry::vsl::VslTag;

use super::host::ClientHost;
use crate::fields;

/// What is done to a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filters {
    /// Other pages go where it includes them.
    pub(super) includes: bool,
    /// It is decompressed.
    pub(super) gunzips: bool,
    /// The client may get a part.
    pub(super) ranges: bool,
}

impl Filters {
    /// Reads their names; `Err` is one that is not known.
    fn of(names: &[u8]) -> Result<Self, &[u8]> {
        let mut filters = Self::default();
        for name in names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
            match name {
                b"esi" => filters.includes = true,
                b"gunzip" => filters.gunzips = true,
                b"range" => filters.ranges = true,
                unknown => return Err(unknown),
            }
        }
        Ok(filters)
    }
}

impl ClientHost {
    /// What follows from the request and the object.
    fn default_filters(&self) -> Filters {
        let settings = &self.common.loaded.settings;
        let Some(object) = &self.object else { return Filters::default() };
        Filters {
            includes: object.page().is_some() && !self.leaves_includes,
            gunzips: settings.gzip && fields::is_stored_as_gzip(object) && !fields::accepts_gzip(&self.request.headers),
            ranges: settings.ranges,
        }
    }

    /// The filters by their names.
    pub(super) fn filters(&self) -> Vec<u8> {
        if let Some(named) = &self.named_filters {
            return named.clone();
        }
        let filters = self.default_filters();
        let is_asked = self.response.status() == 200 && self.request.headers.contains_known(HeaderId::Range);
        let names: [(bool, &[u8]); 3] =
            [(filters.includes, b" esi"), (filters.gunzips, b" gunzip"), (filters.ranges && is_asked, b" range")];
        names.iter().filter(|(is_used, _)| *is_used).flat_map(|(_, name)| name.iter().copied()).collect()
    }

    /// What is done; `None` if the program wants what is not there.
    pub(super) fn wanted_filters(&mut self) -> Option<Filters> {
        let Some(named) = &self.named_filters else { return Some(self.default_filters()) };
        match Filters::of(named) {
            Ok(filters) => Some(filters),
            Err(unknown) => {
                let words = format!("Filter '...{}' not found", String::from_utf8_lossy(unknown));
                self.common.log.record(VslTag::Error, words.as_bytes());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |names: &'static str| Filters::of(names.as_bytes());
        assert_eq!(of(""), Ok(Filters::default()));
        assert_eq!(of(" esi  gunzip range"), Ok(Filters { includes: true, gunzips: true, ranges: true }));
        assert_eq!(of("gunzip foo"), Err(&b"foo"[..]));
    }
}
