//! How datagrams get to the worker that serves their connections, wherever they have arrived.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{PoisonError, RwLock},
};

use tokio::sync::mpsc;

use crate::socket::Datagram;

/// Letters that wait for a worker. More are lost, as datagrams are that a socket has no room for.
const LETTERS_MAX: usize = 1_024;

/// A datagram on its way from one worker to another.
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

/// Where letters for a worker go, about connections of the socket of this address.
type BoxKey = (SocketAddr, u16);

/// The boxes of all workers of a process.
#[derive(Debug, Default)]
pub struct PostOffice {
    boxes: RwLock<HashMap<BoxKey, mpsc::Sender<Letter>>>,
}

impl PostOffice {
    /// Opens the box of a worker for the connections of a socket. It is open until the receiver is dropped.
    #[must_use]
    pub fn open(&self, address: SocketAddr, worker: u16) -> mpsc::Receiver<Letter> {
        let (sender, receiver) = mpsc::channel(LETTERS_MAX);
        let mut boxes = self.boxes.write().unwrap_or_else(PoisonError::into_inner);
        boxes.retain(|_, sender| !sender.is_closed());
        boxes.insert((address, worker), sender);
        receiver
    }

    /// Hands a datagram on that has come to a socket of this address; whether somebody gets it.
    pub fn hand_on(&self, address: SocketAddr, worker: u16, datagram: &Datagram<'_>) -> bool {
        let boxes = self.boxes.read().unwrap_or_else(PoisonError::into_inner);
        boxes.get(&(address, worker)).is_some_and(|sender| sender.try_send(Letter::new(datagram)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_reach_the_box_of_their_address_and_worker() {
        let office = PostOffice::default();
        let address: SocketAddr = "127.0.0.1:443".parse().unwrap();
        let mut receiver = office.open(address, 1);
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
    }
}
