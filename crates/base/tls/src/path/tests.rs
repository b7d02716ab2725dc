//! Certificates as OpenSSL's program makes them, and what it takes.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustls::pki_types::UnixTime;

use crate::{
    anchors::TrustAnchors,
    failure::Distrust,
    path::Purpose,
    pem::Pem,
    revocation::RevocationLists,
    verify::{Verification, now},
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
        let key = format!("-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {file}.key -out {file}.csr");
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

    /// What OpenSSL's program says of the same: the number of the first fault and where it is.
    fn verdict_of_openssl(&self, trusted: &str, shown: &[&str], more: &str) -> Option<(u8, u8)> {
        let (leaf, others) = shown.split_first().unwrap();
        let others: String = others.iter().map(|file| format!("-untrusted {file}.pem ")).collect();
        let arguments =
            format!("verify -purpose sslclient -CAfile {trusted}.pem -no-CApath -no-CAstore {others}{more} {leaf}.pem");
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let first = said.lines().find_map(|line| line.strip_prefix("error ")?.split_once(" at "));
        let Some((number, rest)) = first else {
            assert!(done.status.success(), "{arguments}: {said}");
            return None;
        };
        Some((number.parse().unwrap(), rest.split(' ').next().unwrap().parse().unwrap()))
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

    /// All that is wrong, as OpenSSL's numbers and places.
    fn faults(&self, trusted: &str, shown: &[&str], lists: Option<&str>) -> Vec<(u8, u8)> {
        let anchors = TrustAnchors::new([&self.pem(format!("{trusted}.pem"))]).unwrap();
        let revocation = lists.map(|file| RevocationLists::new(&self.pem(file)).unwrap()).unwrap_or_default();
        let mut shown: Vec<_> =
            shown.iter().flat_map(|file| self.pem(format!("{file}.pem")).certificates.clone()).collect();
        let certificate = shown.remove(0);
        let faults = Verification { anchors, revocation }.faults(&certificate, &shown, Purpose::Client, now());
        faults.iter().map(|fault| (fault.distrust.code(), fault.depth)).collect()
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
    let both = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,digitalSignature\n";
    folder.certify("client", "ca", 2, Some(both));
    folder.certify("server", "ca", 3, Some("basicConstraints=CA:TRUE\nextendedKeyUsage=serverAuth\n"));
    folder.certify("unknown", "ca", 4, Some("basicConstraints=CA:TRUE\n1.2.3.4=critical,ASN1:NULL\n"));
    assert_eq!(folder.judge_now("ca", &["client"]), Ok(()));
    assert_eq!(folder.judge_now("ca", &["server"]), Err(Distrust::Purpose));
    assert_eq!(folder.judge_now("ca", &["unknown"]), Err(Distrust::CriticalExtension));
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
        ("last", last, Distrust::PathLength),
        ("silent", silent, Distrust::NoAuthority),
        ("narrow", narrow, Distrust::NameConstraints),
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
    assert_eq!(folder.judge("ca", &["good"], forged, now()), Err(Distrust::RevocationListSignature));
    folder.authority("other", "Other");
    let foreign = folder.revoke("other", &[], "-crldays 10");
    assert_eq!(folder.judge("ca", &["good"], foreign, now()), Err(Distrust::NoRevocationList));
}

#[test]
fn faults_are_those_that_openssl_finds() {
    let folder = Folder::new();
    for name in ["ca", "other", "same"] {
        folder.authority(name, if name == "other" { "Other" } else { "Authority" });
    }
    let leaf = |more: &str| format!("basicConstraints=CA:FALSE\n{more}");
    for (file, authority, extensions) in [
        ("plain", "ca", leaf("")),
        ("client", "ca", leaf("extendedKeyUsage=clientAuth\nkeyUsage=digitalSignature\n")),
        ("server", "ca", leaf("extendedKeyUsage=serverAuth\n")),
        ("any", "ca", leaf("extendedKeyUsage=anyExtendedKeyUsage\n")),
        ("code", "ca", leaf("extendedKeyUsage=codeSigning\n")),
        ("agrees", "ca", leaf("keyUsage=keyAgreement\n")),
        ("enciphers", "ca", leaf("keyUsage=keyEncipherment\n")),
        ("signs", "ca", leaf("keyUsage=keyCertSign\n")),
        ("unknown", "ca", leaf("1.2.3.4=critical,ASN1:NULL\n")),
        ("harmless", "ca", leaf("1.2.3.4=ASN1:NULL\n")),
        ("between", "ca", MAKES_OTHERS.to_owned()),
        ("silent", "ca", "basicConstraints=critical,CA:TRUE\nkeyUsage=digitalSignature\n".to_owned()),
        ("none", "ca", "subjectKeyIdentifier=hash\n".to_owned()),
        ("leaf", "ca", leaf("")),
        ("last", "ca", "basicConstraints=critical,CA:TRUE,pathlen:0\n".to_owned()),
        ("servers", "ca", format!("{MAKES_OTHERS}extendedKeyUsage=serverAuth\n")),
        ("narrow", "ca", format!("{MAKES_OTHERS}nameConstraints=permitted;DNS:example.com\n")),
    ] {
        folder.certify(file, authority, 7, Some(&extensions));
    }
    for (file, authority, extensions) in [
        ("below-between", "between", Some(leaf(""))),
        ("old-below-between", "between", None),
        ("below-silent", "silent", Some(leaf(""))),
        ("below-none", "none", Some(leaf(""))),
        ("below-leaf", "leaf", Some(leaf(""))),
        ("below-servers", "servers", Some(leaf(""))),
        ("second", "last", Some(MAKES_OTHERS.to_owned())),
        ("inside", "narrow", Some(leaf("subjectAltName=DNS:www.example.com\n"))),
        ("outside", "narrow", Some(leaf("subjectAltName=DNS:www.example.org\n"))),
    ] {
        folder.certify(file, authority, 8, extensions.as_deref());
    }
    folder.certify("below-second", "second", 9, Some(&leaf("")));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout own.key -out own.pem";
    folder.openssl(&format!("req -x509 {key} -days 30 -subj /CN=own -addext extendedKeyUsage=clientAuth"));
    let join = |to: &str, files: &[&str]| {
        let texts = files.iter().map(|file| std::fs::read_to_string(folder.0.join(format!("{file}.pem"))).unwrap());
        folder.file(&format!("{to}.pem"), &texts.collect::<String>());
    };
    join("with-own", &["other", "own"]);
    join("with-leaf", &["other", "client"]);
    join("with-between", &["ca", "between"]);
    for (trusted, shown) in [
        ("ca", &["plain"][..]),
        ("ca", &["client"]),
        ("ca", &["server"]),
        ("ca", &["any"]),
        ("ca", &["code"]),
        ("ca", &["agrees"]),
        ("ca", &["enciphers"]),
        ("ca", &["signs"]),
        ("ca", &["unknown"]),
        ("ca", &["harmless"]),
        ("ca", &["between"]),
        ("ca", &["ca"]),
        ("ca", &["other"]),
        ("ca", &["own"]),
        ("other", &["plain"]),
        ("other", &["plain", "ca"]),
        ("same", &["plain"]),
        ("ca", &["below-between", "between"]),
        ("ca", &["below-between", "between", "ca"]),
        ("ca", &["old-below-between", "between"]),
        ("ca", &["below-between", "other", "between"]),
        ("ca", &["below-between"]),
        ("between", &["below-between"]),
        ("between", &["below-between", "ca"]),
        ("with-between", &["below-between"]),
        ("ca", &["below-silent", "silent"]),
        ("ca", &["below-none", "none"]),
        ("ca", &["below-leaf", "leaf"]),
        ("ca", &["below-servers", "servers"]),
        ("ca", &["below-second", "second", "last"]),
        ("ca", &["inside", "narrow"]),
        ("ca", &["outside", "narrow"]),
        ("with-own", &["own"]),
        ("with-leaf", &["client"]),
    ] {
        let found = folder.faults(trusted, shown, None);
        let expected = folder.verdict_of_openssl(trusted, shown, "");
        assert_eq!(found.first().copied(), expected, "{shown:?} for who trusts {trusted}: {found:?}");
    }
    // More than one: each has to be let pass.
    assert_eq!(folder.faults("other", &["server"], None), [(20, 0), (26, 0), (21, 0)]);
}

#[test]
fn of_several_lists_the_newest_counts() {
    let folder = Folder::new();
    folder.authority("ca", "Authority");
    folder.certify("good", "ca", 0x8001, None);
    folder.certify("bad", "ca", 0x9002, None);
    let begun = "-crl_lastupdate 20200101000000Z";
    folder.revoke("ca", &[], &format!("{begun} -crldays 20000"));
    std::fs::rename(folder.0.join("ca.crl"), folder.0.join("old.crl")).unwrap();
    folder.revoke("ca", &[], &format!("{begun} -crl_nextupdate 20200201000000Z"));
    std::fs::rename(folder.0.join("ca.crl"), folder.0.join("ended.crl")).unwrap();
    folder.revoke("ca", &["bad"], &format!("{begun} -crldays 20000"));
    std::fs::rename(folder.0.join("ca.crl"), folder.0.join("as-old.crl")).unwrap();
    folder.revoke("ca", &["bad"], "-crldays 10");
    std::fs::rename(folder.0.join("ca.crl"), folder.0.join("new.crl")).unwrap();
    folder.revoke("ca", &["bad"], "-crl_lastupdate 20900101000000Z -crl_nextupdate 20910101000000Z");
    std::fs::rename(folder.0.join("ca.crl"), folder.0.join("future.crl")).unwrap();
    for (files, good, bad) in [
        (&["old", "new"][..], &[][..], &[(23, 0)][..]),
        (&["new", "old"], &[], &[(23, 0)]),
        (&["ended", "new"], &[], &[(23, 0)]),
        (&["old"], &[], &[]),
        (&["old", "as-old"], &[], &[]),
        (&["as-old", "old"], &[], &[(23, 0)]),
        (&["ended"], &[(12, 0), (12, 1)], &[(12, 0), (12, 1)]),
        (&["future"], &[(11, 0), (11, 1)], &[(11, 0), (23, 0), (11, 1)]),
    ] {
        let texts = files.iter().map(|file| std::fs::read_to_string(folder.0.join(format!("{file}.crl"))).unwrap());
        folder.file("all.crl", &texts.collect::<String>());
        assert_eq!(folder.faults("ca", &["good"], Some("all.crl")), good, "{files:?}");
        assert_eq!(folder.faults("ca", &["bad"], Some("all.crl")), bad, "{files:?}");
    }
}

#[test]
fn one_way_has_to_be_right_in_all() {
    let folder = Folder::new();
    folder.authority("root", "Company");
    // What the company lets its partner certify, and others of the partner's certificates of the same name and key.
    let constrained = format!("{MAKES_OTHERS}nameConstraints=critical,permitted;DNS:partner.ex\n");
    folder.certify("partner", "root", 0x20, Some(&constrained));
    folder.file("bare.ext", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,digitalSignature\n");
    folder.openssl("x509 -req -in partner.csr -CA root.pem -CAkey root.key -set_serial 33 -days 30 -extfile bare.ext -out bare.pem");
    folder.file("own.ext", &format!("{MAKES_OTHERS}extendedKeyUsage=serverAuth\n"));
    folder.openssl("x509 -req -in partner.csr -signkey partner.key -days 30 -extfile own.ext -out own.pem");
    folder.certify("admin", "partner", 0x21, Some("subjectAltName=DNS:admin.company.ex\n"));
    folder.certify("robot", "partner", 0x22, Some("subjectAltName=DNS:robot.partner.ex\n"));
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    folder.file("all.pem", &(read("root.pem") + &read("partner.pem") + &read("own.pem")));
    let cases: [(&str, &[&str]); 4] =
        [("root", &["partner"]), ("root", &["partner", "bare"]), ("all", &[]), ("all", &["partner"])];
    for (trusted, others) in cases {
        let shown = |leaf| [&[leaf], others].concat();
        assert_eq!(folder.verdict_of_openssl(trusted, &shown("admin"), ""), Some((47, 0)), "{trusted} {others:?}");
        assert_eq!(folder.faults(trusted, &shown("admin"), None), [(47, 0)], "{trusted} {others:?}");
        assert_eq!(folder.verdict_of_openssl(trusted, &shown("robot"), ""), None, "{trusted} {others:?}");
        assert_eq!(folder.faults(trusted, &shown("robot"), None), [], "{trusted} {others:?}");
    }
}
