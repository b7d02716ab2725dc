//! `tidegate serve`, and what is said of a configuration.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::{
    DEFAULTS, Files, curl, get,
    support::{self, Folder, Wire, free_address, wait_until},
};

#[test]
fn what_is_wrong_is_said_when_it_is_checked() {
    let folder = Folder::new();
    let check = |lines: &str| {
        let config = folder.file("t.cfg", format!("{DEFAULTS}listen l\n bind {}\n{lines}\n", free_address()));
        let output =
            Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["edge", "-c", "-f"]).arg(config).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let top = folder.0.display();
    for (lines, expected) in [
        (
            " root /no/such/folder".to_owned(),
            "cannot open the folder '/no/such/folder': No such file or directory; make it",
        ),
        (" root".to_owned(), "'root' expects a folder."),
        (format!(" root {top} maybe"), "unexpected argument 'maybe'"),
        (format!(" root {top}\n try-files $uri"), "try-files wants"),
        (format!(" root {top}\n try-files $path =404"), "'$path' does not begin with"),
        (format!(" root {top}\n index a/b"), "is no name of a file"),
        (format!(" root {top}\n autoindex yes"), "expects 'on' or 'off'"),
        (format!(" root {top}\n symlinks no"), "expects 'within', 'deny' or 'follow'"),
        (format!(" mode tcp\n root {top}"), "'root' needs 'mode http'"),
        (" autoindex on".to_owned(), "'autoindex' has no effect"),
        (
            format!(" root {top}\n use-fcgi-app php\n server s1 127.0.0.1:1 proto fcgi\nfcgi-app php\n docroot {top}"),
            "scripts in its folder are sent to clients as they stand",
        ),
        (format!(" rooot {top}"), "did you mean 'root'"),
    ] {
        let said = check(&lines);
        assert!(said.contains(expected), "{lines}: {said}");
    }
}

/// `tidegate serve`, which ends with its value.
struct Serve {
    child: std::process::Child,
    _run: Folder,
}

impl Serve {
    fn start(front: SocketAddr, folder: &Path, options: &[&str]) -> Self {
        let run = Folder::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve").arg(folder).args(["--listen", &front.to_string(), "-q"]).args(options);
        let child = command.env("TIDEGATE_RUN_DIR", &run.0).spawn().unwrap();
        wait_until("it listens", || support::listens(front));
        Self { child, _run: run }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        support::signal_process(self.child.id(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn one_command_serves_a_folder() {
    let files = Files::new();
    let top = files.path("top");
    files.write("users", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    let front = free_address();
    {
        let _serve = Serve::start(front, &top, &["--cors"]);
        let second = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", &front.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success() && said.contains(&format!("somebody listens at {front} already")), "{said}");
        let page = get(front, "/");
        assert_eq!((page.status(), page.field("cache-control")), (200, Some("no-cache")));
        assert_eq!(page.field("access-control-allow-origin"), Some("*"));
        assert!(get(front, "/bare/").text().contains("b.txt"));
        let preflight = Wire::connect(front).ask(
            "OPTIONS /style.css HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nAccess-Control-Request-Method: GET\r\n\r\n",
        );
        assert_eq!((preflight.status(), preflight.field("access-control-allow-origin")), (204, Some("*")));
    }
    let front = free_address();
    let users = files.path("users").display().to_string();
    let _serve = Serve::start(front, &top, &["--spa", "--no-listing", "--auth", &users, "--cache", "1h"]);
    assert_eq!(get(front, "/").status(), 401);
    let url = |path: &str| format!("http://{front}{path}");
    assert_eq!(curl(&["-u", "ann:password", &url("/some/route")]), "<h1>top</h1>\n");
    assert!(curl(&["-i", "-u", "ann:password", &url("/style.css")]).contains("cache-control: max-age=3600"));
    assert!(curl(&["-i", "-u", "ann:wrong", &url("/style.css")]).starts_with("HTTP/1.1 401"));
}
