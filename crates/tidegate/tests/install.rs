//! What `make install` puts in place, as far as it can be looked at without a Debian of its own (`make test-install` has one).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

const MARK: &str = "# this is the administrator's own\n";

/// The folder of the whole project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Everything, installed once for all tests: `usr` is the prefix, `etc` has configurations, one of which was there before.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("etc/tidegate/store")).unwrap();
            fs::write(folder.path().join("etc/tidegate/store/redis.conf"), MARK).unwrap();
            install(folder.path(), "program");
            folder
        })
        .path()
}

fn install(folder: &Path, what: &str) {
    let output = Command::new(project().join("dist/install"))
        .arg(what)
        .env("BINARY", env!("CARGO_BIN_EXE_tidegate"))
        .env("PREFIX", folder.join("usr"))
        .env("SYSCONFDIR", folder.join("etc"))
        .env_remove("DESTDIR")
        .env_remove("ZSHDIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    if what == "program" {
        assert!(text(&output.stdout).contains("redis.conf is there, and stays as it is"), "{}", text(&output.stdout));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program that a machine may lack.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{program} is not there, and was left out");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_program_is_stripped_and_finds_its_debugging_information() {
    let program = installed().join("usr/bin/tidegate");
    let version = Command::new(&program).arg("--version").output().unwrap();
    assert!(text(&version.stdout).starts_with("tidegate "), "{version:?}");
    let sections = text(&run("readelf", &["-SW", program.to_str().unwrap()]).expect("dist/install needs it").stdout);
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_line"), "{sections}");
    assert!(sections.contains(".gnu_debuglink"), "{sections}");
    let notes = text(&run("readelf", &["-n", program.to_str().unwrap()]).unwrap().stdout);
    let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();

    let other = tempfile::tempdir().unwrap();
    install_debug(other.path());
    let (folder, name) = build_id.split_at(2);
    let debug = other.path().join(format!("usr/lib/debug/.build-id/{folder}/{name}.debug"));
    let sections = text(&run("readelf", &["-SW", debug.to_str().unwrap()]).unwrap().stdout);
    assert!(sections.contains(".debug_line"), "{sections}");
    let link = text(&run("readelf", &["-p", ".gnu_debuglink", program.to_str().unwrap()]).unwrap().stdout);
    assert!(link.contains(&format!("{name}.debug")), "{link}");
}

fn install_debug(folder: &Path) {
    install(folder, "debug");
    assert!(!folder.join("usr/bin").exists(), "the debugging information comes alone");
}

#[test]
fn a_configuration_that_is_there_stays() {
    assert_eq!(fs::read_to_string(installed().join("etc/tidegate/store/redis.conf")).unwrap(), MARK);
}

#[test]
fn manual_pages_render_without_a_warning() {
    let pages = files(&installed().join("usr/share/man/man1"));
    assert!(pages.iter().any(|page| page.ends_with("tidegate-edge.1")), "{pages:?}");
    for page in pages {
        let page = page.to_str().unwrap();
        if let Some(output) = run("groff", &["-man", "-ww", "-z", "-Tutf8", "-t", page]) {
            assert_eq!((output.status.success(), text(&output.stderr)), (true, String::new()), "{page}");
        }
    }
}

#[test]
fn shells_take_the_completions() {
    let share = installed().join("usr/share");
    let script = |name: &str| share.join(name).to_str().unwrap().to_owned();
    let bash = script("bash-completion/completions/tidegate");
    for (shell, file) in [
        ("bash", &bash),
        ("zsh", &script("zsh/site-functions/_tidegate")),
        ("fish", &script("fish/vendor_completions.d/tidegate.fish")),
    ] {
        assert!(Path::new(file).exists(), "{file}");
        if let Some(output) = run(shell, &["-n", file]) {
            assert_eq!((output.status.success(), text(&output.stderr)), (true, String::new()), "{shell}");
        }
    }
    for (typed, expected) in [("edge -s", "-sf -st"), ("store --maxmemory-p", "--maxmemory-policy"), ("rel", "reload")]
    {
        let words: Vec<_> = std::iter::once("tidegate").chain(typed.split(' ')).collect();
        let line = format!(
            "source {bash}; COMP_WORDS=({}); COMP_CWORD={}; _tidegate tidegate {} {}; echo ${{COMPREPLY[@]}}",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        if let Some(output) = run("bash", &["-c", &line]) {
            assert_eq!((text(&output.stdout).trim(), text(&output.stderr).as_str()), (expected, ""), "{typed}");
        }
    }
    let fish = format!("source {}; complete -C 'tidegate edge -s'", script("fish/vendor_completions.d/tidegate.fish"));
    if let Some(output) = run("fish", &["-c", &fish]) {
        assert!(text(&output.stdout).lines().any(|line| line.starts_with("-sf")), "{}", text(&output.stdout));
    }
}

/// The values of a key in a unit.
fn values(unit: &str, key: &str) -> Vec<String> {
    let found = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    found.map(str::to_owned).collect()
}

#[test]
fn units_name_what_is_there() {
    let folder = installed();
    let users = fs::read_to_string(folder.join("usr/lib/sysusers.d/tidegate.conf")).unwrap();
    let is_user = |name: &str| users.lines().any(|line| line.starts_with(&format!("u {name} ")));
    let mut units = Vec::new();
    for unit in files(&folder.join("usr/lib/systemd/system")) {
        let content = fs::read_to_string(&unit).unwrap();
        let commands = [values(&content, "ExecStart"), values(&content, "ExecReload")].concat();
        assert!(!commands.is_empty());
        for command in commands {
            let program = command.split(' ').next().unwrap();
            assert!(Path::new(program).exists(), "{}: {program}", unit.display());
        }
        for environment in values(&content, "Environment") {
            let Some(path) = environment.trim_matches('"').strip_prefix("CONFIG=").map(str::to_owned) else { continue };
            assert!(Path::new(&path).starts_with(folder) && Path::new(&path).exists(), "{}: {path}", unit.display());
        }
        for user in values(&content, "User") {
            assert!(is_user(&user), "{}: {user}", unit.display());
        }
        for page in values(&content, "Documentation") {
            let page = page.strip_prefix("man:").unwrap().replace("(1)", ".1");
            assert!(folder.join("usr/share/man/man1").join(&page).exists(), "{}: {page}", unit.display());
        }
        units.push(unit.to_str().unwrap().to_owned());
    }
    assert_eq!(units.len(), 4);
    verify(&units);
    let edge = fs::read_to_string(folder.join("etc/tidegate/edge/haproxy.cfg")).unwrap();
    let user = edge.lines().find_map(|line| line.trim().strip_prefix("user ")).unwrap();
    assert!(is_user(user), "{user}");
}

/// Has systemd read units, where it is there.
fn verify(units: &[String]) {
    let mut arguments = vec!["verify", "--man=no"];
    arguments.extend(units.iter().map(String::as_str));
    if let Some(output) = run("systemd-analyze", &arguments) {
        assert_eq!((output.status.success(), text(&output.stderr)), (true, String::new()), "{units:?}");
    }
}

#[test]
fn examples_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let program = project().join("dist/varnish/default.vcl");
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["varnishd", "-C", "-f"]).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for path in ["dist/edge/haproxy.cfg", "dist/container/haproxy.cfg"] {
        // The users are made by the package.
        let configuration = fs::read_to_string(project().join(path)).unwrap().replace("tidegate-edge", "root");
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, configuration).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["edge", "-c", "-f"]).arg(&file).output();
        let output = output.unwrap();
        assert_eq!(text(&output.stdout), "Configuration file is valid\n", "{path}: {}", text(&output.stderr));
    }
}

/// The drop-in that a page shows: the lines of the first example behind `systemctl edit NAME`.
fn drop_in(page: &str, name: &str) -> String {
    let page = fs::read_to_string(project().join("docs").join(page)).unwrap();
    let rest = page.split(&format!("systemctl edit {name}")).nth(1).expect("the page tells of it");
    let lines = rest.lines().skip_while(|line| !line.starts_with("    [")).take_while(|line| line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn drop_ins_of_the_docs_are_right() {
    for (page, name) in
        [("replace-haproxy.md", "haproxy"), ("move-from-redis.md", "redis-server"), ("replace-varnish.md", "varnish")]
    {
        let lines = drop_in(page, name);
        assert!(lines.starts_with("[Service]\nExecStart=\nExecStart=/usr/bin/tidegate "), "{page}: {lines:?}");
        let unit = PathBuf::from(format!("/lib/systemd/system/{name}.service"));
        if !unit.exists() {
            eprintln!("{} is not there, and was left out", unit.display());
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join(format!("{name}.service"));
        fs::copy(&unit, &copy).unwrap();
        let beside = folder.path().join(format!("{name}.service.d"));
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("override.conf"), lines.replace("/usr/bin/tidegate", env!("CARGO_BIN_EXE_tidegate")))
            .unwrap();
        verify(&[copy.to_str().unwrap().to_owned()]);
    }
}

/// The relative links of a page that lead nowhere: to no file, or to no heading of it.
fn dead_links(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    // What stands in examples is no link.
    let prose: String = text.split("```").step_by(2).collect();
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let is_dead = |link: &&str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().join(path) };
        let is_page = target.extension().is_some_and(|extension| extension == "md");
        !target.exists() || is_page && !heading.is_empty() && !headings(&target).iter().any(|known| known == heading)
    };
    links
        .filter(|link| !link.contains("://"))
        .filter(is_dead)
        .map(|link| format!("{}: {link}", page.display()))
        .collect()
}

/// The headings of a page as links name them.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept: String = kept.chars().filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-' | '_')).collect();
        kept.replace(' ', "-")
    };
    lines.map(name).collect()
}

/// All pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = files(folder).into_iter().partition(|path| path.is_dir());
    let own = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    own.chain(folders.iter().flat_map(|folder| pages(folder))).collect()
}

#[test]
fn links_of_the_book_lead_somewhere() {
    let project = project();
    let mut all = pages(&project.join("docs"));
    all.extend(
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md"]
            .map(|page| project.join(page)),
    );
    let book = installed().join("usr/share/doc/tidegate");
    let installed = pages(&book);
    assert!(installed.len() > 60, "{}", installed.len());
    all.extend(installed);
    let dead: Vec<String> = all.iter().flat_map(|page| dead_links(page)).collect();
    assert_eq!(dead, Vec::<String>::new());
}

#[test]
fn a_whole_path_is_asked_for() {
    let output = Command::new(project().join("dist/install"))
        .env("BINARY", env!("CARGO_BIN_EXE_tidegate"))
        .env("PREFIX", "usr")
        .output()
        .unwrap();
    assert_eq!(
        text(&output.stderr),
        "dist/install: 'usr' is no whole path: PREFIX, SYSCONFDIR and ZSHDIR begin with /\n"
    );
    let output = Command::new(project().join("dist/install")).env("BINARY", "/nonexistent").output().unwrap();
    assert!(text(&output.stderr).contains("/nonexistent is not there: build it first (make build)"));
    assert!(!output.status.success());
}
