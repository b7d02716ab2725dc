//! Let's Encrypt's test authority for ACME.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{Authority, ClientSettings, Folder, Oracle, Wanted, dns_answer, free_address, host, listens, wait_within};

/// Debian's pebble, or the one that `PEBBLE` names.
pub struct Pebble {
    child: Option<Child>,
    program: PathBuf,
    environment: Vec<(String, String)>,
    authority: Authority,
    names: Oracle,
    /// Where it is asked for certificates, and where it shows its own ones.
    address: SocketAddr,
    management: SocketAddr,
    /// Where it looks for proofs.
    pub http: SocketAddr,
    pub tls: SocketAddr,
}

/// What a pebble is like.
#[derive(Default)]
pub struct Habits<'a> {
    /// Its environment.
    pub environment: &'a [(&'a str, &'a str)],
    /// How long certificates last.
    pub life_s: Option<u32>,
    /// Records of DNS stand in files of this folder, by name; all names have this machine's address.
    pub records: Option<&'a Path>,
    /// It wants accounts to be bound, by this key in base64url.
    pub external: Option<&'a str>,
}

/// Says the address of this test to all names, and what stands in files.
fn names(records: Option<&Path>) -> Oracle {
    let records = records.map(Path::to_owned);
    Oracle::start(move |question| {
        let labels: Vec<u8> = question[12..].iter().copied().take_while(|byte| *byte != 0).collect();
        let kind = question[12 + labels.len() + 1..][..2].to_vec();
        let mut name = String::new();
        let mut rest = &labels[..];
        while let [length, more @ ..] = rest {
            name += &String::from_utf8_lossy(&more[..usize::from(*length)]);
            name.push('.');
            rest = &more[usize::from(*length)..];
        }
        // `\xc0\x0c` stands for the name of the question.
        let owner: &[u8] = b"\xc0\x0c";
        let data: Vec<Vec<u8>> = match (kind[1], &records) {
            (1, _) => vec![host().split('.').map(|part| part.parse().unwrap()).collect()],
            (16, Some(folder)) => {
                let text =
                    std::fs::read_to_string(folder.join(name.trim_end_matches('.').to_lowercase())).unwrap_or_default();
                text.lines().map(|line| [&[u8::try_from(line.len()).unwrap()], line.as_bytes()].concat()).collect()
            }
            _ => Vec::new(),
        };
        let records: Vec<(&[u8], &[u8])> = data.iter().map(|data| (owner, &data[..])).collect();
        vec![dns_answer(question, 0x8180, &records)]
    })
}

impl Pebble {
    /// One that runs; nothing where none is installed.
    pub fn start(habits: &Habits<'_>) -> Option<Self> {
        let program = std::env::var_os("PEBBLE").map_or_else(|| PathBuf::from("/usr/bin/pebble"), PathBuf::from);
        if !program.exists() {
            eprintln!("skipped: {} is not installed", program.display());
            return None;
        }
        let authority = Authority::new();
        authority.certify("own.pem", &Wanted { names: &[&host()], ..Wanted::default() });
        let (address, management, http, tls) = (free_address(), free_address(), free_address(), free_address());
        let own = authority.path("own.pem");
        let external = habits.external.map_or_else(String::new, |key| {
            format!("\"externalAccountBindingRequired\": true, \"externalAccountMACKeys\": {{\"kid-1\": \"{key}\"}},")
        });
        let life = habits.life_s.unwrap_or(7_776_000);
        let config = format!(
            "{{\"pebble\": {{\"listenAddress\": \"{address}\", \"managementListenAddress\": \"{management}\", \"certificate\": \"{0}\", \
             \"privateKey\": \"{0}\", \"httpPort\": {1}, \"tlsPort\": {2}, \"ocspResponderURL\": \"\", {external} \
             \"retryAfter\": {{\"authz\": 1, \"order\": 1}}, \"certificateValidityPeriod\": {life}, \
             \"profiles\": {{\"default\": {{\"description\": \"usual\", \"validityPeriod\": {life}}}}}}}}}",
            own.display(),
            http.port(),
            tls.port()
        );
        authority.folder.file("pebble.json", config);
        let own = [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        // What the environment of the tests says counts for more than what is usual here.
        let own = own.iter().filter(|(name, _)| std::env::var_os(name).is_none());
        let all = own.chain(habits.environment);
        let environment = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let names = names(habits.records);
        let mut pebble = Self { child: None, program, environment, authority, names, address, management, http, tls };
        pebble.go_on();
        Some(pebble)
    }

    /// Starts it, or again.
    pub fn go_on(&mut self) {
        let child = Command::new(&self.program)
            .args(["-config", &self.authority.path("pebble.json").display().to_string()])
            .args(["-dnsserver", &self.names.address.to_string()])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        // It makes keys first, which takes its time on a busy machine.
        wait_within(Duration::from_secs(60), "pebble listens", || listens(self.address));
    }

    /// Ends it, as a crash would; it forgets everything.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// The file of whom it is trusted by.
    pub fn anchors(&self) -> PathBuf {
        self.authority.path("ca.pem")
    }

    /// Settings of a client that trusts what it makes.
    pub fn client(&self) -> ClientSettings {
        let url = format!("https://{}/roots/0", self.management);
        let output = Command::new("curl").args(["-sS", "--cacert"]).arg(self.anchors()).arg(url).output().unwrap();
        ClientSettings::trusting(&output.stdout)
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
    }
}
