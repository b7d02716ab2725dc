//! The little of a ClientHello that a certificate and its options are chosen by.

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

/// Looks at the first bytes.
pub fn look(bytes: &[u8]) -> FirstBytes {
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
        if let Some(hello) = whole_message(&message) {
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
fn whole_message(message: &[u8]) -> Option<Option<ClientHello>> {
    let &[kind, a, b, c, ref behind @ ..] = message else { return None };
    let body = behind.get(..u32::from_be_bytes([0, a, b, c]) as usize)?;
    Some(if kind == 1 { read(body) } else { None })
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

fn read(body: &[u8]) -> Option<ClientHello> {
    const SERVER_NAME: u16 = 0;
    const SIGNATURE_ALGORITHMS: u16 = 13;
    const ALPN: u16 = 16;
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.short()?;
    let suites = reader.long()?;
    reader.short()?;
    let mut hello = ClientHello::default();
    let (mut schemes, mut has_schemes) = (&[][..], false);
    if !reader.0.is_empty() {
        let mut extensions = Reader(reader.long()?);
        while !extensions.0.is_empty() {
            let (kind, mut contents) = (extensions.word()?, Reader(extensions.long()?));
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
        };
        assert_eq!(look(&record(&message)), FirstBytes::Hello(expected.clone()));
        let parts = [record(&message[..3]), record(&message[3..40]), record(&message[40..])].concat();
        for length in 0..parts.len() {
            assert_eq!(look(&parts[..length]), FirstBytes::Incomplete, "{length}");
        }
        assert_eq!(look(&parts), FirstBytes::Hello(expected));
    }

    #[test]
    fn what_is_no_hello_is_told_apart() {
        assert_eq!(look(b"GET / HTTP/1.1\r\n"), FirstBytes::PlainHttp);
        assert_eq!(look(b"GE"), FirstBytes::PlainHttp);
        assert_eq!(look(b"SSH-2.0-x\r\n"), FirstBytes::NotTls);
        assert_eq!(look(&[0x80, 0x2e, 1, 3]), FirstBytes::NotTls);
        assert_eq!(look(&[21, 3, 1, 0, 2, 2, 40]), FirstBytes::OtherTls);
        assert_eq!(look(&record(&[2, 0, 0, 0])), FirstBytes::OtherTls);
        // Whatever is cut off or changed in it, it is something.
        let message = hello();
        for place in 0..message.len() {
            let mut changed = message.clone();
            changed[place] ^= 0xff;
            let _ = look(&record(&changed));
        }
    }
}
