//! The files of the page, embedded into the program.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Name in the URI.
    pub name: &'static str,
    /// What it is.
    pub content_type: &'static str,
    /// What is in it.
    pub body: &'static str,
}

/// Every file.
pub const ASSETS: &[Asset] = &[
    Asset {
        name: "page.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../../../assets/stats/page.css"),
    },
    Asset {
        name: "noscript.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../../../assets/stats/noscript.css"),
    },
    Asset {
        name: "chart.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../../../assets/stats/chart.js"),
    },
    Asset {
        name: "page.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../../../assets/stats/page.js"),
    },
];

/// The picture that browsers show beside the title.
pub const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%230b6e75'/%3E%3Cpath d='M6 20q5-6 10 0t10 0' fill='none' stroke='%23fff' stroke-width='3' stroke-linecap='round'/%3E%3Cpath d='M10 13V7m6 6V7m6 6V7' stroke='%23bfe8e4' stroke-width='3' stroke-linecap='round'/%3E%3C/svg%3E";

/// What the page may load and do: its own files and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                          form-action 'self'; base-uri 'none'; frame-ancestors 'self'";

/// The file of a name.
#[must_use]
pub fn find(name: &str) -> Option<Asset> {
    ASSETS.iter().copied().find(|asset| asset.name == name)
}

/// Changes when any file does (FNV-1a over all of them).
#[must_use]
pub fn version() -> String {
    let bytes = ASSETS.iter().flat_map(|asset| asset.body.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}
