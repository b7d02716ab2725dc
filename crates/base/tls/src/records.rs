//! Records after the handshake: sealed and opened in place.
//!
//! The formats are those of RFC 8446 section 5 and, for TLS 1.2, RFC 5246 section 6.2 with the ciphers of RFC 5288 and RFC 7905.
//! What else comes after a handshake (alerts, key updates, tickets) is dealt with here too. Bounded are: the length of a record,
//! records in a row that carry no data, and messages of handshakes.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::{
    ConnectionTrafficSecrets, ExtractedSecrets, client::ClientConnectionData, kernel::KernelConnection,
    server::ServerConnectionData,
};

use crate::{
    blocks::Block,
    failure::{Failure, alert_name},
};

/// Bytes of a record's head.
pub const HEAD: usize = 5;
/// Most bytes of plain text in a record.
pub const PLAIN_MAX: usize = 16_384;
/// Bytes of a tag, of each cipher.
const TAG: usize = 16;
/// Bytes of a nonce that TLS 1.2 sends with each record of AES-GCM.
const EXPLICIT_NONCE: usize = 8;
/// Most records in a row that carry no data.
const IDLE_RECORDS_MAX: u32 = 32;
/// Most bytes of a message of the handshake: a ticket with what comes with it.
const MESSAGE_MAX: usize = 65_536 + 64;
/// Blocks of a cipher after which a key is replaced. AES-GCM allows some 2^34.5 of them (RFC 8446 section 5.5).
const BLOCKS_MAX: u64 = 1 << 34;

/// What is in a record.
pub mod kind {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const DATA: u8 = 23;
}

/// Messages of the handshake that come after it.
mod message {
    pub const HELLO_REQUEST: u8 = 0;
    pub const CLIENT_HELLO: u8 = 1;
    pub const NEW_SESSION_TICKET: u8 = 4;
    pub const KEY_UPDATE: u8 = 24;
}

/// Alerts that are sent from here.
pub mod alert {
    pub const CLOSE_NOTIFY: u8 = 0;
    pub const UNEXPECTED_MESSAGE: u8 = 10;
    pub const BAD_RECORD_MAC: u8 = 20;
    pub const DECODE_ERROR: u8 = 50;
    pub const USER_CANCELED: u8 = 90;
    pub const NO_RENEGOTIATION: u8 = 100;
}

/// A key of one direction.
struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// Of the next record.
    sequence: u64,
    /// Of the cipher, so far.
    blocks: u64,
    /// TLS 1.2 with AES-GCM: a part of the nonce is sent with each record.
    has_explicit_nonce: bool,
}

impl Key {
    fn new(sequence: u64, secrets: &ConnectionTrafficSecrets, is_tls13: bool) -> Result<Self, Failure> {
        let (algorithm, key, iv, is_gcm) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, false),
            _ => return Err(Failure::Protocol("a cipher that is not known".to_owned())),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unsound())?;
        let iv = iv.as_ref().try_into().map_err(|_| unsound())?;
        let has_explicit_nonce = is_gcm && !is_tls13;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence, blocks: 0, has_explicit_nonce })
    }

    /// The nonce of the next record; counts it.
    fn nonce(&mut self) -> Result<[u8; NONCE_LEN], Failure> {
        let mut nonce = self.iv;
        for (byte, number) in nonce.iter_mut().rev().zip(self.sequence.to_le_bytes()) {
            *byte ^= number;
        }
        // A key has been replaced long before.
        self.sequence = self.sequence.checked_add(1).ok_or_else(unsound)?;
        Ok(nonce)
    }
}

fn unsound() -> Failure {
    Failure::Protocol("a key that cannot be used".to_owned())
}

/// The part of a connection that knows how keys follow from each other.
enum Kernel {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

/// The records of a connection whose handshake is done.
pub struct Records {
    sealing: Key,
    opening: Key,
    kernel: Kernel,
    is_tls13: bool,
    /// A message of the handshake that has not come whole.
    message: Vec<u8>,
    idle_records: u32,
    wants_key_update: bool,
}

/// What opening a record has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Data: where it is in the block, and the bytes of the whole record.
    Data { offset: usize, length: usize, record: usize },
    /// Something that was dealt with, of so many bytes.
    Nothing { record: usize },
    /// The end, of so many bytes.
    End { record: usize },
}

impl Records {
    pub fn of_client(
        secrets: &ExtractedSecrets,
        kernel: KernelConnection<ClientConnectionData>,
    ) -> Result<Self, Failure> {
        let is_tls13 = kernel.protocol_version() == rustls::ProtocolVersion::TLSv1_3;
        Self::new(secrets, Kernel::Client(kernel), is_tls13)
    }

    pub fn of_server(
        secrets: &ExtractedSecrets,
        kernel: KernelConnection<ServerConnectionData>,
    ) -> Result<Self, Failure> {
        let is_tls13 = kernel.protocol_version() == rustls::ProtocolVersion::TLSv1_3;
        Self::new(secrets, Kernel::Server(kernel), is_tls13)
    }

    fn new(secrets: &ExtractedSecrets, kernel: Kernel, is_tls13: bool) -> Result<Self, Failure> {
        Ok(Self {
            sealing: Key::new(secrets.tx.0, &secrets.tx.1, is_tls13)?,
            opening: Key::new(secrets.rx.0, &secrets.rx.1, is_tls13)?,
            kernel,
            is_tls13,
            message: Vec::new(),
            idle_records: 0,
            wants_key_update: false,
        })
    }

    /// Seals bytes, in two pieces, as one record of data behind what waits; how many of them went in.
    pub fn seal_data(&mut self, first: &[u8], second: &[u8], out: &mut Block) -> Result<usize, Failure> {
        self.update_if_due(out)?;
        let first = first.get(..PLAIN_MAX).unwrap_or(first);
        let second = second.get(..PLAIN_MAX - first.len()).unwrap_or(second);
        self.seal(kind::DATA, first, second, out)?;
        Ok(first.len() + second.len())
    }

    /// Seals an alert.
    pub fn seal_alert(&mut self, level: u8, alert: u8, out: &mut Block) -> Result<(), Failure> {
        self.seal(kind::ALERT, &[level, alert], &[], out)
    }

    fn seal(&mut self, kind: u8, first: &[u8], second: &[u8], out: &mut Block) -> Result<(), Failure> {
        let key = &mut self.sealing;
        let length = first.len() + second.len();
        let sequence = key.sequence;
        let nonce = key.nonce()?;
        key.blocks += length as u64 / 16 + 1;
        let explicit = if key.has_explicit_nonce { EXPLICIT_NONCE } else { 0 };
        // TLS 1.3 says at the end of the text what it is.
        let inner = length + usize::from(self.is_tls13);
        let body = explicit + inner + TAG;
        let room =
            out.room().get_mut(..HEAD + body).ok_or_else(|| Failure::Protocol("no room for a record".to_owned()))?;
        let head = [if self.is_tls13 { kind::DATA } else { kind }, 3, 3, (body >> 8) as u8, body as u8];
        let (start, rest) = room.split_at_mut(HEAD);
        start.copy_from_slice(&head);
        let (nonce_sent, rest) = rest.split_at_mut(explicit);
        nonce_sent.copy_from_slice(nonce.get(NONCE_LEN - explicit..).unwrap_or_default());
        let (text, tag_sent) = rest.split_at_mut(inner);
        let (one, other) = text.split_at_mut(first.len());
        one.copy_from_slice(first);
        let (two, of_13) = other.split_at_mut(second.len());
        two.copy_from_slice(second);
        of_13.fill(kind);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = if self.is_tls13 {
            key.key.seal_in_place_separate_tag(nonce, Aad::from(head), text)
        } else {
            key.key.seal_in_place_separate_tag(nonce, Aad::from(additional(sequence, kind, length)), text)
        };
        tag_sent.copy_from_slice(tag.map_err(|_| unsound())?.as_ref());
        out.fill(HEAD + body);
        Ok(())
    }

    /// Answers a key update, and makes one where a key has been used enough.
    fn update_if_due(&mut self, out: &mut Block) -> Result<(), Failure> {
        if self.sealing.blocks < BLOCKS_MAX && !self.wants_key_update {
            return Ok(());
        }
        if !self.is_tls13 {
            return Err(Failure::Protocol(
                "so much was sent that the key may not be used any more (TLS 1.2)".to_owned(),
            ));
        }
        self.wants_key_update = false;
        self.seal(kind::HANDSHAKE, &[message::KEY_UPDATE, 0, 0, 1, 0], &[], out)?;
        let updated = match &mut self.kernel {
            Kernel::Client(kernel) => kernel.update_tx_secret(),
            Kernel::Server(kernel) => kernel.update_tx_secret(),
        };
        let (sequence, secrets) = updated.map_err(|error| Failure::of(&error))?;
        self.sealing = Key::new(sequence, &secrets, true)?;
        Ok(())
    }

    /// Opens the record at the front of `bytes`; `None` while it has not come whole. What is to be answered goes to `out`.
    pub fn open(&mut self, bytes: &mut [u8], out: &mut Block) -> Result<Option<Opened>, Failure> {
        let Some(length) = whole_record(bytes, self.is_tls13)? else { return Ok(None) };
        let record = HEAD + length;
        let (kind, offset, text_length) = self.open_text(bytes.get_mut(..record).unwrap_or_default())?;
        if kind == kind::DATA && text_length > 0 {
            self.idle_records = 0;
            return Ok(Some(Opened::Data { offset, length: text_length, record }));
        }
        self.idle_records += 1;
        if self.idle_records > IDLE_RECORDS_MAX {
            return self.refuse(alert::UNEXPECTED_MESSAGE, "too many records without data", out);
        }
        let text = bytes.get(offset..offset + text_length).unwrap_or_default();
        match kind {
            kind::DATA => Ok(Some(Opened::Nothing { record })),
            kind::ALERT => self.on_alert(text, record),
            kind::HANDSHAKE => self.on_message(text, record, out),
            _ => self.refuse(alert::UNEXPECTED_MESSAGE, "a record of a kind that has no place here", out),
        }
    }

    /// Opens a whole record in place: its kind, and where its text is.
    fn open_text(&mut self, record: &mut [u8]) -> Result<(u8, usize, usize), Failure> {
        let bad = || Failure::Protocol("a record that was changed on its way (bad record mac)".to_owned());
        let key = &mut self.opening;
        let sequence = key.sequence;
        let mut nonce = key.nonce()?;
        let explicit = if key.has_explicit_nonce { EXPLICIT_NONCE } else { 0 };
        let (head, body) = record.split_at_mut_checked(HEAD).ok_or_else(bad)?;
        let head: [u8; HEAD] = (&*head).try_into().map_err(|_| bad())?;
        let (nonce_sent, sealed) = body.split_at_mut_checked(explicit).ok_or_else(bad)?;
        if let Some(place) = nonce.get_mut(NONCE_LEN - explicit..).filter(|_| explicit > 0) {
            // The part that is not sent is that of the key.
            let salt: [u8; NONCE_LEN - EXPLICIT_NONCE] = [key.iv[0], key.iv[1], key.iv[2], key.iv[3]];
            place.copy_from_slice(nonce_sent);
            let (front, _) = nonce.split_at_mut(NONCE_LEN - EXPLICIT_NONCE);
            front.copy_from_slice(&salt);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let offset = HEAD + explicit;
        if !self.is_tls13 {
            let length = sealed.len().checked_sub(TAG).ok_or_else(bad)?;
            let [kind, ..] = head;
            let text = key.key.open_in_place(nonce, Aad::from(additional(sequence, kind, length)), sealed);
            let text = text.map_err(|_| bad())?;
            return match text.len() {
                length if length <= PLAIN_MAX => Ok((kind, offset, length)),
                _ => Err(Failure::Protocol("a record that is too long".to_owned())),
            };
        }
        if head.first() != Some(&kind::DATA) {
            return Err(Failure::Protocol("a record that is not sealed".to_owned()));
        }
        let text = key.key.open_in_place(nonce, Aad::from(head), sealed).map_err(|_| bad())?;
        // RFC 8446 section 5.4: what it is stands behind the text, and zeros may stand behind that.
        let last = text.iter().rposition(|byte| *byte != 0);
        let last = last.ok_or_else(|| Failure::Protocol("a record that does not say what it is".to_owned()))?;
        if last > PLAIN_MAX {
            return Err(Failure::Protocol("a record that is too long".to_owned()));
        }
        Ok((text.get(last).copied().unwrap_or(0), offset, last))
    }

    fn on_alert(&mut self, text: &[u8], record: usize) -> Result<Option<Opened>, Failure> {
        const WARNING: u8 = 1;
        match text {
            [_, alert::CLOSE_NOTIFY] => Ok(Some(Opened::End { record })),
            [_, alert::USER_CANCELED] => Ok(Some(Opened::Nothing { record })),
            [WARNING, _] if !self.is_tls13 => Ok(Some(Opened::Nothing { record })),
            [_, alert] => Err(Failure::Alert(alert_name(*alert))),
            _ => Err(Failure::Protocol("an alert that is malformed".to_owned())),
        }
    }

    /// Takes in a part of messages of the handshake.
    fn on_message(&mut self, text: &[u8], record: usize, out: &mut Block) -> Result<Option<Opened>, Failure> {
        if text.is_empty() {
            return self.refuse(alert::UNEXPECTED_MESSAGE, "a handshake record without a message", out);
        }
        let mut waiting = std::mem::take(&mut self.message);
        waiting.extend_from_slice(text);
        let mut rest = waiting.as_slice();
        while let &[kind, a, b, c, ref behind @ ..] = rest {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if length > MESSAGE_MAX {
                return self.refuse(alert::DECODE_ERROR, "a message that is too long", out);
            }
            let Some((body, behind)) = behind.split_at_checked(length) else { break };
            let is_last = behind.is_empty();
            self.take_message(kind, body, is_last, out)?;
            rest = behind;
        }
        self.message = rest.to_vec();
        Ok(Some(Opened::Nothing { record }))
    }

    fn take_message(&mut self, kind: u8, body: &[u8], is_last: bool, out: &mut Block) -> Result<(), Failure> {
        match (kind, &mut self.kernel) {
            (message::KEY_UPDATE, kernel) if self.is_tls13 && is_last => {
                let wanted = match body {
                    [0] => false,
                    [1] => true,
                    _ => return self.refuse(alert::DECODE_ERROR, "a key update that is malformed", out).map(drop),
                };
                let updated = match kernel {
                    Kernel::Client(kernel) => kernel.update_rx_secret(),
                    Kernel::Server(kernel) => kernel.update_rx_secret(),
                };
                let (sequence, secrets) = updated.map_err(|error| Failure::of(&error))?;
                self.opening = Key::new(sequence, &secrets, true)?;
                // NOTE: answered before the next data, as RFC 8446 section 4.6.3 wants it, and once for all that came before.
                self.wants_key_update |= wanted;
                Ok(())
            }
            (message::NEW_SESSION_TICKET, Kernel::Client(kernel)) if self.is_tls13 => {
                // A ticket that is of no use is no reason to end.
                let _ = kernel.handle_new_session_ticket(body);
                Ok(())
            }
            (message::HELLO_REQUEST, Kernel::Client(_)) if !self.is_tls13 => Ok(()),
            (message::CLIENT_HELLO, Kernel::Server(_)) if !self.is_tls13 => {
                self.seal_alert(1, alert::NO_RENEGOTIATION, out)?;
                Err(Failure::Renegotiation)
            }
            _ => self.refuse(alert::UNEXPECTED_MESSAGE, "a message that has no place here", out).map(drop),
        }
    }

    fn refuse(&mut self, alert: u8, why: &str, out: &mut Block) -> Result<Option<Opened>, Failure> {
        self.seal_alert(2, alert, out)?;
        Err(Failure::Protocol(why.to_owned()))
    }
}

/// The length of the record at the front, once all of it has come.
fn whole_record(bytes: &[u8], is_tls13: bool) -> Result<Option<usize>, Failure> {
    let &[_, major, _, high, low, ref body @ ..] = bytes else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if major != 3 {
        return Err(Failure::NotTls);
    }
    if length > PLAIN_MAX + if is_tls13 { 256 } else { 2_048 } {
        return Err(Failure::Protocol("a record that is too long".to_owned()));
    }
    Ok((body.len() >= length).then_some(length))
}

/// Whether a whole record stands at the front, or something that is none.
pub fn has_record(bytes: &[u8], is_tls13: bool) -> bool {
    !matches!(whole_record(bytes, is_tls13), Ok(None))
}

impl Records {
    /// Whether it is TLS 1.3.
    pub fn is_tls13(&self) -> bool {
        self.is_tls13
    }
}

/// What TLS 1.2 seals with a record beside its text.
fn additional(sequence: u64, kind: u8, length: usize) -> [u8; 13] {
    let mut bytes = [0; 13];
    let (number, rest) = bytes.split_at_mut(8);
    number.copy_from_slice(&sequence.to_be_bytes());
    rest.copy_from_slice(&[kind, 3, 3, (length >> 8) as u8, length as u8]);
    bytes
}
