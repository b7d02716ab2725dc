//! The little of a ClientHello that a certificate and its options are chosen by.

use twox_hash::XxHash64;

use crate::records::{HEAD, PLAIN_MAX, kind};

/// What stands in a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The host name that it asks for, in lower case.
    pub server_name: Option<String>,
    /// Whether it takes certificates with a key of elliptic curves.
    pub takes_ecdsa: bool,
    /// Whether it takes certificates with a key of RSA.
    pub takes_rsa: bool,
    /// The protocols that it offers.
    pub protocols: Vec<Vec<u8>>,
    /// What else it offers, if that is kept.
    pub offered: Option<Box<Offered>>,
}

/// What a client offers in its ClientHello, as it stands there: numbers of two bytes, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The version of the hello itself.
    pub version: u16,
    /// Cipher suites, as many as there was room for.
    pub suites: Vec<u8>,
    /// All of them, as a number.
    pub suites_hash: u64,
    /// Kinds of extensions.
    pub extensions: Vec<u8>,
    /// Groups of keys: curves.
    pub groups: Vec<u8>,
    /// Formats of points, a byte each.
    pub formats: Vec<u8>,
}

impl Offered {
    /// The names of the cipher suites, by OpenSSL.
    #[must_use]
    pub fn suite_names(suites: &[u8]) -> String {
        let name =
            |number| crate::suites::named(number).map_or_else(|| format!("UNKNOWN({number:04x})"), str::to_owned);
        words(suites).map(name).collect::<Vec<_>>().join(",")
    }

    /// Numbers without those that are there only so that nobody relies on knowing all (GREASE, RFC 8701).
    #[must_use]
    pub fn without_grease(numbers: &[u8]) -> Vec<u8> {
        let is_grease = |pair: &&[u8]| matches!(pair, [high, low] if high == low && high & 0x0f == 0x0a);
        numbers.chunks_exact(2).filter(|pair| !is_grease(pair)).flatten().copied().collect()
    }

    /// Keeps what fits into so many bytes, in HAProxy's order.
    fn fit(&mut self, room: usize) {
        let mut room = room;
        // Whole numbers of extensions, and whatever fits of the rest.
        let extensions = |room: usize| room & !1;
        for (part, most) in [
            (&mut self.suites, None),
            (&mut self.extensions, Some(extensions as fn(usize) -> usize)),
            (&mut self.groups, None),
            (&mut self.formats, None),
        ] {
            part.truncate(most.map_or(room, |most| most(room)));
            room -= part.len();
        }
    }
}

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// A part of a ClientHello.
    Incomplete,
    /// A ClientHello.
    Hello(ClientHello),
    /// Something of TLS that is none, which is refused as such.
    OtherTls,
    /// A request of HTTP.
    PlainHttp,
    /// No TLS.
    NotTls,
}

/// Looks at the first bytes; of what a client offers, so many bytes are kept.
pub fn look(bytes: &[u8], kept: usize) -> FirstBytes {
    match bytes {
        [] => return FirstBytes::Incomplete,
        [kind::HANDSHAKE, ..] => {}
        [first, ..] if *first == kind::ALERT || *first == kind::CHANGE_CIPHER_SPEC || *first == kind::DATA => {
            return FirstBytes::OtherTls;
        }
        [b'A'..=b'Z', ..] if is_http(bytes) => return FirstBytes::PlainHttp,
        _ => return FirstBytes::NotTls,
    }
    // The message may be in several records.
    let (mut message, mut rest) = (Vec::new(), bytes);
    loop {
        if let Some(hello) = whole_message(&message, kept) {
            return hello.map_or(FirstBytes::OtherTls, FirstBytes::Hello);
        }
        let &[kind, major, _, high, low, ref behind @ ..] = rest else { return FirstBytes::Incomplete };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if major != 3 {
            return FirstBytes::NotTls;
        }
        if kind != kind::HANDSHAKE || length == 0 || length > PLAIN_MAX {
            return FirstBytes::OtherTls;
        }
        let Some((body, behind)) = behind.split_at_checked(length) else { return FirstBytes::Incomplete };
        debug_assert_eq!(rest.len(), HEAD + body.len() + behind.len());
        message.extend_from_slice(body);
        rest = behind;
    }
}

fn is_http(bytes: &[u8]) -> bool {
    const METHODS: &[&[u8]] =
        &[b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PATCH ", b"TRACE ", b"PRI * "];
    METHODS.iter().any(|method| bytes.starts_with(method) || method.starts_with(bytes))
}

/// The message, once it is whole; `Some(None)` for one that is malformed.
pub fn whole_message(message: &[u8], kept: usize) -> Option<Option<ClientHello>> {
    let &[kind, a, b, c, ref behind @ ..] = message else { return None };
    let body = behind.get(..u32::from_be_bytes([0, a, b, c]) as usize)?;
    Some(if kind == 1 { read(body, kept) } else { None })
}

/// Bytes with lengths before them.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn word(&mut self) -> Option<u16> {
        let &[high, low] = self.take(2)? else { return None };
        Some(u16::from_be_bytes([high, low]))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.word()?;
        self.take(usize::from(length))
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| match pair {
        [high, low] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    })
}

fn read(body: &[u8], kept: usize) -> Option<ClientHello> {
    const SERVER_NAME: u16 = 0;
    const GROUPS: u16 = 10;
    const POINT_FORMATS: u16 = 11;
    const SIGNATURE_ALGORITHMS: u16 = 13;
    const ALPN: u16 = 16;
    let mut reader = Reader(body);
    let version = reader.word()?;
    reader.take(32)?;
    reader.short()?;
    let suites = reader.long()?;
    reader.short()?;
    let mut hello = ClientHello::default();
    let mut offered = (kept > 0).then(|| {
        let suites_hash = XxHash64::oneshot(0, suites);
        Box::new(Offered { version, suites: suites.to_vec(), suites_hash, ..Offered::default() })
    });
    let (mut schemes, mut has_schemes) = (&[][..], false);
    if !reader.0.is_empty() {
        let mut extensions = Reader(reader.long()?);
        while !extensions.0.is_empty() {
            let (kind, mut contents) = (extensions.word()?, Reader(extensions.long()?));
            if let Some(offered) = &mut offered {
                offered.extensions.extend(kind.to_be_bytes());
                match kind {
                    GROUPS => offered.groups = Reader(contents.0).long()?.to_vec(),
                    POINT_FORMATS => offered.formats = Reader(contents.0).short()?.to_vec(),
                    _ => {}
                }
            }
            match kind {
                SERVER_NAME => {
                    let mut names = Reader(contents.long()?);
                    while !names.0.is_empty() {
                        let (kind, name) = (names.byte()?, names.long()?);
                        if kind == 0 && hello.server_name.is_none() {
                            hello.server_name = std::str::from_utf8(name).ok().map(str::to_ascii_lowercase);
                        }
                    }
                }
                SIGNATURE_ALGORITHMS => (schemes, has_schemes) = (contents.long()?, true),
                ALPN => {
                    let mut names = Reader(contents.long()?);
                    while !names.0.is_empty() {
                        hello.protocols.push(names.short()?.to_vec());
                    }
                }
                _ => {}
            }
        }
    }
    // Suites of TLS 1.3 leave the certificate open.
    let offers = |wanted: &[u16]| words(suites).any(|suite| wanted.contains(&suite) || suite >> 8 == 0x13);
    let signs = |wanted: &[u16]| words(schemes).any(|scheme| wanted.contains(&scheme));
    hello.takes_ecdsa = offers(&[0xc02b, 0xc02c, 0xcca9]) && signs(&[0x0403, 0x0503, 0x0603, 0x0807]);
    hello.takes_rsa = offers(&[0xc02f, 0xc030, 0xcca8])
        && (!has_schemes || signs(&[0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806, 0x0809, 0x080a, 0x080b]));
    if let Some(offered) = &mut offered {
        offered.fit(kept);
    }
    hello.offered = offered;
    Some(hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u8]) -> Vec<u8> {
        [&[22, 3, 1][..], &(body.len() as u16).to_be_bytes(), body].concat()
    }

    fn hello() -> Vec<u8> {
        let name = b"WWW.example.com";
        let mut names = vec![0];
        names.extend((name.len() as u16).to_be_bytes());
        names.extend(name);
        let mut server_name = (names.len() as u16).to_be_bytes().to_vec();
        server_name.extend(&names);
        let mut extensions = vec![];
        for (kind, body) in
            [(0_u16, server_name), (13, vec![0, 4, 4, 3, 8, 4]), (16, b"\0\x0c\x02h2\x08http/1.1".to_vec())]
        {
            extensions.extend(kind.to_be_bytes());
            extensions.extend((body.len() as u16).to_be_bytes());
            extensions.extend(body);
        }
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 4, 0xc0, 0x2f, 0x13, 0x01]);
        body.extend([1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        message
    }

    #[test]
    fn a_hello_is_read_whole_or_in_parts() {
        let message = hello();
        let expected = ClientHello {
            server_name: Some("www.example.com".to_owned()),
            takes_ecdsa: true,
            takes_rsa: true,
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            offered: None,
        };
        assert_eq!(look(&record(&message), 0), FirstBytes::Hello(expected.clone()));
        let parts = [record(&message[..3]), record(&message[3..40]), record(&message[40..])].concat();
        for length in 0..parts.len() {
            assert_eq!(look(&parts[..length], 0), FirstBytes::Incomplete, "{length}");
        }
        assert_eq!(look(&parts, 0), FirstBytes::Hello(expected));
    }

    #[test]
    fn what_is_offered_is_kept_as_far_as_there_is_room() {
        let offered = |kept| match look(&record(&hello()), kept) {
            FirstBytes::Hello(hello) => hello.offered,
            _ => None,
        };
        assert_eq!(offered(0), None);
        let all = offered(100).unwrap();
        assert_eq!((all.version, all.suites.as_slice()), (0x303, &[0xc0, 0x2f, 0x13, 0x01][..]));
        assert_eq!(all.extensions, [0, 0, 0, 13, 0, 16]);
        assert_eq!(Offered::suite_names(&all.suites), "ECDHE-RSA-AES128-GCM-SHA256,TLS_AES_128_GCM_SHA256");
        let some = offered(7).unwrap();
        assert_eq!((some.suites.len(), some.extensions.as_slice()), (4, &[0, 0][..]));
        assert_eq!(some.suites_hash, all.suites_hash);
        assert_eq!(Offered::without_grease(&[0x1a, 0x1a, 0x13, 0x01, 0x0a, 0x1a]), [0x13, 0x01, 0x0a, 0x1a]);
        assert_eq!(Offered::suite_names(&[0x1a, 0x1a]), "UNKNOWN(1a1a)");
    }

    #[test]
    fn what_is_no_hello_is_told_apart() {
        assert_eq!(look(b"GET / HTTP/1.1\r\n", 0), FirstBytes::PlainHttp);
        assert_eq!(look(b"GE", 0), FirstBytes::PlainHttp);
        assert_eq!(look(b"SSH-2.0-x\r\n", 0), FirstBytes::NotTls);
        assert_eq!(look(&[0x80, 0x2e, 1, 3], 0), FirstBytes::NotTls);
        assert_eq!(look(&[21, 3, 1, 0, 2, 2, 40], 0), FirstBytes::OtherTls);
        assert_eq!(look(&record(&[2, 0, 0, 0]), 0), FirstBytes::OtherTls);
        // Whatever is cut off or changed in it, it is something.
        let message = hello();
        for place in 0..message.len() {
            let mut changed = message.clone();
            changed[place] ^= 0xff;
            let _ = look(&record(&changed), 0);
        }
    }
}
