//! Backups in a real server of S3's protocol: moto, from PyPI.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../store/tests/support/mod.rs"]
mod support;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use s3::S3Archive;
use store::{
    archive::Archive,
    backup::{Restore, backup, names, restore},
};
use support::{Folder, free_address, start, wait_until};

/// The server's program: that of the machine, or one that is installed beside the build.
fn moto_server() -> Option<PathBuf> {
    let works = |program: &Path| {
        let run = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let installed = PathBuf::from("moto_server");
    if works(&installed) {
        return Some(installed);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto");
    let program = folder.join("bin/moto_server");
    if !works(&program) {
        let run = |program: &Path, words: &[&str]| {
            let status = Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let made = run(Path::new("python3"), &["-m", "venv", &folder.display().to_string()])
            && run(&folder.join("bin/pip"), &["install", "--quiet", "moto[server]>=5"]);
        if !made {
            eprintln!("SKIPPED: moto cannot be installed: python3 with venv and pip, and PyPI, are needed");
            return None;
        }
    }
    Some(program)
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path) -> Self {
        let address = free_address();
        let port = address.port().to_string();
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, address };
        wait_until("moto listens", || TcpStream::connect(address).is_ok());
        let mut stream = TcpStream::connect(address).unwrap();
        let host = format!("127.0.0.1:{port}");
        write!(stream, "PUT /bucket HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(archive: &dyn Archive, name: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    archive.get(name)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The environment belongs to the process, so all is one test.
#[test]
fn backups_are_kept_in_a_bucket() {
    // The program is a store when it is told to be one.
    let Some(program) = moto_server() else { return };
    let server = Server::start(&program);
    let (endpoint, folder) = (format!("http://{}", server.address), Folder::new());
    let words = ["--exact", "in_a_bucket", "--nocapture", "--include-ignored"];
    let status = Command::new(std::env::current_exe().unwrap())
        .args(words)
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "us-east-1")
        .env("NO_PROXY", "*")
        .env("TIDEGATE_TEST_FOLDER", &folder.0)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "it runs with the environment of another test"]
fn in_a_bucket() {
    let Some(folder) = std::env::var_os("TIDEGATE_TEST_FOLDER").map(PathBuf::from) else { return };
    let archive = S3Archive::open("s3://bucket/some/store").unwrap();
    // Files of all lengths, in one piece and in several.
    let large: Vec<u8> = (0..20_000_000u32).map(|number| (number % 251) as u8).collect();
    for (name, len) in [("files/empty", 0), ("files/small", 100), ("files/part", 8 << 20), ("files/large", large.len())]
    {
        archive.put(name, &mut &large[..len], len as u64).unwrap();
        assert!(read(&archive, name).unwrap() == large[..len], "{name}");
    }
    let mut listed = archive.list("files").unwrap();
    listed.sort();
    let expected = [("files/empty", 0), ("files/large", 20_000_000), ("files/part", 8 << 20), ("files/small", 100)];
    assert_eq!(listed, expected.map(|(name, len)| (name.to_owned(), len)));
    assert_eq!(read(&archive, "files/none").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(S3Archive::open("s3:///x").is_err() && S3Archive::open("bucket").is_err());

    let (data, new) = (folder.join("data"), folder.join("new"));
    let store = start(&data, &[]);
    let mut client = store.client();
    for number in 0..200 {
        client.text(&["SET", &format!("key:{number}"), &"v".repeat(number)]);
    }
    let digest = client.text(&["DEBUG", "DIGEST"]);
    let first = backup(&data, &archive).unwrap();
    client.text(&["SET", "later", "x"]);
    let second = backup(&data, &archive).unwrap();
    assert_eq!(second.copied.0, 1, "the log's last file alone has changed");
    assert_eq!(names(&archive).unwrap(), [first.name.clone(), second.name]);
    restore(&Restore { backup: Some(first.name), until: None }, &archive, &new).unwrap();
    assert_eq!(start(&new, &[]).client().text(&["DEBUG", "DIGEST"]), digest);
    let missing = backup(&data, &S3Archive::open("s3://none").unwrap()).unwrap_err();
    let text = std::error::Error::source(&missing).map(ToString::to_string).unwrap_or_default();
    assert!(text.contains("none") || missing.to_string().contains("s3://none"), "{missing} {text}");
}
