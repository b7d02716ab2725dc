use std::{collections::BTreeMap, net::IpAddr};

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A record as it is sent: owner, type, data.
type Sent = (Vec<u8>, u16, Vec<u8>);

fn wire(text: &str) -> Vec<u8> {
    if text == "." {
        return vec![0];
    }
    let mut wire = name(text).wire().to_vec();
    wire.push(0);
    wire
}

fn address(owner: &str, text: &str) -> Sent {
    match ip(text) {
        IpAddr::V4(address) => (wire(owner), 1, address.octets().to_vec()),
        IpAddr::V6(address) => (wire(owner), 28, address.octets().to_vec()),
    }
}

fn alias(owner: &str, target: &str) -> Sent {
    (wire(owner), 5, wire(target))
}

fn service(owner: &str, target: &str, port: u16, weight: u16) -> Sent {
    let mut data = vec![0, 10];
    data.extend(weight.to_be_bytes());
    data.extend(port.to_be_bytes());
    data.extend(wire(target));
    (wire(owner), 33, data)
}

fn message(id: u16, flags: u16, question: &str, kind: u16, sections: [&[Sent]; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    let counts = sections.map(|records| u16::try_from(records.len()).unwrap());
    for number in [id, flags, 1, counts[0], counts[1], counts[2]] {
        out.extend(number.to_be_bytes());
    }
    out.extend(wire(question));
    out.extend(kind.to_be_bytes());
    out.extend([0, 1]);
    for (owner, kind, data) in sections.into_iter().flatten() {
        out.extend(owner);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 60]);
        out.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        out.extend(data);
    }
    out
}

fn answer(question: &str, kind: u16, records: &[Sent]) -> Vec<u8> {
    message(7, 0x8180, question, kind, [records, &[], &[]])
}

#[test]
fn names() {
    for (text, expected) in [
        ("www.example.com", Some("www.example.com")),
        ("WWW.Example.COM.", Some("www.example.com")),
        ("_http._tcp.a", Some("_http._tcp.a")),
        ("a", Some("a")),
        ("", None),
        (".", None),
        ("a..b", None),
        (".a", None),
    ] {
        assert_eq!(Name::parse(text.as_bytes()).map(|name| name.to_string()).as_deref(), expected, "{text}");
    }
    assert!(Name::parse(&[b'a'; 63]).is_some());
    assert!(Name::parse(&[b'a'; 64]).is_none());
    assert!(Name::parse("a.".repeat(126).as_bytes()).is_some());
    assert!(Name::parse("a.".repeat(128).as_bytes()).is_none());
}

#[test]
fn questions() {
    let expected = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\x02bc\0\0\x1c\0\x01\0\0\x29\x02\0\0\0\0\0\0\0";
    assert_eq!(encode_query(0x1234, Kind::Aaaa, &name("a.bc"), 512), expected);
}

#[test]
fn answers() {
    let addresses = |texts: &[&str]| Ok(texts.iter().map(|text| Record::Address(ip(text))).collect::<Vec<_>>());
    let decode = |bytes: &[u8]| decode_response(bytes, &name("a.b"), 80).map(|answer| answer.records);
    let header = |flags: u16, questions: u16| {
        let mut bytes = answer("a.b", 1, &[address("a.b", "192.0.2.1")]);
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[4..6].copy_from_slice(&questions.to_be_bytes());
        bytes
    };
    let good = address("a.b", "192.0.2.1");
    for (bytes, expected) in [
        (answer("a.b", 1, &[good.clone(), address("a.b", "192.0.2.2")]), addresses(&["192.0.2.1", "192.0.2.2"])),
        (answer("A.B", 1, &[address("A.B", "192.0.2.1")]), addresses(&["192.0.2.1"])),
        (answer("a.b", 28, &[address("a.b", "2001:db8::1")]), addresses(&["2001:db8::1"])),
        (answer("a.b", 1, &[alias("a.b", "c.d"), address("c.d", "192.0.2.3")]), addresses(&["192.0.2.3"])),
        // Other types are stepped over.
        (answer("a.b", 1, &[(wire("a.b"), 16, b"\x03txt".to_vec()), good.clone()]), addresses(&["192.0.2.1"])),
        (answer("a.b", 1, &[alias("a.b", "c.d")]), Err(Fault::Alias)),
        (answer("a.b", 1, &[alias("a.b", "c.d"), good.clone()]), Err(Fault::Alias)),
        (answer("a.b", 1, &[address("x.y", "192.0.2.1")]), Err(Fault::Invalid)),
        (answer("x.y", 1, &[address("x.y", "192.0.2.1")]), Err(Fault::WrongName)),
        (answer("a.b", 1, &[]), Err(Fault::Empty)),
        (answer("a.b", 1, &[(wire("a.b"), 1, vec![1, 2, 3])]), Err(Fault::Invalid)),
        (answer("a.b", 1, &vec![good.clone(); 81]), Err(Fault::Invalid)),
        (header(0x8183, 1), Err(Fault::NoSuchName)),
        (header(0x8185, 1), Err(Fault::Refused)),
        (header(0x8182, 1), Err(Fault::Failure)),
        (header(0x8380, 1), Err(Fault::Truncated)),
        (header(0x0100, 1), Err(Fault::Invalid)),
        (header(0x8180, 2), Err(Fault::QuestionCount)),
        (header(0x8180, 0), Err(Fault::QuestionCount)),
    ] {
        assert_eq!(decode(&bytes), expected, "{bytes:?}");
    }
    // Cut anywhere, it is none.
    let whole = answer("a.b", 1, &[alias("a.b", "c.d"), address("c.d", "192.0.2.3")]);
    for length in 0..whole.len() {
        assert_eq!(decode(&whole[..length]), Err(Fault::Invalid), "{length}");
    }
}

/// Pointers: back to the question is what everyone does; forward, to themselves and in a circle is refused.
#[test]
fn compression() {
    let pointed = |owner: &[u8]| answer("a.b", 1, &[(owner.to_vec(), 1, vec![192, 0, 2, 1])]);
    let decode = |bytes: &[u8]| decode_response(bytes, &name("a.b"), 80);
    assert_eq!(decode(&pointed(&[0xC0, 12])).unwrap().records, [Record::Address(ip("192.0.2.1"))]);
    assert_eq!(decode(&pointed(&[1, b'a', 0xC0, 14])).unwrap().records, [Record::Address(ip("192.0.2.1"))]);
    for owner in
        [&[0xC0, 21][..], &[0xC0, 22], &[0xC0, 200], &[0xFF, 0xFF], &[1, b'a', 0xC0, 21], &[0x40, 1], &[0x80, 1]]
    {
        assert_eq!(decode(&pointed(owner)), Err(Fault::Invalid), "{owner:?}");
    }
}

#[test]
fn services() {
    let records = [service("_h._t.x", "n1.x", 81, 256), service("_h._t.x", "n2.x", 82, 0)];
    let more = [address("n1.x", "192.0.2.1"), (vec![0], 41, Vec::new()), address("n2.x", "2001:db8::2")];
    let authority = [(wire("."), 2, wire("ns.x"))];
    let bytes = message(7, 0x8180, "_h._t.x", 33, [&records, &authority, &more]);
    let found = decode_response(&bytes, &name("_h._t.x"), 80).unwrap();
    let expected = |target: &str, port, weight| Record::Service { target: name(target), port, weight };
    assert_eq!(found.records, [expected("n1.x", 81, 256), expected("n2.x", 82, 0)]);
    assert_eq!(found.additional, [(name("n1.x"), ip("192.0.2.1")), (name("n2.x"), ip("2001:db8::2"))]);
    // What there is of a truncated one is used.
    let bytes = message(7, 0x8380, "_h._t.x", 33, [&records, &[], &[]]);
    assert_eq!(decode_response(&bytes, &name("_h._t.x"), 80).unwrap().records.len(), 2);
    let nowhere = message(7, 0x8180, "_h._t.x", 33, [&[service("_h._t.x", ".", 1, 1)], &[], &[]]);
    assert_eq!(decode_response(&nowhere, &name("_h._t.x"), 80), Err(Fault::Invalid));
}

#[test]
fn networks() {
    for (network, bits, text, expected) in [
        ("10.0.0.0", 8, "10.255.1.2", true),
        ("10.0.0.0", 8, "11.0.0.0", false),
        ("0.0.0.0", 0, "192.0.2.1", true),
        ("192.0.2.1", 32, "192.0.2.1", true),
        ("192.0.2.1", 32, "192.0.2.2", false),
        ("2001:db8::", 32, "2001:db8:1::1", true),
        ("2001:db8::", 32, "2001:db9::1", false),
        ("::", 0, "192.0.2.1", false),
    ] {
        assert_eq!(Network { address: ip(network), bits }.contains(ip(text)), expected, "{network}/{bits} {text}");
    }
}

/// Servers that write down what is done to them.
#[derive(Default)]
struct Known {
    addresses: BTreeMap<ServerKey, IpAddr>,
    unresolved: BTreeMap<ServerKey, ()>,
    ports: BTreeMap<ServerKey, u16>,
    said: Vec<String>,
}

impl Servers for Known {
    fn address(&self, server: ServerKey) -> Option<IpAddr> {
        self.addresses.get(&server).copied()
    }

    fn set_address(&mut self, server: ServerKey, address: IpAddr, by: Updater) {
        if self.addresses.insert(server, address) != Some(address) {
            self.said.push(format!("{server} is at {address} by {by:?}"));
        }
    }

    fn clear_address(&mut self, server: ServerKey) {
        self.addresses.remove(&server);
    }

    fn is_unresolved(&self, server: ServerKey) -> bool {
        self.unresolved.contains_key(&server)
    }

    fn set_unresolved(&mut self, server: ServerKey, cause: &str) {
        self.unresolved.insert(server, ());
        self.said.push(format!("{server} is lost: {cause}"));
    }

    fn set_resolved(&mut self, server: ServerKey, by_answer: bool) {
        self.unresolved.remove(&server);
        self.said.push(format!("{server} is back{}", if by_answer { " by answer" } else { "" }));
    }

    fn set_host(&mut self, server: ServerKey, host: Option<&str>) {
        self.said.push(format!("{server} stands for {}", host.unwrap_or("nothing")));
    }

    fn port(&self, server: ServerKey) -> u16 {
        self.ports.get(&server).copied().unwrap_or(0)
    }

    fn set_port(&mut self, server: ServerKey, port: u16) {
        self.ports.insert(server, port);
    }

    fn set_weight(&mut self, server: ServerKey, weight: u16) {
        self.said.push(format!("{server} weighs {weight}"));
    }
}

struct Scene {
    section: Section,
    servers: Known,
    now_ms: u64,
}

impl Scene {
    fn new(nameservers: usize, obsolete: u64) -> Self {
        let hold = Hold { nx: 5_000, other: 6_000, refused: 7_000, timeout: 8_000, valid: 10_000, obsolete };
        let settings = Settings { nameservers, payload_size: 512, retries: 2, resolve_ms: 1_000, retry_ms: 300, hold };
        Self { section: Section::new(settings, 42), servers: Known::default(), now_ms: 1_000 }
    }

    fn add(&mut self, server: ServerKey, host: &str, options: Options) {
        self.section.add_server(server, 0, options, name(host), self.now_ms);
    }

    /// Lets time pass up to the next question; its id and type.
    fn question(&mut self) -> (u16, u16) {
        loop {
            let mut sent = None;
            while let Some(transmit) = self.section.poll_transmit() {
                self.section.handle_sent(transmit.nameserver, transmit.id, true);
                let end = transmit.message.len() - 15;
                sent = Some((transmit.id, u16::from_be_bytes(transmit.message[end..end + 2].try_into().unwrap())));
            }
            if let Some(sent) = sent {
                return sent;
            }
            self.now_ms = self.now_ms.max(self.section.poll_timeout().unwrap());
            self.section.handle_timeout(self.now_ms, &mut self.servers);
        }
    }

    fn tell(&mut self, nameserver: usize, bytes: &[u8]) {
        self.section.handle_response(nameserver, bytes, self.now_ms, &mut self.servers);
    }

    /// Asks for a name and is answered.
    fn round(&mut self, host: &str, kind: u16, records: &[Sent], more: &[Sent]) {
        let (id, asked) = self.question();
        assert_eq!(asked, kind);
        self.tell(0, &message(id, 0x8180, host, kind, [records, &[], more]));
    }

    fn fails(&mut self, host: &str, flags: u16) {
        let (id, kind) = self.question();
        self.tell(0, &message(id, flags, host, kind, [&[], &[], &[]]));
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.servers.said)
    }
}

const NOTHING: Vec<String> = Vec::new();

fn v4() -> Options {
    Options { prefer_ipv4: true, ..Options::default() }
}

#[test]
fn a_server_follows_its_name() {
    let mut scene = Scene::new(1, 0);
    scene.add(0, "a.b", v4());
    scene.servers.unresolved.insert(0, ());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.said(), ["0 is at 192.0.2.1 by NameServer(0)", "0 is back by answer"]);
    assert_eq!(scene.section.poll_timeout(), Some(scene.now_ms + 1_000));
    // As long as the name has the address, others do not matter.
    scene.round("a.b", 1, &[address("a.b", "192.0.2.9"), address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.said(), NOTHING);
    scene.round("a.b", 1, &[address("a.b", "192.0.2.9")], &[]);
    assert_eq!(scene.said(), ["0 is at 192.0.2.9 by NameServer(0)"]);
    let counters = scene.section.counters(0);
    assert_eq!((counters.sent, counters.valid, counters.update), (3, 3, 2));
}

#[test]
fn an_address_counts_on_for_hold_obsolete() {
    let mut scene = Scene::new(1, 1_500);
    scene.add(0, "a.b", v4());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.said(), ["0 is at 192.0.2.1 by NameServer(0)"]);
    scene.round("a.b", 1, &[address("a.b", "192.0.2.2")], &[]);
    assert_eq!(scene.said(), NOTHING);
    scene.round("a.b", 1, &[address("a.b", "192.0.2.2")], &[]);
    assert_eq!(scene.said(), ["0 is at 192.0.2.2 by NameServer(0)"]);
}

#[test]
fn servers_of_a_backend_share_no_address() {
    let mut scene = Scene::new(1, 0);
    for server in 0..3 {
        scene.add(server, "a.b", v4());
    }
    let two = [address("a.b", "192.0.2.1"), address("a.b", "192.0.2.2")];
    scene.round("a.b", 1, &two, &[]);
    let said = scene.said();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].ends_with("NameServer(0)") && said[1].ends_with("Cache"), "{said:?}");
    assert_eq!(said[2], "2 is lost: No IP for server ");
    assert_ne!(scene.servers.addresses[&0], scene.servers.addresses[&1]);

    let mut scene = Scene::new(1, 0);
    for server in 0..3 {
        scene.add(server, "a.b", Options { allow_duplicates: true, ..v4() });
    }
    scene.round("a.b", 1, &two, &[]);
    assert_eq!(scene.servers.addresses.len(), 3);
}

#[test]
fn preferences() {
    let offered = ["192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8:1::1"].map(|text| address("a.b", text));
    let network = |text: &str, bits| Network { address: ip(text), bits };
    for (options, kind, current, expected) in [
        (Options { networks: vec![network("198.51.100.0", 24)], ..v4() }, 1, None, "198.51.100.1"),
        (Options { networks: vec![network("2001:db8:1::", 48)], ..Options::default() }, 28, None, "2001:db8:1::1"),
        (v4(), 1, Some("198.51.100.1"), "198.51.100.1"),
        (v4(), 1, Some("192.0.2.1"), "192.0.2.1"),
        // The network goes before what is there.
        (Options { networks: vec![network("198.51.100.0", 24)], ..v4() }, 1, Some("192.0.2.1"), "198.51.100.1"),
    ] {
        let mut scene = Scene::new(1, 0);
        scene.add(0, "a.b", options.clone());
        if let Some(current) = current {
            scene.servers.addresses.insert(0, ip(current));
        }
        scene.round("a.b", kind, &offered, &[]);
        assert_eq!(scene.servers.addresses[&0], ip(expected), "{options:?} {current:?}");
    }
}

/// The other family is asked at once, retries wait, and what was known counts on for `hold nx`.
#[test]
fn no_such_name() {
    let mut scene = Scene::new(1, 0);
    scene.add(0, "a.b", v4());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    scene.said();
    let begun = scene.now_ms;
    let mut asked = Vec::new();
    while scene.servers.said.is_empty() {
        let (id, kind) = scene.question();
        asked.push((kind, scene.now_ms - begun));
        scene.tell(0, &message(id, 0x8183, "a.b", kind, [&[], &[], &[]]));
    }
    let rounds = [(1, 1_000), (28, 1_000), (1, 1_300), (28, 1_300), (1, 2_300), (28, 2_300), (1, 2_600)];
    assert_eq!(asked[..7], rounds);
    assert_eq!(scene.said(), ["0 is lost: DNS NX status"]);
    assert!((begun + 5_000..begun + 6_400).contains(&scene.now_ms));
    assert!(scene.servers.addresses.is_empty());
    assert_eq!(usize::try_from(scene.section.counters(0).nx).unwrap(), asked.len());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.said(), ["0 is at 192.0.2.1 by NameServer(0)", "0 is back by answer"]);
}

#[test]
fn errors_hold_for_their_times() {
    for (flags, hold, cause) in [
        (Some(0x8185), 7_000, "DNS refused status"),
        (Some(0x8182), 6_000, "unspecified DNS error"),
        (Some(0x8180), 6_000, "unspecified DNS error"),
        (None, 8_000, "DNS timeout status"),
    ] {
        let mut scene = Scene::new(1, 0);
        scene.add(0, "a.b", v4());
        scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
        scene.said();
        let begun = scene.now_ms;
        while scene.servers.said.is_empty() {
            match flags {
                Some(flags) => scene.fails("a.b", flags),
                None => drop(scene.question()),
            }
        }
        assert_eq!(scene.said(), [format!("0 is lost: {cause}")]);
        assert!((begun + hold..begun + hold + 2_000).contains(&scene.now_ms), "{cause} {}", scene.now_ms - begun);
    }
}

/// One of several name servers is enough; late ones are outdated, liars are counted and change nothing.
#[test]
fn several_name_servers() {
    let mut scene = Scene::new(3, 0);
    scene.add(0, "a.b", v4());
    let (id, _) = scene.question();
    let good = message(id, 0x8180, "a.b", 1, [&[address("a.b", "192.0.2.1")], &[], &[]]);
    scene.tell(0, &message(id, 0x8183, "a.b", 1, [&[], &[], &[]]));
    scene.tell(1, &message(id, 0x8180, "x.y", 1, [&[address("x.y", "192.0.2.66")], &[], &[]]));
    scene.tell(1, &message(id ^ 1, 0x8180, "a.b", 1, [&[address("a.b", "192.0.2.66")], &[], &[]]));
    scene.tell(1, &[0; 513]);
    scene.tell(1, &[0]);
    assert_eq!(scene.said(), NOTHING);
    scene.tell(2, &good);
    scene.tell(1, &good);
    assert_eq!(scene.said(), ["0 is at 192.0.2.1 by NameServer(2)"]);
    let [first, second, third] = [0, 1, 2].map(|nameserver| scene.section.counters(nameserver));
    assert_eq!((first.nx, first.valid), (1, 0));
    assert_eq!((second.invalid, second.outdated, second.too_big), (2, 2, 1));
    assert_eq!((third.valid, third.update), (1, 1));
    scene.section.handle_sent(0, 0, false);
    assert_eq!(scene.section.counters(0).send_error, 1);
}

#[test]
fn services_become_servers() {
    let mut scene = Scene::new(1, 0);
    let service_name = name("_h._t.x");
    for server in 0..3 {
        scene.servers.unresolved.insert(server, ());
        scene.section.add_service_server(server, 0, v4(), &service_name, None, scene.now_ms);
    }
    let records = [service("_h._t.x", "n1.x", 81, 256), service("_h._t.x", "n2.x", 82, 0)];
    scene.round("_h._t.x", 33, &records, &[address("n1.x", "192.0.2.1"), address("n2.x", "192.0.2.2")]);
    let mut said = scene.said();
    said.sort();
    assert_eq!(said.iter().filter(|line| line.contains("by Additional")).count(), 2, "{said:?}");
    assert_eq!(said.iter().filter(|line| line.ends_with("is back")).count(), 2, "{said:?}");
    assert!(said.iter().any(|line| line.ends_with("weighs 0")) && said.iter().any(|line| line.ends_with("weighs 1")));
    assert!(scene.servers.is_unresolved(2));
    let (first, second) = if scene.servers.port(0) == 81 { (0, 1) } else { (1, 0) };
    assert_eq!((scene.servers.port(first), scene.servers.port(second)), (81, 82));

    // One goes, one has its address asked for.
    scene.round("_h._t.x", 33, &[service("_h._t.x", "n1.x", 81, 65_535)], &[address("n1.x", "192.0.2.1")]);
    let mut said = scene.said();
    said.sort();
    let mut expected = [
        format!("{first} weighs 256"),
        format!("{second} is lost: entry removed from SRV record"),
        format!("{second} stands for nothing"),
    ];
    expected.sort();
    assert_eq!(said, expected);
    assert_eq!((scene.servers.port(second), scene.servers.address(second)), (0, None));

    let records = [service("_h._t.x", "n1.x", 81, 65_535), service("_h._t.x", "n3.x", 83, 300)];
    scene.round("_h._t.x", 33, &records, &[address("n1.x", "192.0.2.1")]);
    let said = scene.said();
    assert!(said.contains(&"2 stands for n3.x".to_owned()) && said.contains(&"2 weighs 2".to_owned()), "{said:?}");
    assert!(scene.servers.is_unresolved(2));
    scene.round("n3.x", 1, &[address("n3.x", "192.0.2.3")], &[]);
    assert_eq!(scene.said(), ["2 is at 192.0.2.3 by NameServer(0)", "2 is back by answer"]);

    // After an error that lasts nothing is left.
    while scene.servers.unresolved.len() < 3 {
        let (id, kind) = scene.question();
        let question = if kind == 33 { "_h._t.x" } else { "n3.x" };
        scene.tell(0, &message(id, 0x8183, question, kind, [&[], &[], &[]]));
    }
    assert!(scene.servers.addresses.is_empty());
}

/// After a reload a server stands for the host that it stood for before.
#[test]
fn services_are_recognised() {
    let mut scene = Scene::new(1, 0);
    let service_name = name("_h._t.x");
    scene.section.add_service_server(0, 0, v4(), &service_name, Some((name("n2.x"), 82)), 0);
    scene.section.add_service_server(1, 0, v4(), &service_name, Some((name("n1.x"), 81)), 0);
    let records = [service("_h._t.x", "n1.x", 81, 256), service("_h._t.x", "n2.x", 82, 256)];
    scene.round("_h._t.x", 33, &records, &[address("n1.x", "192.0.2.1"), address("n2.x", "192.0.2.2")]);
    assert_eq!((scene.servers.addresses[&0], scene.servers.addresses[&1]), (ip("192.0.2.2"), ip("192.0.2.1")));
    assert!(!scene.said().iter().any(|line| line.contains("stands for")));
}

#[test]
fn a_server_may_get_another_name() {
    let mut scene = Scene::new(1, 0);
    scene.add(0, "a.b", v4());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert!(scene.section.set_host(0, name("c.d"), scene.now_ms));
    assert!(!scene.section.set_host(5, name("c.d"), scene.now_ms));
    scene.round("c.d", 1, &[address("c.d", "192.0.2.2")], &[]);
    assert_eq!(scene.said().len(), 2);
    assert_eq!(scene.servers.addresses[&0], ip("192.0.2.2"));
}

#[test]
fn who_waits_is_told() {
    let mut scene = Scene::new(1, 0);
    assert_eq!(scene.section.poll_timeout(), None);
    let host = name("a.b");
    for waiter in [1, 2, 3] {
        assert_eq!(scene.section.ask(waiter, &host, true, scene.now_ms), Asked::Waits);
    }
    scene.section.forget(3);
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.section.poll_answer(), Some((1, Some(ip("192.0.2.1")))));
    assert_eq!(scene.section.poll_answer(), Some((2, Some(ip("192.0.2.1")))));
    assert_eq!(scene.section.poll_answer(), None);
    // Nobody else wants to know: it is forgotten.
    assert_eq!(scene.section.poll_timeout(), None);
    assert_eq!(scene.section.ask(4, &host, true, scene.now_ms), Asked::Waits);
    scene.section.forget(4);
    assert_eq!(scene.section.poll_timeout(), None);

    // What a server has been told is fresh for `hold valid`.
    scene.add(0, "a.b", v4());
    scene.round("a.b", 1, &[address("a.b", "192.0.2.1")], &[]);
    assert_eq!(scene.section.ask(5, &host, true, scene.now_ms), Asked::Known(Some(ip("192.0.2.1"))));
    assert_eq!(scene.section.ask(6, &host, false, scene.now_ms), Asked::Waits);
    // Nobody answers.
    let answer = loop {
        scene.question();
        if let Some(answer) = scene.section.poll_answer() {
            break answer;
        }
    };
    assert_eq!(answer, (6, None));
}

/// Whatever comes in, nothing breaks and nothing grows: seeded messages, mutations of good ones, time that goes on.
#[test]
fn nonsense() {
    let mut random = 1_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % limit as u64).unwrap()
    };
    let mut scene = Scene::new(2, 100);
    scene.add(0, "a.b", v4());
    scene.add(1, "a.b", Options::default());
    for server in 2..5 {
        scene.section.add_service_server(server, 0, v4(), &name("_h._t.x"), None, 0);
    }
    let services = [service("_h._t.x", "n1.x", 81, 9), service("_h._t.x", "n2.x", 82, 0), alias("_h._t.x", "a.b")];
    let addresses = [alias("a.b", "c.d"), address("c.d", "192.0.2.1"), address("c.d", "2001:db8::1")];
    for round in 0..20_000 {
        let (id, kind) = scene.question();
        let mut bytes = match kind {
            33 => message(id, 0x8180, "_h._t.x", 33, [&services[..1 + below(2)], &[], &addresses[1..]]),
            kind if below(2) == 0 => message(id, 0x8180, "a.b", kind, [&addresses, &[], &[]]),
            kind => message(id, 0x8180, "n1.x", kind, [&[address("n1.x", "192.0.2.7")], &[], &[]]),
        };
        for _ in 0..below(4) {
            let at = 2 + below(bytes.len() - 2);
            match below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, 0xC0),
                2 => bytes[at] ^= 1 << below(8),
                _ => bytes[at] = u8::try_from(below(256)).unwrap(),
            }
            if bytes.len() < 4 {
                break;
            }
        }
        scene.tell(round % 2, &bytes);
        assert!(scene.section.size() < 200, "{}", scene.section.size());
        scene.servers.said.clear();
    }
    let counters = scene.section.counters(0);
    assert!(counters.valid > 100 && counters.invalid > 100, "{counters:?}");
}
