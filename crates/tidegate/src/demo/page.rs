//! What the sample sites show.

/// One request for the page.
#[derive(Debug)]
pub struct Visit<'a> {
    /// The site.
    pub name: &'a str,
    /// Where it listens.
    pub port: u16,
    /// Requests for the page so far, this one included.
    pub number: u64,
    /// Visits to both sites, as the store counts them; nothing if it does not answer.
    pub together: Option<u64>,
    /// For whom the edge asked.
    pub forwarded_for: Option<&'a str>,
}

/// The page for `curl` and its like.
pub fn plain(visit: &Visit<'_>) -> String {
    let Visit { name, port, number, .. } = visit;
    let together =
        visit.together.map_or("the store does not answer".to_owned(), |visits| format!("visit {visits} in all"));
    format!("{} on port {port} answers, request {number}, {together}, {}\n", title(name), way(visit))
}

/// The page for browsers.
pub fn html(visit: &Visit<'_>) -> String {
    let (hue, drawing) = match visit.name {
        "reef" => (192, include_str!("reef.svg")),
        _ => (34, include_str!("dune.svg")),
    };
    include_str!("site.html")
        .replace("@TITLE@", title(visit.name))
        .replace("@HUE@", &hue.to_string())
        .replace("@DRAWING@", drawing)
        .replace("@PORT@", &visit.port.to_string())
        .replace("@NUMBER@", &visit.number.to_string())
        .replace("@TOGETHER@", &visit.together.map_or("–".to_owned(), |visits| visits.to_string()))
        .replace("@WAY@", &escape(&way(visit)))
}

fn title(name: &str) -> &str {
    match name {
        "reef" => "Reef",
        "dune" => "Dune",
        other => other,
    }
}

fn way(visit: &Visit<'_>) -> String {
    match visit.forwarded_for {
        Some(client) => format!("through the edge for {client}"),
        None => "asked directly".to_owned(),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sends_stays_text() {
        let visit = Visit { name: "reef", port: 1, number: 2, together: Some(5), forwarded_for: Some("<script>&") };
        let page = html(&visit);
        assert!(page.contains("for &lt;script&gt;&amp;"), "{page}");
        assert!(!page.replace("@media", "").contains('@'), "a place was not filled in: {page}");
        assert_eq!(
            plain(&Visit { forwarded_for: None, ..visit }),
            "Reef on port 1 answers, request 2, visit 5 in all, asked directly\n"
        );
    }
}
