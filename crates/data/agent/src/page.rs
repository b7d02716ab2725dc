//! The cluster's page: its files, embedded into the program.

use std::borrow::Cow;

use webpage::Asset;

/// What is so now, and not a moment later.
pub const NOT_KEPT: &str = "no-store";
/// A file whose name in the page changes when it does.
const KEPT: &str = "public, max-age=31536000, immutable";

/// A file as it is served.
#[derive(Clone, Debug)]
pub struct File {
    /// What it is.
    pub content_type: &'static str,
    /// How long it may be kept.
    pub cache: &'static str,
    /// What is in it.
    pub body: Cow<'static, [u8]>,
}

const ASSETS: &[Asset] = &[
    webpage::LOOK_STYLE,
    Asset::style("cluster.css", include_str!("../assets/cluster.css")),
    webpage::LOOK_SCRIPT,
    Asset::script(
        "cluster.js",
        concat!(
            "\"use strict\";\n",
            include_str!("../assets/client.js"),
            include_str!("../assets/slots.js"),
            include_str!("../assets/topology.js"),
            include_str!("../assets/actions.js"),
            include_str!("../assets/waiting.js"),
            include_str!("../assets/cluster.js"),
        ),
    ),
];

/// The page's markup; `VERSION` stands for what changes when a file does.
const MARKUP: &str = include_str!("../assets/cluster.html");

/// The file at a path.
#[must_use]
pub fn find(path: &str) -> Option<File> {
    if path == "/" || path == "/admin" {
        let version = webpage::fingerprint(ASSETS.iter().flat_map(|asset| asset.body.bytes()));
        let markup = MARKUP.replace("VERSION", &version).replace("ICON", webpage::ICON);
        let body = Cow::Owned(markup.into_bytes());
        return Some(File { content_type: "text/html; charset=utf-8", cache: NOT_KEPT, body });
    }
    let name = path.strip_prefix("/asset/")?;
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    Some(File { content_type: asset.content_type, cache: KEPT, body: Cow::Borrowed(asset.body.as_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_files_that_there_are() {
        let page = String::from_utf8(find("/").unwrap().body.into_owned()).unwrap();
        let names = page.split('"').filter_map(|part| part.strip_prefix("/asset/"));
        let names: Vec<&str> = names.map(|name| name.split('?').next().unwrap_or(name)).collect();
        assert_eq!(names.len(), ASSETS.len(), "{names:?}");
        for name in names {
            assert!(find(&format!("/asset/{name}")).is_some(), "{name}");
        }
        assert!(!page.contains("VERSION") && !page.contains("ICON"));
        assert!(find("/asset/nothing").is_none() && find("/nothing").is_none());
    }
}
