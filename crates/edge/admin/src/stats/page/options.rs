//! What a request for the statistics page asks for, in HAProxy's manner of writing options into the URI.

use super::post::Outcome;
use crate::stats::history::Window;

/// Bytes of a search text that are looked at.
const SCOPE_LEN_MAX: usize = 20;

/// Proxies of which a page may show everything at a time.
const OPEN_MAX: usize = 64;

/// In which form the statistics are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The page.
    #[default]
    Html,
    /// Ours: only the tables of the page, to refresh them in place.
    Rows,
    /// `;csv`.
    Csv,
    /// `;typed`.
    Typed,
    /// `;json`.
    Json,
    /// `;json-schema`.
    JsonSchema,
    /// Ours, `;json;live`: what the page draws.
    Live,
}

/// The options of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageOptions {
    /// The form.
    pub form: Form,
    /// `;up`: servers that are down are left out.
    pub hide_down: bool,
    /// `;no-maint`: servers in maintenance are left out.
    pub hide_maintenance: bool,
    /// `;norefresh`: the page is not to come again by itself.
    pub no_refresh: bool,
    /// `;st=`: how the last action went.
    pub outcome: Option<Outcome>,
    /// `scope=`: only proxies whose name contains this, whatever its case.
    pub scope: Option<String>,
    /// Ours, `;since=`: the live form tells only of seconds after this one.
    pub since: u64,
    /// Ours, `;window=`: how far back the live form's points go.
    pub window: Window,
    /// Ours, `;open=3,17`: numbers of proxies of which the live form tells everything, or whose tables alone are wanted.
    pub open: Vec<u32>,
    /// Ours, `;tables`: the page has all tables in it, for browsers without scripts.
    pub tables: bool,
    /// Ours, `;shape=`: what the page knows already of names and addresses.
    pub shape: Option<String>,
    /// Ours, `;changes=`: the live form tells only of changes after the one of this number.
    pub changes: u64,
    /// Ours, `;asset=`: a file of the page.
    pub asset: Option<String>,
}

impl PageOptions {
    /// Reads what follows the configured URI. As in HAProxy an option counts wherever it stands.
    #[must_use]
    pub fn parse(rest: &str) -> Self {
        let has = |option: &str| rest.contains(option);
        let value = |option: &str| {
            let (_, value) = rest.split_once(option)?;
            value.split([';', '&', '?', ' ']).next()
        };
        let form = if has(";json-schema") {
            Form::JsonSchema
        } else if has(";json") && has(";live") {
            Form::Live
        } else if has(";json") {
            Form::Json
        } else if has(";typed") {
            Form::Typed
        } else if has(";csv") {
            Form::Csv
        } else if has(";rows") {
            Form::Rows
        } else {
            Form::Html
        };
        Self {
            form,
            hide_down: has(";up"),
            hide_maintenance: has(";no-maint"),
            no_refresh: has(";norefresh"),
            outcome: value(";st=").map(|code| Outcome::coded(code.get(..4).unwrap_or(code))),
            scope: value("scope=").and_then(scope),
            since: value(";since=").and_then(|second| second.parse().ok()).unwrap_or(0),
            window: value(";window=").and_then(|seconds| seconds.parse().ok()).map(Window::of).unwrap_or_default(),
            open: value(";open=").map(numbers).unwrap_or_default(),
            tables: has(";tables"),
            shape: value(";shape=").map(str::to_owned),
            changes: value(";changes=").and_then(|number| number.parse().ok()).unwrap_or(0),
            asset: value(";asset=").map(str::to_owned),
        }
    }

    /// The options that a link on the page or a redirection carries on, behind the configured URI.
    #[must_use]
    pub fn carried(&self) -> String {
        let mut out = String::new();
        for (set, option) in
            [(self.hide_down, ";up"), (self.hide_maintenance, ";no-maint"), (self.no_refresh, ";norefresh")]
        {
            out.push_str(if set { option } else { "" });
        }
        if let Some(scope) = &self.scope {
            out.push_str("?scope=");
            out.push_str(scope);
        }
        out
    }

    /// Whether the page asks for its own sake: for itself, its files or the numbers that it draws.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.asset.is_some() || matches!(self.form, Form::Html | Form::Rows | Form::Live)
    }

    /// Whether a proxy is searched for.
    #[must_use]
    pub fn in_scope(&self, proxy: &str) -> bool {
        let folded = proxy.to_ascii_lowercase();
        self.scope.as_ref().is_none_or(|scope| folded.contains(&scope.to_ascii_lowercase()))
    }
}

fn numbers(text: &str) -> Vec<u32> {
    text.split(',').filter_map(|number| number.parse().ok()).take(OPEN_MAX).collect()
}

/// A search text, if it is made of what names are made of: it comes back in links and headers.
fn scope(text: &str) -> Option<String> {
    let text = text.get(..SCOPE_LEN_MAX).unwrap_or(text);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    (!text.is_empty() && text.bytes().all(plain)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (rest, form) in [
            ("", Form::Html),
            (";csv", Form::Csv),
            (";csv;norefresh", Form::Csv),
            (";typed", Form::Typed),
            (";json", Form::Json),
            (";json-schema", Form::JsonSchema),
            (";json;live;since=12", Form::Live),
            (";rows", Form::Rows),
            ("?x=;csv", Form::Csv),
        ] {
            assert_eq!(PageOptions::parse(rest).form, form, "{rest}");
        }
    }

    #[test]
    fn options() {
        let options = PageOptions::parse(";up;no-maint;norefresh;st=DONE;since=77?scope=Ap.p&x=1");
        assert!(options.hide_down && options.hide_maintenance && options.no_refresh);
        assert_eq!(options.outcome, Some(Outcome::Done));
        assert_eq!((options.since, options.scope.as_deref()), (77, Some("Ap.p")));
        assert_eq!(options.carried(), ";up;no-maint;norefresh?scope=Ap.p");
        assert!(options.in_scope("my-AP.P-1") && !options.in_scope("web"));
        let live = PageOptions::parse(";json;live;since=5;window=600;open=3,x,17;shape=ab12;changes=9");
        assert_eq!((live.window, live.open, live.changes), (Window::TenMinutes, vec![3, 17], 9));
        assert_eq!((live.form, live.shape.as_deref()), (Form::Live, Some("ab12")));
        assert_eq!(PageOptions::parse(&format!(";open={}", "1,".repeat(500))).open.len(), OPEN_MAX);
        assert_eq!(PageOptions::parse(";st=XXXX").outcome, Some(Outcome::Unknown));
    }

    #[test]
    fn what_the_page_asks_for_itself() {
        for (rest, own) in [
            ("", true),
            (";up;norefresh", true),
            (";json;live;since=3", true),
            (";rows", true),
            (";asset=page.js", true),
            (";csv", false),
            (";json", false),
            (";typed", false),
        ] {
            assert_eq!(PageOptions::parse(rest).is_own(), own, "{rest}");
        }
    }

    #[test]
    fn hostile_scopes_are_no_scopes() {
        for scope in ["<script>", "a%0d%0ab", "a\"b", "", "é"] {
            assert_eq!(PageOptions::parse(&format!("?scope={scope}")).scope, None, "{scope}");
        }
        assert_eq!(PageOptions::parse("?scope=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").scope.unwrap().len(), SCOPE_LEN_MAX);
    }
}
