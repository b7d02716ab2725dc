//! Where the body of a response goes that is pulled from its server: into an object, or to one client.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use accelerator::{
    backend::{IncludeFinder, Reading, Recoding},
    client::Fetched,
    recode::Recoder,
};
use bytes::Bytes;
use cache::{
    body::Cursor,
    esi::Note,
    index,
    object::{Filler, Object},
};
use http::{BodyLength, ChunkedDecoder, ResponseHead};
use live::LiveProxy;
use tokio::sync::mpsc;

use super::{Report, Told};
use crate::session::{
    body::{Intake, PumpFailure, Sink as _, Source},
    fetch::{Answer, AnswerBody},
    transaction::Transaction,
};

/// How often others are made to leave a storage for one piece of a body.
const EVICTIONS_MAX: usize = 64;

/// How often a fetch that waits looks whether anybody still wants what it brings.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Where a body goes that is pulled.
pub(super) trait Destination {
    /// Takes what has come.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until more may come.
    async fn make_room(&mut self) -> io::Result<()>;

    /// Whether anybody wants what comes.
    fn is_wanted(&self) -> bool;
}

/// Who is to hear of an object, until they have.
pub(super) struct News {
    pub(super) object: Option<Arc<Object>>,
    pub(super) fetch: Option<index::Fetch>,
    /// The head that who has ordered it gets instead of the object's.
    pub(super) own: Option<Box<ResponseHead>>,
    pub(super) told: Told,
}

impl News {
    /// Puts the object into the index, and tells who had it fetched.
    pub(super) fn tell(&mut self) {
        let Some(object) = self.object.take() else { return };
        if let Some(fetch) = self.fetch.take() {
            fetch.publish(Arc::clone(&object));
        }
        let fetched = match self.own.take() {
            Some(own) => Fetched::Own(object, own),
            None => Fetched::Object(object),
        };
        let _ = self.told.send(Report::Fetched(fetched));
    }

    /// Whether anybody is going to read the object: one that is for one client alone is for nobody when that has left.
    pub(super) fn is_wanted(&self, filler: &Filler) -> bool {
        match (&self.fetch, &self.object) {
            (Some(_), _) => true,
            (None, Some(_)) => !self.told.is_closed(),
            (None, None) => filler.is_shared() || filler.has_readers(),
        }
    }
}

/// Into an object.
pub(super) struct Filling {
    pub(super) filler: Filler,
    pub(super) recoder: Recoder,
    pub(super) includes: Option<IncludeFinder>,
    /// What is wrong with the page.
    pub(super) notes: Vec<Note>,
    pub(super) news: News,
    /// Bytes that came.
    pub(super) pulled: u64,
    /// The last byte of what is only tried: it goes on when the whole has stood the trial, so that nobody takes a damaged body for whole.
    pub(super) held: Option<u8>,
}

impl Filling {
    pub(super) fn new(filler: Filler, recoding: Recoding, includes: Option<IncludeFinder>, news: News) -> Self {
        Self { filler, recoder: Recoder::new(recoding), includes, notes: Vec::new(), news, pulled: 0, held: None }
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(includes) = &mut self.includes {
            includes.look_at(bytes);
        }
        write(&mut self.filler, bytes)
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        let rest = self.recoder.finish()?;
        self.store(&rest)?;
        if let Some(last) = self.held.take() {
            self.store(&[last])?;
        }
        self.filler.flush();
        let Some((reading, notes)) = self.includes.take().map(IncludeFinder::finish) else { return Ok(()) };
        self.notes = notes;
        match reading {
            Reading::Page(page) => self.filler.set_page(page).map_err(io::Error::other),
            Reading::Packed => self.pack(),
            Reading::Plain => Ok(()),
        }
    }

    /// Stores in gzip what includes nothing after all. NOTE: nobody has seen the object yet.
    fn pack(&mut self) -> io::Result<()> {
        let (object, mut filler) = self.filler.begin_again().map_err(io::Error::other)?;
        let mut recoder = Recoder::new(Recoding::Gzip);
        let mut cursor = Cursor::default();
        let mut context = Context::from_waker(Waker::noop());
        let arrived = self.filler.object().body().arrived();
        while cursor.read() < arrived {
            let Poll::Ready(Ok(Some(chunk))) = self.filler.object().poll_next(&mut cursor, &mut context) else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            let packed = recoder.push(&chunk)?.unwrap_or_default();
            filler.write(&packed).map_err(io::Error::other)?;
        }
        filler.write(&recoder.finish()?).map_err(io::Error::other)?;
        self.filler = filler;
        self.news.object = Some(object);
        Ok(())
    }

    /// Takes the body over of an object that has not changed.
    pub(super) async fn copy(&mut self, before: &Object) -> io::Result<()> {
        let mut cursor = Cursor::default();
        while let Some(chunk) =
            poll_fn(|context| before.poll_next(&mut cursor, context)).await.map_err(io::Error::other)?
        {
            self.filler.push(chunk).map_err(io::Error::other)?;
        }
        if let Some(page) = before.page() {
            self.filler.set_page(page.clone()).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Destination for Filling {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pulled += bytes.len() as u64;
        match self.recoder.push(bytes)? {
            Some(recoded) => self.store(&recoded)?,
            None if matches!(self.recoder, Recoder::Test(_)) => {
                if let Some((last, before)) = bytes.split_last() {
                    if let Some(held) = self.held.replace(*last) {
                        self.store(&[held])?;
                    }
                    self.store(before)?;
                }
            }
            None => self.store(bytes)?,
        }
        self.filler.flush();
        Ok(())
    }

    async fn make_room(&mut self) -> io::Result<()> {
        if self.filler.poll_room(&mut Context::from_waker(Waker::noop())).is_ready() {
            return Ok(());
        }
        while_wanted(|| self.is_wanted(), None, poll_fn(|context| self.filler.poll_room(context).map(Ok))).await
    }

    fn is_wanted(&self) -> bool {
        self.news.is_wanted(&self.filler)
    }
}

/// Waits, no longer than `patience`, and only as long as somebody wants what comes.
async fn while_wanted(
    is_wanted: impl Fn() -> bool,
    patience: Option<Duration>,
    what: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut what = pin!(what);
    let mut waited = Duration::ZERO;
    loop {
        if !is_wanted() {
            return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
        }
        let left = patience.map_or(Duration::MAX, |patience| patience.saturating_sub(waited));
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        // NOTE: a reader that leaves while nothing comes is noticed by looking, not by being told.
        let pause = left.min(LOOK_AFTER);
        match tokio::time::timeout(pause, what.as_mut()).await {
            Ok(result) => return result,
            Err(_) => waited += pause,
        }
    }
}

/// Writes a piece of a body; others leave for it, many small ones for a large one.
pub(super) fn write(filler: &mut Filler, bytes: &[u8]) -> io::Result<()> {
    let start = filler.written();
    for _ in 1..EVICTIONS_MAX {
        let done = usize::try_from(filler.written() - start).unwrap_or(usize::MAX);
        if filler.write(bytes.get(done..).unwrap_or_default()).is_ok() {
            return Ok(());
        }
    }
    let done = usize::try_from(filler.written() - start).unwrap_or(usize::MAX);
    filler.write(bytes.get(done..).unwrap_or_default()).map_err(io::Error::other)
}

/// To one client.
pub(super) struct Relaying {
    pub(super) pieces: mpsc::Sender<Option<Bytes>>,
    pub(super) waiting: Option<Bytes>,
}

impl Destination for Relaying {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting = (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes));
        Ok(())
    }

    async fn make_room(&mut self) -> io::Result<()> {
        if self.waiting.is_none() {
            return Ok(());
        }
        // NOTE: who has left has dropped the other end.
        self.pieces.send(self.waiting.take()).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn is_wanted(&self) -> bool {
        !self.pieces.is_closed()
    }
}

/// Pulls a body from its server, without its framing.
pub(super) async fn pull(
    answer: &mut Answer<'_>,
    exchange: &Transaction,
    proxy: &Arc<LiveProxy>,
    sink: &mut impl Destination,
) -> io::Result<()> {
    let limits = exchange.response_limits(proxy.settings());
    let mut intake = Intake::new(answer.length, &limits);
    let mut decoder = (answer.length == BodyLength::Chunked).then(|| ChunkedDecoder::new(&limits));
    let patience = exchange.by_rules.server_timeout.get().or(proxy.settings().timeouts.server);
    let upstream = match &mut answer.body {
        AnswerBody::Server { upstream, .. } => upstream,
        AnswerBody::Stored(stored) => return pull_from(stored, (intake, patience), sink).await,
        AnswerBody::File(file) => return pull_from(&mut **file, (intake, patience), sink).await,
        AnswerBody::Object(_) | AnswerBody::Page(_) => return Ok(()),
    };
    let connection = &mut *upstream.connection;
    let codec = &mut connection.codec;
    let mut decoded = Vec::new();
    loop {
        intake.approve(codec).map_err(|error| io::Error::other(error.to_string()))?;
        let bytes = intake.bytes(codec);
        match &mut decoder {
            _ if bytes.is_empty() => {}
            Some(decoder) => {
                decoded.clear();
                decoder.decode_into(bytes, &mut decoded).map_err(|error| io::Error::other(error.to_string()))?;
                sink.take(&decoded)?;
            }
            None => sink.take(bytes)?,
        }
        intake.consume(codec, intake.approved());
        sink.make_room().await?;
        if intake.has_ended() {
            return Ok(());
        }
        let more = poll_fn(|context| {
            // NOTE: a server that takes no more of the request may still answer; its connection ends then.
            if !connection.is_request_sent && matches!(codec.poll_flush(context), Poll::Ready(Ok(()))) {
                connection.is_request_sent = true;
            }
            intake.poll_more(codec, context).map_err(failure)
        });
        while_wanted(|| sink.is_wanted(), patience, more).await?;
    }
}

/// Pulls a body that comes of no server, and whose length is known.
async fn pull_from(
    source: &mut impl Source,
    (mut intake, patience): (Intake, Option<Duration>),
    sink: &mut impl Destination,
) -> io::Result<()> {
    loop {
        intake.approve(source).map_err(|error| io::Error::other(error.to_string()))?;
        let bytes = intake.bytes(source);
        if !bytes.is_empty() {
            sink.take(bytes)?;
        }
        intake.consume(source, intake.approved());
        sink.make_room().await?;
        if intake.has_ended() {
            return Ok(());
        }
        let more = poll_fn(|context| intake.poll_more(source, context).map_err(failure));
        while_wanted(|| sink.is_wanted(), patience, more).await?;
    }
}

fn failure(why: PumpFailure) -> io::Error {
    match why {
        PumpFailure::Receive(error) | PumpFailure::Send(error) => error,
        _ => io::Error::from(io::ErrorKind::UnexpectedEof),
    }
}
