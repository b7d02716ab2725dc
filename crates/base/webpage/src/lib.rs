//! What the pages of edge and store share: colours, charts, words, dialogs. Knows neither proxies nor keys.
//!
//! There is no build step: scripts are small files that stand behind each other in one, as plain JavaScript.

/// A file of a page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Name in the address.
    pub name: &'static str,
    /// What it is.
    pub content_type: &'static str,
    /// What is in it.
    pub body: &'static str,
}

impl Asset {
    /// A style sheet.
    #[must_use]
    pub const fn style(name: &'static str, body: &'static str) -> Self {
        Self { name, content_type: "text/css; charset=utf-8", body }
    }

    /// A script.
    #[must_use]
    pub const fn script(name: &'static str, body: &'static str) -> Self {
        Self { name, content_type: "text/javascript; charset=utf-8", body }
    }
}

/// Colours, tiles, charts, dialogs.
pub const LOOK_STYLE: Asset = Asset::style("look.css", include_str!("../assets/look.css"));

/// What pages are made of; comes before a page's own script, which is `defer`red as well.
pub const LOOK_SCRIPT: Asset = Asset::script(
    "look.js",
    concat!(
        "\"use strict\";\n",
        include_str!("../assets/dom.js"),
        include_str!("../assets/words.js"),
        include_str!("../assets/settings.js"),
        include_str!("../assets/track.js"),
        include_str!("../assets/readout.js"),
        include_str!("../assets/chart.js"),
        include_str!("../assets/dialog.js"),
    ),
);

/// The picture that browsers show beside the title.
pub const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%230b6e75'/%3E%3Cpath d='M6 20q5-6 10 0t10 0' fill='none' stroke='%23fff' stroke-width='3' stroke-linecap='round'/%3E%3Cpath d='M10 13V7m6 6V7m6 6V7' stroke='%23bfe8e4' stroke-width='3' stroke-linecap='round'/%3E%3C/svg%3E";

/// What a page may load and do: its own files and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                          form-action 'self'; base-uri 'none'; frame-ancestors 'self'";

/// A short name of some bytes (FNV-1a): it changes when they do.
#[must_use]
pub fn fingerprint(bytes: impl Iterator<Item = u8>) -> String {
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_differ() {
        assert_eq!(fingerprint(b"a".iter().copied()), fingerprint(b"a".iter().copied()));
        assert_ne!(fingerprint(b"a".iter().copied()), fingerprint(b"b".iter().copied()));
    }
}
