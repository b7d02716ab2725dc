//! What is done to a body on its way into the cache, in Varnish's words (`beresp.filters`).

use super::{
    Recoding,
    host::{BackendHost, Decisions},
    step::{Coding, Codings},
};
use crate::fields;

/// The filters that a program has asked for by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filters {
    pub(super) codings: Codings,
    /// Whether includes are looked for.
    pub(super) has_includes: bool,
    /// Whether the page goes out in gzip.
    pub(super) packs_page: bool,
}

impl Filters {
    /// Reads their names; `Err` is one that is not known.
    pub(super) fn of(names: &[u8]) -> Result<Self, &[u8]> {
        let mut filters = Self::default();
        for name in names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
            let coding = match name {
                b"gzip" => Coding::Gzip,
                b"gunzip" => Coding::Gunzip,
                b"testgunzip" => Coding::Test,
                b"esi" | b"esi_gzip" => {
                    filters.has_includes = true;
                    filters.packs_page = name == b"esi_gzip";
                    continue;
                }
                unknown => return Err(unknown),
            };
            filters.codings.push(coding).map_err(|()| name)?;
        }
        Ok(filters)
    }

    pub(super) fn recoding(self) -> Recoding {
        match self.codings.only() {
            Some(Coding::Gzip) => Recoding::Gzip,
            Some(Coding::Gunzip) => Recoding::Gunzip,
            Some(Coding::Test) => Recoding::Test,
            None if self.codings == Codings::default() => Recoding::None,
            None => Recoding::Several(self.codings),
        }
    }
}

impl BackendHost {
    /// The filters, as the program has named them or as they follow from what it wants.
    pub(super) fn filters(&self) -> Vec<u8> {
        if let Some(named) = &self.named_filters {
            return named.clone();
        }
        let (decisions, settings) = (&self.decisions, &self.common.loaded.settings);
        default_filters(decisions, settings.gzip, &self.response.headers).as_bytes().to_vec()
    }
}

fn default_filters(decisions: &Decisions, is_on: bool, headers: &http::Headers) -> &'static str {
    let (is_gzip, is_plain) = (fields::is_gzip(headers), !headers.contains(b"content-encoding"));
    let gunzips = decisions.gunzips && is_on && is_gzip;
    let gzips = decisions.gzips && is_on && is_plain;
    match (decisions.has_includes, gunzips, gzips) {
        (true, true, _) => " gunzip esi",
        (true, false, _) if is_gzip => " gunzip esi_gzip",
        (true, _, true) => " esi_gzip",
        (true, ..) => " esi",
        (false, true, _) => " gunzip",
        (false, _, true) => " gzip",
        _ if is_gzip => " testgunzip",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |names: &'static str| Filters::of(names.as_bytes());
        assert_eq!(of("").unwrap().recoding(), Recoding::None);
        assert_eq!(of(" testgunzip").unwrap().recoding(), Recoding::Test);
        assert!(matches!(of("gzip gunzip gzip").unwrap().recoding(), Recoding::Several(_)));
        assert!(of("gunzip esi_gzip").unwrap().packs_page);
        assert_eq!(of("gzip foo"), Err(&b"foo"[..]));
        assert!(Filters::of("gzip ".repeat(17).as_bytes()).is_err(), "too many");
    }
}
