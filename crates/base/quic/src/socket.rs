//! A worker's UDP socket: batches of datagrams in both directions, with the system's offloads.

use std::{
    cell::RefCell,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    task::{Context, Poll, Waker, ready},
};

use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::{Interest, unix::AsyncFd};

/// Places for what the system gives in one call. Each may hold several datagrams of one sender.
const PLACES: usize = 4;

/// Bytes of such a place: the largest that a datagram is, or several together.
const PLACE_BYTES: usize = 65_535;

/// The buffers that the system is asked for: clients send in bursts, and what does not fit is lost.
const SOCKET_BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// A datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What is in it.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// To which address of this machine.
    pub to: Option<IpAddr>,
    /// The two bits of its IP header about congestion.
    pub congestion: u8,
}

/// A UDP socket that does not block.
pub struct UdpSocket {
    socket: AsyncFd<OwnedFd>,
    state: UdpSocketState,
    address: SocketAddr,
    places: RefCell<Vec<Vec<u8>>>,
    /// Who waits for room to send.
    senders: RefCell<Vec<Waker>>,
    receiver: RefCell<Option<Waker>>,
}

impl UdpSocket {
    /// A socket that is bound, under a descriptor that nobody else registers.
    ///
    /// # Errors
    /// The system's.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // What the system does not allow stays as it is.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        let address = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self {
            socket: runtime::register(socket, Interest::READABLE | Interest::WRITABLE)?,
            state,
            address,
            places: RefCell::new(vec![vec![0; PLACE_BYTES]; PLACES]),
            senders: RefCell::default(),
            receiver: RefCell::default(),
        })
    }

    /// Where it is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether what it sends may be cut in pieces on the way.
    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// How many datagrams may go in one call.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Receives once, if there is something, and shows each datagram; ready when that was done. Wakes those who wait for room to
    /// send, too, so that somebody has to poll this as long as the socket is used.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_receive(&self, context: &mut Context<'_>, mut show: impl FnMut(Datagram<'_>)) -> Poll<io::Result<()>> {
        self.receiver.replace(Some(context.waker().clone()));
        self.wake_senders(context);
        let mut places = self.places.take();
        let received = self.poll_places(context, &mut places);
        if let Poll::Ready(Ok((metas, count))) = &received {
            for (place, meta) in places.iter().zip(metas).take(*count) {
                let Some(all) = place.get(..meta.len) else { continue };
                for bytes in all.chunks(meta.stride.max(1)) {
                    let congestion = meta.ecn.map_or(0, |bits| bits as u8);
                    show(Datagram { bytes, from: meta.addr, to: meta.dst_ip, congestion });
                }
            }
        }
        self.places.replace(places);
        received.map(|result| result.map(|_| ()))
    }

    fn poll_places(
        &self,
        context: &mut Context<'_>,
        places: &mut [Vec<u8>],
    ) -> Poll<io::Result<([RecvMeta; PLACES], usize)>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(context))?;
            let mut metas = [RecvMeta::default(); PLACES];
            let mut slices: Vec<IoSliceMut<'_>> = places.iter_mut().map(|place| IoSliceMut::new(place)).collect();
            let received =
                guard.try_io(|socket| self.state.recv(UdpSockRef::from(socket.get_ref()), &mut slices, &mut metas));
            match received {
                Ok(Ok(count)) => return Poll::Ready(Ok((metas, count))),
                // A failure of what was sent before.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    /// Wakes those who wait for room to send, for one who does not receive here any more.
    pub fn poll_senders(&self, context: &mut Context<'_>) {
        self.receiver.replace(Some(context.waker().clone()));
        self.wake_senders(context);
    }

    fn wake_senders(&self, context: &mut Context<'_>) {
        if self.senders.borrow().is_empty() {
            return;
        }
        if let Poll::Ready(Ok(_)) = self.socket.poll_write_ready(context) {
            self.senders.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Sends; whether it went. If not, the task is woken when there is room.
    pub(crate) fn send(&self, transmit: &quinn_proto::Transmit, bytes: &[u8], waker: &Waker) -> bool {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|bits| quinn_udp::EcnCodepoint::from_bits(bits as u8)),
            contents: bytes,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent =
            self.socket.try_io(Interest::WRITABLE, |socket| self.state.try_send(UdpSockRef::from(socket), &transmit));
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.senders.borrow_mut().push(waker.clone());
                if let Some(receiver) = self.receiver.take() {
                    receiver.wake();
                }
                false
            }
            // NOTE: what else fails is a datagram that is lost, as any may be on its way; QUIC sends it again.
            _ => true,
        }
    }
}

impl Datagram<'_> {
    pub(crate) fn ecn(&self) -> Option<EcnCodepoint> {
        EcnCodepoint::from_bits(self.congestion)
    }
}
