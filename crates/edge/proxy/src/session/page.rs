//! Puts a page together: its own bytes, and what it includes between them, each by a request of its own through the program.
//!
//! Includes are asked for when the page comes to them, one after the other, as in Varnish. What comes before them is on its way to the
//! client by then.

use std::{future::poll_fn, io, pin::Pin, rc::Rc, sync::Arc};

use accelerator::{
    backend::Recoding,
    client::{Client, DeliveredBody, Delivery, Fetched, Includes, Step},
    log::Account,
    machine::Order,
    output::Part,
    recode::Recoder,
};
use bytes::Bytes;
use cache::{
    body::Cursor,
    esi::{Assembly, Include, Step as PageStep},
    object::Object,
};
use tokio::sync::mpsc::{Sender, channel};

use super::{
    fetch::PageBody,
    object_fetch::{Place, Report, RequestBody, wall_clock},
};

/// Pieces that wait for the client. Each is at most as large as a piece of a stored body.
const PIECES_MAX: usize = 2;

/// The client has left.
struct Gone;

type Assembled<'a> = Pin<Box<dyn Future<Output = Result<(), Gone>> + 'a>>;

/// Puts a page together, for its client.
pub(super) fn assemble(place: Place, object: Arc<Object>, gzip: bool, includes: Includes) -> PageBody {
    let (to, pieces) = channel(PIECES_MAX);
    let worker = Rc::clone(&place.worker);
    let running = worker.count_running();
    let task = tokio::task::spawn_local(async move {
        let worker = Rc::clone(&place.worker);
        let mut assembler = Assembler { place, to, recoder: Recoder::new(recoding(gzip)), delivered: 0 };
        worker
            .clocked(Box::pin(async move {
                // NOTE: nobody is left to be told.
                let _ = assembler.whole(&object, &includes).await;
            }))
            .await;
        drop(running);
    });
    PageBody::new(pieces, task)
}

fn recoding(gzip: bool) -> Recoding {
    if gzip { Recoding::Gzip } else { Recoding::None }
}

struct Assembler {
    place: Place,
    to: Sender<io::Result<Bytes>>,
    recoder: Recoder,
    /// Bytes of pages and what they include, before they are compressed.
    delivered: u64,
}

impl Assembler {
    async fn whole(&mut self, object: &Arc<Object>, includes: &Includes) -> Result<(), Gone> {
        self.page(object, includes).await?;
        match self.recoder.finish() {
            Ok(rest) => self.send(rest.into()).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Delivers a page, and what it includes.
    fn page<'a>(&'a mut self, object: &'a Arc<Object>, includes: &'a Includes) -> Assembled<'a> {
        Box::pin(async move {
            let Some(page) = object.page() else { return Ok(()) };
            let mut assembly = Assembly::new(&page.plan, includes.level(), includes.level_max());
            let mut cursor = Cursor::default();
            loop {
                match assembly.step() {
                    PageStep::Deliver(bytes) => self.deliver(bytes).await?,
                    PageStep::Include(include) => {
                        self.flush().await?;
                        self.include(include, includes).await?;
                    }
                    PageStep::TooDeep(_) => {}
                    PageStep::NeedsChunk => match poll_fn(|context| object.poll_next(&mut cursor, context)).await {
                        Ok(Some(chunk)) => assembly.push(chunk),
                        Ok(None) => return Ok(()),
                        Err(broken) => return self.fail(io::Error::other(broken)).await,
                    },
                    PageStep::End => return Ok(()),
                }
            }
        })
    }

    async fn include(&mut self, include: &Include, includes: &Includes) -> Result<(), Gone> {
        let mut client = includes.ask_for(&include.target, wall_clock());
        let delivery = self.answer(&mut client).await;
        let before = self.delivered;
        let is_needed = includes.needs(include);
        let has_failed = is_needed && !matches!(delivery.head.status(), 200 | 204 | 304);
        let ended = match has_failed {
            true => self.fail(io::Error::other("what the page includes has failed")).await,
            false => self.included(delivery, is_needed).await,
        };
        let account = Account { response_body: self.delivered - before, ..Account::default() };
        client.take_log().end_include(account, wall_clock());
        ended
    }

    /// Delivers what is included.
    async fn included(&mut self, delivery: Delivery, is_needed: bool) -> Result<(), Gone> {
        if matches!(delivery.head.status(), 100..=199 | 204 | 304) {
            return Ok(());
        }
        match delivery.body {
            DeliveredBody::Made(bytes) => self.deliver(bytes.into()).await,
            DeliveredBody::Page { object, includes, .. } => self.page(&object, &includes).await,
            DeliveredBody::Object { object, part: Part::Nothing, .. } => {
                object.body().leave();
                Ok(())
            }
            DeliveredBody::Object { object, recoding, .. } => {
                let is_packed = recoding != Recoding::Gzip
                    && object.page().is_none()
                    && accelerator::fields::is_stored_as_gzip(&object);
                let recoding = if is_packed { Recoding::Gunzip } else { Recoding::None };
                let delivered = self.object(&object, recoding, is_needed).await;
                object.body().leave();
                delivered
            }
            DeliveredBody::Passed(_) => Ok(()),
        }
    }

    /// Has the program answer a request for what is included.
    async fn answer(&self, client: &mut Client) -> Delivery {
        let mut step = client.begin();
        loop {
            if let Some(order) = client.take_refresh() {
                drop(self.place.clone().fetch(Order::Program(order), RequestBody::None));
            }
            step = match step {
                Step::Wait(waiting) => client.woken(&waiting.await, wall_clock()),
                Step::Fetch(order) => {
                    let mut reports = self.place.clone().fetch(Order::Program(order), RequestBody::None);
                    let fetched = match reports.recv().await {
                        Some(Report::Fetched(fetched)) => fetched,
                        _ => Fetched::Nothing,
                    };
                    client.fetched(fetched, wall_clock())
                }
                // What is included is fetched as an object, and never piped.
                Step::Pass(_) | Step::Pipe(_) => client.fetched(Fetched::Nothing, wall_clock()),
                Step::Switch(_) => client.switched(None),
                Step::Deliver(delivery) => return *delivery,
            };
        }
    }

    /// Delivers an object as it is. One that breaks off is left out from there on: nobody can be told in the middle of a page. Where
    /// it is needed, the page ends.
    async fn object(&mut self, object: &Arc<Object>, recoding: Recoding, is_needed: bool) -> Result<(), Gone> {
        let mut recoder = Recoder::new(recoding);
        let mut cursor = Cursor::default();
        loop {
            match poll_fn(|context| object.poll_next(&mut cursor, context)).await {
                Ok(Some(chunk)) => match recoder.push(&chunk) {
                    Ok(Some(recoded)) => self.deliver(recoded.into()).await?,
                    Ok(None) => self.deliver(chunk).await?,
                    Err(_) => return Ok(()),
                },
                Ok(None) => {
                    let rest = recoder.finish().unwrap_or_default();
                    return self.deliver(rest.into()).await;
                }
                Err(broken) if is_needed => return self.fail(io::Error::other(broken)).await,
                Err(_) => return Ok(()),
            }
        }
    }

    async fn deliver(&mut self, bytes: Bytes) -> Result<(), Gone> {
        self.delivered += bytes.len() as u64;
        match self.recoder.push(&bytes) {
            Ok(None) => self.send(bytes).await,
            Ok(Some(recoded)) => self.send(recoded.into()).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// What has been delivered goes to the client before something is waited for.
    async fn flush(&mut self) -> Result<(), Gone> {
        match self.recoder.flush() {
            Ok(bytes) => self.send(bytes.into()).await,
            Err(error) => self.fail(error).await,
        }
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.to.send(Ok(bytes)).await.map_err(|_| Gone)
    }

    async fn fail(&mut self, error: io::Error) -> Result<(), Gone> {
        let _ = self.to.send(Err(error)).await;
        Err(Gone)
    }
}
