//! The machines of either kind, for who drives them: those that run a program, and those of a shared cache.

use std::{net::SocketAddr, sync::Arc};

use cache::index::{Fetch, Outcome, Waiting};
use http::{RequestHead, ResponseHead};
use vcl::run::Backend as Named;

use crate::{
    backend::{self, Accepted},
    client::{self, Delivery, Fetched, Pipe},
    loaded::Loaded,
    log::Log,
    shared,
};

/// A client's request.
pub enum Client {
    /// A program decides.
    Program(Box<client::Client>),
    /// RFC 9111 does.
    Shared(Box<shared::Client>),
}

/// What is to be done next for a request: [`client::Step`].
#[derive(Debug)]
pub enum Step {
    /// Wait for the fetch of another request; then [`Client::woken`].
    Wait(Waiting),
    /// Have an object fetched, in a task that lives longer than this request; then [`Client::fetched`], or [`Client::passed`] for a
    /// response that is not stored.
    Fetch(Order),
    /// Ask for this client alone: drive the machine, hand on its response by [`Client::passed`].
    Pass(Backend),
    /// Another program is to take the request over, the one with this label: [`Client::switched`].
    Switch(String),
    /// Bytes both ways, after this request.
    Pipe(Box<Pipe>),
    /// This goes to the client; that is the end.
    Deliver(Box<Delivery>),
    /// The client gets the page of this status.
    Fail(u16),
}

/// What is to be fetched.
#[derive(Debug)]
pub enum Order {
    /// For a program.
    Program(Box<backend::Order>),
    /// For a shared cache.
    Shared(Box<shared::Order>),
}

/// A fetch.
#[derive(Debug)]
pub enum Backend {
    /// A program decides.
    Program(Box<backend::Backend>),
    /// RFC 9111 does.
    Shared(Box<shared::Backend>),
}

/// Who is asked.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// A backend of the program.
    Named(Named),
    /// Who the request would have gone to.
    Origin,
}

impl Target {
    /// Where a request goes that is piped.
    #[must_use]
    pub fn of_pipe(pipe: &Pipe) -> Self {
        pipe.backend.map_or(Self::Origin, Self::Named)
    }
}

/// What is to be done next for a fetch: [`backend::Step`].
#[derive(Debug)]
pub enum FetchStep {
    /// Send [`Backend::request`] there; then [`Backend::responded`] or [`Backend::failed`].
    Ask(Target),
    /// The response goes to whoever waits, and its body with it.
    Accept(Box<Accepted>),
    /// There is nothing for whoever waits.
    Abandon,
}

impl Client {
    /// The first step.
    pub fn begin(&mut self) -> Step {
        match self {
            Self::Program(client) => client.begin().into(),
            Self::Shared(client) => client.begin().into(),
        }
    }

    /// The program that the request was to go to; `None` if there is none.
    pub fn switched(&mut self, loaded: Option<&Arc<Loaded>>) -> Step {
        match self {
            Self::Program(client) => client.switched(loaded).into(),
            // It has no program, and asks for none.
            Self::Shared(client) => client.begin().into(),
        }
    }

    /// How large a body of the request may be that is kept, so that it can be sent several times; `None` if none is to be.
    #[must_use]
    pub fn kept_body_bytes(&self) -> Option<u64> {
        match self {
            Self::Program(client) => client.wishes().cached_body,
            Self::Shared(_) => None,
        }
    }

    /// The request's head as it is now, and with it its memory; once nothing more is asked of the machine.
    pub fn take_request(&mut self) -> RequestHead {
        match self {
            Self::Program(client) => client.take_request(),
            Self::Shared(_) => RequestHead::default(),
        }
    }

    /// The fetch of another request has ended.
    pub fn woken(&mut self, outcome: &Outcome, now: f64) -> Step {
        match self {
            Self::Program(client) => client.woken(outcome, now).into(),
            Self::Shared(client) => client.woken(outcome, now).into(),
        }
    }

    /// The fetch that this request had made has come to a head.
    pub fn fetched(&mut self, fetched: Fetched, now: f64) -> Step {
        match self {
            Self::Program(client) => client.fetched(fetched, now).into(),
            Self::Shared(client) => client.fetched(fetched, now).into(),
        }
    }

    /// The response to a request that was passed, or that is not stored; `None` if there is none.
    pub fn passed(&mut self, head: Option<ResponseHead>, length: Option<u64>, now: f64) -> Step {
        match self {
            Self::Program(client) => client.passed(head, length, now).into(),
            Self::Shared(client) => client.passed(head, length, now).into(),
        }
    }

    /// The machine of a program, which writes a log.
    pub fn program(&mut self) -> Option<&mut client::Client> {
        match self {
            Self::Program(client) => Some(client),
            Self::Shared(_) => None,
        }
    }

    /// Whether there is something for [`Client::take_refresh`].
    #[must_use]
    pub fn wants_refresh(&self) -> bool {
        match self {
            Self::Program(client) => client.wants_refresh(),
            // Its requests have no bodies that would go along.
            Self::Shared(_) => false,
        }
    }

    /// An object that this request wants fetched in the background, whatever becomes of the request itself.
    pub fn take_refresh(&mut self) -> Option<Order> {
        match self {
            Self::Program(client) => client.take_refresh().map(Order::Program),
            Self::Shared(client) => client.take_refresh().map(Order::Shared),
        }
    }
}

impl Order {
    /// Begins the fetch; `has_body` says whether the body of the client's request is at hand.
    #[must_use]
    pub fn begin(self, now: f64, has_body: bool) -> Backend {
        match self {
            Self::Program(order) => Backend::Program(Box::new(backend::Backend::new(*order, now, has_body))),
            Self::Shared(order) => Backend::Shared(Box::new(shared::Backend::new(*order, now))),
        }
    }

    /// Whether who has it fetched hears of interim responses.
    #[must_use]
    pub fn tells_interim(&self) -> bool {
        // NOTE: Varnish keeps them for itself.
        matches!(self, Self::Shared(_))
    }
}

impl Backend {
    /// The first step.
    pub fn begin(&mut self) -> FetchStep {
        match self {
            Self::Program(backend) => backend.begin().into(),
            Self::Shared(backend) => backend.begin().into(),
        }
    }

    /// What is sent.
    #[must_use]
    pub fn request(&self) -> &RequestHead {
        match self {
            Self::Program(backend) => backend.request(),
            Self::Shared(backend) => backend.request(),
        }
    }

    /// Whether the body of the client's request goes along.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        match self {
            Self::Program(backend) => backend.sends_body(),
            Self::Shared(backend) => backend.sends_body(),
        }
    }

    /// How long the backend may take; seconds, 0 for as long as its section says.
    #[must_use]
    pub fn timeouts(&self) -> backend::Timeouts {
        match self {
            Self::Program(backend) => backend.timeouts(),
            Self::Shared(_) => backend::Timeouts::default(),
        }
    }

    /// The head of a response has come.
    pub fn responded(&mut self, head: ResponseHead, now: f64) -> FetchStep {
        match self {
            Self::Program(backend) => backend.responded(head, now).into(),
            Self::Shared(backend) => backend.responded(head, now).into(),
        }
    }

    /// No response has come.
    pub fn failed(&mut self, why: &str, now: f64) -> FetchStep {
        match self {
            Self::Program(backend) => backend.failed(why, now).into(),
            Self::Shared(backend) => backend.failed(now).into(),
        }
    }

    /// Whether the connection of the response that was accepted is closed, though the backend goes on with it.
    #[must_use]
    pub fn closes_backend(&self) -> bool {
        match self {
            Self::Program(backend) => backend.closes_backend(),
            Self::Shared(_) => false,
        }
    }

    /// Who asked for it, and where they connected to, as far as a server may be told.
    #[must_use]
    pub fn client_ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match self {
            Self::Program(backend) => backend.client_ends(),
            Self::Shared(_) => (None, None),
        }
    }

    /// The program that it runs in, if there is one.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        match self {
            Self::Program(backend) => Some(backend.program()),
            Self::Shared(_) => None,
        }
    }

    /// The body of an accepted response has broken off before anybody saw anything of it; `None` where that has no page.
    pub fn body_failed(&mut self, fetch: Option<Fetch>, why: &str, now: f64) -> Option<FetchStep> {
        match self {
            Self::Program(backend) => Some(backend.body_failed(fetch, why, now).into()),
            Self::Shared(_) => None,
        }
    }

    /// Nothing comes of it: those who wait for the fetch fail with this status.
    pub fn abandon(&mut self, status: u16) {
        match self {
            Self::Program(backend) => backend.abandon(status),
            Self::Shared(backend) => backend.abandon(status),
        }
    }

    /// Whether [`Backend::body_failed`] leads on.
    #[must_use]
    pub fn has_error_page(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    /// The log of the fetch, if it has one.
    pub fn log(&mut self) -> Option<&mut Log> {
        match self {
            Self::Program(backend) => Some(backend.log()).filter(|log| log.is_on()),
            Self::Shared(_) => None,
        }
    }

    /// Whether the client is told of a failure as if it had asked the server itself.
    #[must_use]
    pub fn hands_on_failures(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

impl From<client::Step> for Step {
    fn from(step: client::Step) -> Self {
        match step {
            client::Step::Wait(waiting) => Self::Wait(waiting),
            client::Step::Fetch(order) => Self::Fetch(Order::Program(order)),
            client::Step::Pass(backend) => Self::Pass(Backend::Program(backend)),
            client::Step::Switch(label) => Self::Switch(label),
            client::Step::Pipe(pipe) => Self::Pipe(pipe),
            client::Step::Deliver(delivery) => Self::Deliver(delivery),
        }
    }
}

impl From<shared::Step> for Step {
    fn from(step: shared::Step) -> Self {
        match step {
            shared::Step::Wait(waiting) => Self::Wait(waiting),
            shared::Step::Fetch(order) => Self::Fetch(Order::Shared(order)),
            shared::Step::Pass(backend) => Self::Pass(Backend::Shared(backend)),
            shared::Step::Pipe(pipe) => Self::Pipe(pipe),
            shared::Step::Deliver(delivery) => Self::Deliver(delivery),
            shared::Step::Fail(status) => Self::Fail(status),
        }
    }
}

impl From<backend::Step> for FetchStep {
    fn from(step: backend::Step) -> Self {
        match step {
            backend::Step::Ask(target) => Self::Ask(Target::Named(target)),
            backend::Step::Accept(accepted) => Self::Accept(accepted),
            backend::Step::Abandon => Self::Abandon,
        }
    }
}

impl From<shared::FetchStep> for FetchStep {
    fn from(step: shared::FetchStep) -> Self {
        match step {
            shared::FetchStep::Ask => Self::Ask(Target::Origin),
            shared::FetchStep::Accept(accepted) => Self::Accept(accepted),
            shared::FetchStep::Abandon => Self::Abandon,
        }
    }
}
