//! How datagrams get to the endpoint that serves their connections, wherever they have arrived.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{PoisonError, RwLock},
};

use tokio::sync::mpsc;

use crate::socket::Datagram;

/// Letters that wait for an endpoint. More are lost, as datagrams are that a socket has no room for.
const LETTERS_MAX: usize = 1_024;

/// A datagram on its way from one endpoint to another.
#[derive(Clone, Debug)]
pub struct Letter {
    bytes: Vec<u8>,
    from: SocketAddr,
    to: Option<IpAddr>,
    congestion: u8,
}

impl Letter {
    /// A copy of a datagram.
    #[must_use]
    pub fn new(datagram: &Datagram<'_>) -> Self {
        let Datagram { bytes, from, to, congestion } = *datagram;
        Self { bytes: bytes.to_vec(), from, to, congestion }
    }

    /// The datagram.
    #[must_use]
    pub fn datagram(&self) -> Datagram<'_> {
        let Self { bytes, from, to, congestion } = self;
        Datagram { bytes, from: *from, to: *to, congestion: *congestion }
    }
}

/// Where letters for an endpoint go.
#[derive(Debug)]
struct LetterBox {
    /// That of its socket.
    address: SocketAddr,
    sender: mpsc::Sender<Letter>,
}

/// The boxes of all endpoints of a process, by their numbers.
#[derive(Debug, Default)]
pub struct PostOffice {
    boxes: RwLock<HashMap<u16, LetterBox>>,
}

impl PostOffice {
    /// Opens a box for the endpoint of a socket with this address: the endpoint's number, which no other one of this process has, and what
    /// comes. It is open until the receiver is dropped. `None` if all numbers are taken.
    #[must_use]
    pub fn open(&self, address: SocketAddr) -> Option<(u16, mpsc::Receiver<Letter>)> {
        let (sender, receiver) = mpsc::channel(LETTERS_MAX);
        let mut boxes = self.boxes.write().unwrap_or_else(PoisonError::into_inner);
        boxes.retain(|_, letter_box| !letter_box.sender.is_closed());
        let number = (0..=u16::MAX).find(|number| !boxes.contains_key(number))?;
        boxes.insert(number, LetterBox { address, sender });
        Some((number, receiver))
    }

    /// Hands a datagram on to the endpoint of this number that has come to a socket of this address; whether somebody gets it.
    pub fn hand_on(&self, address: SocketAddr, endpoint: u16, datagram: &Datagram<'_>) -> bool {
        let boxes = self.boxes.read().unwrap_or_else(PoisonError::into_inner);
        let to = boxes.get(&endpoint).filter(|to| to.address == address);
        to.is_some_and(|to| to.sender.try_send(Letter::new(datagram)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_reach_the_box_of_their_endpoint() {
        let office = PostOffice::default();
        let address: SocketAddr = "127.0.0.1:443".parse().unwrap();
        let (zero, other) = office.open(address).unwrap();
        let (one, mut receiver) = office.open(address).unwrap();
        assert_eq!((zero, one), (0, 1), "sockets of one worker are told apart");
        let datagram = Datagram { bytes: b"packet", from: "127.0.0.2:5".parse().unwrap(), to: None, congestion: 2 };
        assert!(office.hand_on(address, 1, &datagram));
        assert!(!office.hand_on(address, 2, &datagram));
        assert!(!office.hand_on("127.0.0.1:444".parse().unwrap(), 1, &datagram));
        let letter = receiver.try_recv().unwrap();
        assert_eq!(letter.datagram().bytes, b"packet");
        assert_eq!((letter.datagram().from, letter.datagram().congestion), (datagram.from, 2));
        for _ in 0..LETTERS_MAX {
            assert!(office.hand_on(address, 1, &datagram));
        }
        assert!(!office.hand_on(address, 1, &datagram), "the box is full");
        drop(receiver);
        assert!(!office.hand_on(address, 1, &datagram));
        let third = office.open("127.0.0.1:444".parse().unwrap());
        assert_eq!(third.map(|(number, _)| number), Some(1), "a number is free when its endpoint is gone");
        drop(other);
    }
}
