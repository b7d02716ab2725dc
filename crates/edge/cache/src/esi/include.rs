//! What an `<esi:include>` names.

/// Another object that is delivered within a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// Where it is.
    pub target: Target,
    /// Where it is instead if that fails. Varnish does not look at it.
    pub alt: Option<Target>,
    /// What includes it goes on if it fails (`onerror="continue"`).
    pub continues_on_error: bool,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host, if it is not the one of the page.
    pub host: Option<Box<[u8]>>,
    /// The URL, which begins with `/` unless the page's did not.
    pub url: Box<[u8]>,
}

/// Why a text names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTarget {
    /// A host and no path.
    Url,
    /// The same behind `https://` that is taken for `http://`.
    HttpsUrl,
    /// HTTPS, where that is not ignored.
    Https,
}

/// How a target was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    None,
}

impl Include {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.target.memory_bytes() + self.alt.as_ref().map_or(0, Target::memory_bytes)
    }
}

impl Target {
    fn memory_bytes(&self) -> usize {
        self.url.len() + self.host.as_ref().map_or(0, |host| host.len())
    }

    /// The object that `source` names in a page with this URL.
    pub(super) fn of(source: &[u8], page: &[u8], ignore_https: bool) -> Result<(Self, Scheme), NoTarget> {
        // NOTE: `http://` alone is a relative URL, as Varnish takes it.
        let after = |scheme: &[u8]| source.strip_prefix(scheme).filter(|rest| !rest.is_empty());
        if let Some(rest) = after(b"http://") {
            return Ok((Self::on_host(rest)?, Scheme::Http));
        }
        if let Some(rest) = after(b"https://") {
            if !ignore_https {
                return Err(NoTarget::Https);
            }
            return Ok((Self::on_host(rest).map_err(|_| NoTarget::HttpsUrl)?, Scheme::Https));
        }
        let mut url = Vec::with_capacity(source.len());
        if source.first() != Some(&b'/') {
            let path = page.split(|byte| *byte == b'?').next().unwrap_or_default();
            // NOTE: a URL without any is a folder, as Varnish takes it.
            let folder = path.iter().rposition(|byte| *byte == b'/').unwrap_or(path.len());
            url.extend_from_slice(path.get(..folder).unwrap_or_default());
            url.push(b'/');
        }
        push_unescaped(&mut url, source);
        Ok((Self { host: None, url: url.into() }, Scheme::None))
    }

    fn on_host(rest: &[u8]) -> Result<Self, NoTarget> {
        let slash = rest.iter().position(|byte| *byte == b'/').ok_or(NoTarget::Url)?;
        let (host, path) = rest.split_at_checked(slash).ok_or(NoTarget::Url)?;
        let mut url = Vec::with_capacity(path.len());
        push_unescaped(&mut url, path);
        Ok(Self { host: Some(host.into()), url: url.into() })
    }
}

/// The five entities that XML 1.0 has by itself.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&apos;", b'\''), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];

fn push_unescaped(to: &mut Vec<u8>, mut text: &[u8]) {
    while let Some((first, rest)) = text.split_first() {
        let known = ENTITIES.iter().find_map(|(name, byte)| Some((text.strip_prefix(*name)?, *byte)));
        let (after, byte) = known.unwrap_or((rest, *first));
        to.push(byte);
        text = after;
    }
}
