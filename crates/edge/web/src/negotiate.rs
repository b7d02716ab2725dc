//! Which coding of a file a client gets (RFC 9110 section 12.5.3), and which form of a listing (section 12.5.1).

use http::{Coding, HeaderId, Headers, elements, quality};

/// Most codings that a file may have beside itself.
pub const CODINGS_MAX: usize = 4;

/// Codings that a file may have beside itself, the best first, as `precompressed br zstd gzip` says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    codings: [Option<Coding>; CODINGS_MAX],
}

impl Offer {
    /// These, in this order; those that are there already or have no file are left out.
    #[must_use]
    pub fn of(codings: &[Coding]) -> Self {
        let mut offer = Self::default();
        for coding in codings.iter().filter(|coding| file_suffix(**coding).is_some()) {
            if offer.iter().any(|known| known == *coding) {
                continue;
            }
            if let Some(place) = offer.codings.iter_mut().find(|place| place.is_none()) {
                *place = Some(*coding);
            }
        }
        offer
    }

    /// Its codings in order.
    pub fn iter(&self) -> impl Iterator<Item = Coding> {
        self.codings.into_iter().flatten()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codings.iter().all(Option::is_none)
    }
}

/// What a file in this coding is called: `.gz` behind the name of the file itself. None for codings that have no files.
#[must_use]
pub fn file_suffix(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Gzip => Some(".gz"),
        Coding::Brotli => Some(".br"),
        Coding::Zstd => Some(".zst"),
        Coding::Identity | Coding::Deflate | Coding::RawDeflate => None,
    }
}

/// What a client accepts of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Codings to look for, the best first.
    pub codings: Offer,
    /// Whether the file itself is acceptable. If it is not and there is none of the codings, the file itself goes out all the same
    /// (RFC 9110 section 12.5.3 leaves that to the server, and no client is helped by 406).
    pub identity: bool,
}

/// What the client accepts of an offer. The greater weight wins; among equal ones the order of the offer counts. Codings that weigh less
/// than `identity` are left out, if that is named.
#[must_use]
pub fn negotiate(request: &Headers, offer: &Offer) -> Negotiated {
    let mut weights = Weights::default();
    for element in request.all_known(HeaderId::AcceptEncoding).flat_map(elements) {
        weights.read(element);
    }
    let identity = weights.identity.or(weights.any.filter(|any| *any == 0)).unwrap_or(1);
    let weight =
        |coding: Coding| weights.of(coding).filter(|weight| *weight > 0 && *weight >= weights.identity.unwrap_or(0));
    let mut accepted: [Option<(u32, Coding)>; CODINGS_MAX] = [None; CODINGS_MAX];
    for (place, coding) in accepted.iter_mut().zip(offer.iter()) {
        *place = weight(coding).map(|weight| (weight, coding));
    }
    // NOTE: a stable sort, so that the offer's order stays among equals; what is not accepted comes last.
    accepted.sort_by_key(|entry| std::cmp::Reverse(entry.map_or(0, |(weight, _)| weight)));
    Negotiated {
        codings: Offer { codings: accepted.map(|entry| entry.map(|(_, coding)| coding)) },
        identity: identity > 0,
    }
}

/// Weights in thousandths, where a client names a coding.
#[derive(Default)]
struct Weights {
    gzip: Option<u32>,
    brotli: Option<u32>,
    zstd: Option<u32>,
    identity: Option<u32>,
    any: Option<u32>,
}

impl Weights {
    fn read(&mut self, element: &[u8]) {
        let end = element.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(element.len());
        let (token, parameters) = element.split_at_checked(end).unwrap_or((element, b""));
        let named = |name: &str| token.eq_ignore_ascii_case(name.as_bytes());
        let place = match () {
            // RFC 9110 section 8.4.1.3: x-gzip is gzip.
            () if named("gzip") || named("x-gzip") => &mut self.gzip,
            () if named("br") => &mut self.brotli,
            () if named("zstd") => &mut self.zstd,
            () if named("identity") => &mut self.identity,
            () if named("*") => &mut self.any,
            () => return,
        };
        // Of several mentions the first one counts.
        place.get_or_insert(quality(parameters));
    }

    fn of(&self, coding: Coding) -> Option<u32> {
        let named = match coding {
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
            Coding::Identity | Coding::Deflate | Coding::RawDeflate => return None,
        };
        named.or(self.any)
    }
}

/// How much a client likes a media type, in thousandths, by its `Accept`; 1000 where it says nothing. `essence` is `type/subtype`.
#[must_use]
pub fn media_weight(request: &Headers, essence: &str) -> u32 {
    let mut best: Option<(u8, u32)> = None;
    let mut says_anything = false;
    let kind = essence.split('/').next().unwrap_or_default();
    for element in request.all_known(HeaderId::Accept).flat_map(elements) {
        says_anything = true;
        let end = element.iter().position(|byte| *byte == b';').unwrap_or(element.len());
        let (range, parameters) = element.split_at_checked(end).unwrap_or((element, b""));
        let range = range.trim_ascii();
        let exactness = match range.split_last_chunk::<2>() {
            _ if range.eq_ignore_ascii_case(essence.as_bytes()) => 3,
            Some((b"*", b"/*")) => 1,
            Some((of, b"/*")) if of.eq_ignore_ascii_case(kind.as_bytes()) => 2,
            _ => continue,
        };
        if best.is_none_or(|(known, _)| exactness > known) {
            best = Some((exactness, quality(parameters)));
        }
    }
    best.map_or(if says_anything { 0 } else { 1_000 }, |(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: &str, identity: bool) {
        let mut headers = Headers::new();
        if accept != "-" {
            headers.add(b"Accept-Encoding", accept.as_bytes());
        }
        let offer = Offer::of(&[Coding::Brotli, Coding::Zstd, Coding::Gzip]);
        let found = negotiate(&headers, &offer);
        let names: Vec<_> = found.codings.iter().map(Coding::token).collect();
        assert_eq!((names.join(" ").as_str(), found.identity), (expected, identity), "{accept}");
    }

    #[test]
    fn codings() {
        check("-", "", true);
        check("", "", true);
        check("gzip, deflate, br, zstd", "br zstd gzip", true);
        check("gzip", "gzip", true);
        check("x-gzip", "gzip", true);
        check("GZIP;q=0.5", "gzip", true);
        check("gzip;q=1.0, br;q=0.9", "gzip br", true);
        check("gzip;q=0, br", "br", true);
        check("*", "br zstd gzip", true);
        check("*;q=0.1, gzip;q=0", "br zstd", true);
        check("identity", "", true);
        check("identity;q=0", "", false);
        check("identity;q=0, gzip", "gzip", false);
        check("*;q=0", "", false);
        check("*;q=0, identity", "", true);
        check("identity;q=0.5, gzip;q=0.2, br;q=0.8", "br", true);
        check("deflate", "", true);
        check("gzip, gzip;q=0", "gzip", true);
        check("br ; q=0.2 , zstd\t;\tq=0.3", "zstd br", true);
    }

    #[test]
    fn an_offer_has_each_coding_once() {
        let offer = Offer::of(&[Coding::Gzip, Coding::Deflate, Coding::Gzip, Coding::Identity, Coding::Zstd]);
        assert_eq!(offer.iter().collect::<Vec<_>>(), [Coding::Gzip, Coding::Zstd]);
        assert!(Offer::of(&[Coding::Deflate]).is_empty() && !offer.is_empty());
    }

    #[test]
    fn media_types() {
        let check = |accept: Option<&str>, essence: &str, expected: u32| {
            let mut headers = Headers::new();
            if let Some(accept) = accept {
                headers.add(b"Accept", accept.as_bytes());
            }
            assert_eq!(media_weight(&headers, essence), expected, "{accept:?} {essence}");
        };
        check(None, "text/html", 1_000);
        check(Some("*/*"), "text/html", 1_000);
        check(Some("text/*;q=0.3, */*;q=0.1"), "text/html", 300);
        check(Some("*/*;q=0.1, TEXT/HTML ;q=0.7, text/*;q=0.3"), "text/html", 700);
        check(Some("application/json"), "text/html", 0);
        check(Some("application/json"), "application/json", 1_000);
        check(Some("text/htmlx, /*, *"), "text/html", 0);
    }
}
