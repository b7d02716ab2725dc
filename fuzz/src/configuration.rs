//! What the configuration language promises about any bytes.

use std::collections::BTreeMap;

use haproxycfg::{
    Options, Verdict,
    diagnostics::Severity,
    parse,
    source::{Bundle, Files, Recorder},
};

/// Reads any bytes as a configuration: there is an answer, refused texts have an alert, others have none, and what was
/// recorded gives the same answer again.
pub fn configuration(data: &[u8]) {
    let files = Bundle::default().with("t.cfg", data);
    let read = |files: &dyn Files| {
        let environment = BTreeMap::from([("PORT".to_owned(), "8080".to_owned())]);
        let options = Options { hostname: "host".to_owned(), ..Options::default() };
        let parsed = parse(&["t.cfg".to_owned()], files, environment, &options);
        let said: String = parsed.diagnostics.iter().map(|diagnostic| diagnostic.render(1)).collect();
        let has_alert = parsed.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Alert);
        assert_eq!(parsed.verdict() == Verdict::Invalid, has_alert, "{said}");
        said
    };
    let recorder = Recorder::new(&files);
    let first = read(&recorder);
    let bytes = recorder.into_bundle().to_bytes();
    let bundle = Bundle::from_bytes(&bytes);
    assert_eq!(bundle.as_ref().map(Bundle::to_bytes), Ok(bytes));
    assert_eq!(bundle.as_ref().map(|bundle| read(bundle)), Ok(first));
}

/// Reads any bytes as a bundle of files: what is accepted writes itself again.
pub fn bundle(data: &[u8]) {
    if let Ok(bundle) = Bundle::from_bytes(data) {
        assert_eq!(Bundle::from_bytes(&bundle.to_bytes()), Ok(bundle));
    }
}
