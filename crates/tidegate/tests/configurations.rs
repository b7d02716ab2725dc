//! The quick ones of `scenarios/configurations` and the actions of `scenarios/actions`, each with Tidegate and with Debian's
//! haproxy; `make configurations` plays all configurations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{path::Path, process::Command};

fn judge(folder: &str, arguments: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder).join("run");
    let mut command = Command::new("python3");
    command.arg(script).args(arguments).args(["--tidegate", env!("CARGO_BIN_EXE_tidegate")]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn real_configurations_behave_as_with_haproxy() {
    judge("configurations", &["--quick"]);
}

#[test]
fn actions_do_what_they_do_in_haproxy() {
    judge("actions", &[]);
}
