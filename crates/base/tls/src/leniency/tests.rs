//! Certificates as OpenSSL's program makes them, and what it takes.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustls::pki_types::UnixTime;

use crate::{
    failure::Distrust,
    leniency::Purpose,
    pem::Pem,
    verify::{RevocationLists, TrustAnchors, Verification, now},
};

/// A folder in which OpenSSL makes certificates.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn openssl(&self, arguments: &str) {
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// An authority that trusts itself.
    fn authority(&self, file: &str, name: &str) {
        let key = format!("-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {file}.key -out {file}.pem");
        self.openssl(&format!("req -x509 {key} -days 3650 -subj /O=Example/CN={name}"));
    }

    /// A certificate of version 1, or of version 3 with these extensions.
    fn certify(&self, file: &str, authority: &str, serial: u32, extensions: Option<&str>) {
        let key = format!("-newkey rsa:2048 -nodes -keyout {file}.key -out {file}.csr");
        self.openssl(&format!("req -new {key} -subj /O=Example/CN={file}"));
        let by = format!("-CA {authority}.pem -CAkey {authority}.key -set_serial {serial} -days 30");
        let extensions = extensions.map_or(String::new(), |text| {
            self.file(&format!("{file}.ext"), text);
            format!("-extfile {file}.ext")
        });
        self.openssl(&format!("x509 -req -in {file}.csr {by} -out {file}.pem {extensions}"));
    }

    /// A list of what an authority has revoked, as `openssl ca` makes it.
    fn revoke(&self, authority: &str, revoked: &[&str], days: &str) -> RevocationLists {
        let settings = "[ca]\ndefault_ca=a\n[a]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n";
        self.file("ca.cnf", settings);
        self.file("index", "");
        self.file("number", "01\n");
        let by = format!("ca -config ca.cnf -cert {authority}.pem -keyfile {authority}.key");
        for file in revoked {
            self.openssl(&format!("{by} -revoke {file}.pem"));
        }
        self.openssl(&format!("{by} -gencrl {days} -out {authority}.crl"));
        RevocationLists::new(&self.pem(format!("{authority}.crl"))).unwrap()
    }

    fn pem(&self, file: impl AsRef<Path>) -> Pem {
        Pem::read(&std::fs::read(self.0.join(file)).unwrap()).unwrap()
    }

    /// What becomes of a certificate and those that are shown with it, for those who trust an authority.
    fn judge(&self, trusted: &str, shown: &[&str], lists: RevocationLists, at: UnixTime) -> Result<(), Distrust> {
        let anchors = TrustAnchors::new([&self.pem(format!("{trusted}.pem"))]).unwrap();
        let verification = Verification { anchors, revocation: lists };
        let mut shown: Vec<_> =
            shown.iter().flat_map(|file| self.pem(format!("{file}.pem")).certificates.clone()).collect();
        let certificate = shown.remove(0);
        verification.verify(&certificate, &shown, Purpose::Client, at)
    }

    fn judge_now(&self, trusted: &str, shown: &[&str]) -> Result<(), Distrust> {
        self.judge(trusted, shown, RevocationLists::default(), now())
    }
}

const MAKES_OTHERS: &str = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n";

#[test]
fn version_1_is_taken_of_who_is_trusted() {
    let folder = Folder::new();
    folder.authority("ca", "Authority");
    folder.authority("other", "Other");
    // Of the same name, with another key.
    folder.authority("same", "Authority");
    folder.certify("client", "ca", 0x90, None);
    assert_eq!(folder.pem("client.pem").certificates.len(), 1);
    assert_eq!(folder.judge_now("ca", &["client"]), Ok(()));
    assert_eq!(folder.judge_now("other", &["client"]), Err(Distrust::UnknownIssuer));
    assert_eq!(folder.judge_now("same", &["client"]), Err(Distrust::Signature));
    let later = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_secs() + 31 * 86_400));
    assert_eq!(folder.judge("ca", &["client"], RevocationLists::default(), later), Err(Distrust::Expired));
    let before = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_secs() - 86_400));
    assert_eq!(folder.judge("ca", &["client"], RevocationLists::default(), before), Err(Distrust::NotYetValid));
    // It is no authority, whatever it signs.
    folder.certify("below", "client", 3, None);
    assert_eq!(folder.judge_now("ca", &["below", "client"]), Err(Distrust::NoAuthority));
}

#[test]
fn authorities_are_taken_as_themselves() {
    let folder = Folder::new();
    folder.authority("ca", "Authority");
    folder.certify("client", "ca", 2, Some(MAKES_OTHERS));
    folder.certify("server", "ca", 3, Some("basicConstraints=CA:TRUE\nextendedKeyUsage=serverAuth\n"));
    folder.certify("unknown", "ca", 4, Some("basicConstraints=CA:TRUE\n1.2.3.4=critical,ASN1:NULL\n"));
    assert_eq!(folder.judge_now("ca", &["client"]), Ok(()));
    assert_eq!(folder.judge_now("ca", &["server"]), Err(Distrust::Purpose));
    assert_eq!(folder.judge_now("ca", &["unknown"]), Err(Distrust::Other));
}

#[test]
fn the_way_may_lead_over_authorities() {
    let folder = Folder::new();
    folder.authority("ca", "Authority");
    folder.certify("between", "ca", 2, Some(MAKES_OTHERS));
    folder.certify("client", "between", 3, None);
    assert_eq!(folder.judge_now("ca", &["client", "between"]), Ok(()));
    assert_eq!(folder.judge_now("ca", &["client"]), Err(Distrust::UnknownIssuer));
    // Authorities that may have none below them, may not sign, or only what has certain names.
    let last = "basicConstraints=critical,CA:TRUE,pathlen:0\n";
    let silent = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,digitalSignature\n";
    let narrow = "basicConstraints=critical,CA:TRUE\nnameConstraints=permitted;DNS:example.com\n";
    for (file, extensions, expected) in [
        ("last", last, Distrust::NoAuthority),
        ("silent", silent, Distrust::NoAuthority),
        ("narrow", narrow, Distrust::Other),
    ] {
        folder.certify(file, "ca", 4, Some(extensions));
        let below = format!("{file}-below");
        folder.certify(&below, file, 5, Some(MAKES_OTHERS));
        let leaf = format!("{file}-leaf");
        folder.certify(&leaf, &below, 6, None);
        assert_eq!(folder.judge_now("ca", &[&leaf, &below, file]), Err(expected), "{file}");
    }
}

#[test]
fn what_is_revoked_is_not_taken() {
    let folder = Folder::new();
    folder.authority("ca", "Authority");
    folder.authority("same", "Authority");
    folder.certify("good", "ca", 0x8001, None);
    folder.certify("bad", "ca", 0x9002, None);
    let lists = |days: &str| folder.revoke("ca", &["bad"], days);
    assert_eq!(folder.judge("ca", &["good"], lists("-crldays 10"), now()), Ok(()));
    assert_eq!(folder.judge("ca", &["bad"], lists("-crldays 10"), now()), Err(Distrust::Revoked));
    let later = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_secs() + 2 * 86_400));
    assert_eq!(folder.judge("ca", &["good"], lists("-crldays 1"), later), Err(Distrust::RevocationListExpired));
    // A list that another one has made says nothing.
    let forged = folder.revoke("same", &[], "-crldays 10");
    assert_eq!(folder.judge("ca", &["good"], forged, now()), Err(Distrust::Signature));
    folder.authority("other", "Other");
    let foreign = folder.revoke("other", &[], "-crldays 10");
    assert_eq!(folder.judge("ca", &["good"], foreign, now()), Err(Distrust::NoRevocationList));
}
