//! The files of the page, embedded into the program.

use webpage::Asset;

/// Every file.
pub const ASSETS: &[Asset] = &[
    webpage::LOOK_STYLE,
    Asset::style("store.css", include_str!("../../assets/store.css")),
    webpage::LOOK_SCRIPT,
    Asset::script(
        "store.js",
        concat!(
            "\"use strict\";\n",
            include_str!("../../assets/tiles.js"),
            include_str!("../../assets/panels.js"),
            include_str!("../../assets/store.js"),
        ),
    ),
];

/// The page's markup; `VERSION` stands for what changes when a file does.
const MARKUP: &str = include_str!("../../assets/store.html");

/// The file of a name.
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The page without its figures.
pub fn markup() -> String {
    let version = webpage::fingerprint(ASSETS.iter().flat_map(|asset| asset.body.bytes()));
    MARKUP.replace("VERSION", &version).replace("ICON", webpage::ICON)
}
