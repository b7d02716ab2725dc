//! The files of the page, embedded into the program.

use webpage::Asset;
pub use webpage::{ICON, POLICY, fingerprint};

/// Every file.
pub const ASSETS: &[Asset] = &[
    webpage::LOOK_STYLE,
    Asset::style("page.css", include_str!("../../../assets/stats/page.css")),
    Asset::style("noscript.css", include_str!("../../../assets/stats/noscript.css")),
    webpage::LOOK_SCRIPT,
    Asset::script("page.js", PAGE_SCRIPT),
];

/// The page's script: its files behind each other.
const PAGE_SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("../../../assets/stats/setup.js"),
    include_str!("../../../assets/stats/filter.js"),
    include_str!("../../../assets/stats/model.js"),
    include_str!("../../../assets/stats/answers.js"),
    include_str!("../../../assets/stats/tiles.js"),
    include_str!("../../../assets/stats/servers.js"),
    include_str!("../../../assets/stats/cache.js"),
    include_str!("../../../assets/stats/card.js"),
    include_str!("../../../assets/stats/board.js"),
    include_str!("../../../assets/stats/flow.js"),
    include_str!("../../../assets/stats/changes.js"),
    include_str!("../../../assets/stats/manage.js"),
    include_str!("../../../assets/stats/table.js"),
    include_str!("../../../assets/stats/poll.js"),
    include_str!("../../../assets/stats/page.js"),
    include_str!("../../../assets/stats/keys.js"),
    include_str!("../../../assets/stats/start.js"),
);

/// The file of a name.
#[must_use]
pub fn find(name: &str) -> Option<Asset> {
    ASSETS.iter().copied().find(|asset| asset.name == name)
}

/// Changes when any file does.
#[must_use]
pub fn version() -> String {
    fingerprint(ASSETS.iter().flat_map(|asset| asset.body.bytes()))
}
