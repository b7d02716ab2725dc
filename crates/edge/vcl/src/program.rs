//! A program: what the compiler makes of texts, and what the machine runs. Names are indices, types have been checked, and
//! constants have their values.

use std::{net::IpAddr, sync::Arc};

use http::HeaderId;

use crate::{
    action::Action,
    modules::{Class, Function, FunctionId, Method},
    pattern::Pattern,
    source::{Sources, Span},
    subroutine::Subroutine,
    types::Type,
    variables::{Message, StorageVariable, Variable, Version},
};

/// A backend that the program declares, by its place in [`Program::backends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackendIndex(pub u32);

impl BackendIndex {
    /// What `default` stands for where no backend has that name: [`Program::default_backend`].
    pub const DEFAULT: Self = Self(u32::MAX);
}

/// A probe, by its place in [`Program::probes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeIndex(pub u32);

/// A list of addresses, by its place in [`Program::acls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclIndex(pub u32);

/// A routine, by its place in [`Program::routines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoutineIndex(pub u32);

/// An object of a module, by its place in [`Program::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectIndex(pub u32);

/// A storage, by its place in [`Program::storages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorageIndex(pub u32);

/// Another program that requests may be handed to, by its place in [`Program::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LabelIndex(pub u32);

/// A checked program.
#[derive(Debug)]
pub struct Program {
    /// The version of its main text.
    pub version: Version,
    /// All its texts.
    pub sources: Sources,
    /// Backends in the order of their declarations.
    pub backends: Vec<Backend>,
    /// What a request goes to that no rule gives a backend.
    pub default_backend: Option<BackendIndex>,
    /// Probes; those that stand in a backend have no name.
    pub probes: Vec<Probe>,
    /// Lists of addresses.
    pub acls: Vec<Acl>,
    /// Directors of VCL 3.
    pub directors: Vec<Director>,
    /// Objects that `vcl_init` makes, in its order.
    pub objects: Vec<Object>,
    /// Names of storages that the program uses.
    pub storages: Vec<String>,
    /// Names of programs that it hands requests to.
    pub labels: Vec<String>,
    /// Modules that it imports.
    pub modules: Vec<String>,
    /// Functions of modules that stand in it, each once.
    pub functions: Vec<FunctionId>,
    /// All routines.
    pub routines: Vec<Routine>,
    /// Which routine each subroutine of the cache is, in the order of [`Subroutine::ALL`].
    pub entries: Vec<RoutineIndex>,
}

impl Program {
    /// The routine of a subroutine.
    #[must_use]
    pub fn entry(&self, subroutine: Subroutine) -> Option<&Routine> {
        let index = self.entries.get(subroutine as usize)?;
        self.routine(*index)
    }

    /// Whether it imports a module.
    #[must_use]
    pub fn imports(&self, module: &str) -> bool {
        self.modules.iter().any(|imported| imported == module)
    }

    /// Whether a function of a module stands in it.
    #[must_use]
    pub fn uses(&self, function: FunctionId) -> bool {
        self.functions.contains(&function)
    }

    /// One routine.
    #[must_use]
    pub fn routine(&self, index: RoutineIndex) -> Option<&Routine> {
        self.routines.get(index.0 as usize)
    }
}

/// Where a backend is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A name or address, and a port or the name of a service.
    Host {
        /// The name or address.
        host: String,
        /// The port, `80` if nothing else is said.
        port: String,
    },
    /// A socket of the machine.
    Path(String),
    /// Nowhere (`backend NAME none`): every fetch fails.
    None,
    /// Where the configuration around the program says.
    Given,
}

/// How a backend's health is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is taken for healthy.
    Unprobed,
    /// A probe asks it.
    Probe(ProbeIndex),
}

/// A backend as it is declared. Times are in seconds; what is not said comes from the parameters.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// `.host_header`: the Host of requests that have none.
    pub host_header: Option<String>,
    /// `.connect_timeout`.
    pub connect_timeout: Option<f64>,
    /// `.first_byte_timeout`.
    pub first_byte_timeout: Option<f64>,
    /// `.between_bytes_timeout`.
    pub between_bytes_timeout: Option<f64>,
    /// `.max_connections`.
    pub max_connections: Option<u32>,
    /// `.proxy_header`: 1 or 2.
    pub proxy_header: Option<u8>,
    /// `.preamble`: what is sent on each new connection before anything else.
    pub preamble: Box<[u8]>,
    /// How its health is known.
    pub health: Health,
    /// Where it is declared.
    pub span: Span,
}

/// What a probe sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeRequest {
    /// A GET of this URL.
    Url(String),
    /// These lines.
    Lines(Vec<String>),
}

/// A probe. Times are in seconds; what is not said has Varnish's defaults.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Its name; none for one that stands in a backend.
    pub name: Option<String>,
    /// What it sends.
    pub request: ProbeRequest,
    /// `.expected_response`.
    pub expected_response: u16,
    /// `.timeout`.
    pub timeout: f64,
    /// `.interval`.
    pub interval: f64,
    /// `.window`: how many answers are looked at, 64 at most.
    pub window: u8,
    /// `.threshold`: how many of these must be good.
    pub threshold: u8,
    /// `.initial`: how many are taken for good at the start.
    pub initial: u8,
}

/// An entry of a list of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whether it takes addresses out of the list.
    pub negated: bool,
    /// The address; none for a name that was not found, which matches all addresses.
    pub address: Option<IpAddr>,
    /// How many of its bits count.
    pub mask: u8,
    /// As it is written, for the log.
    pub text: String,
}

/// A list of addresses.
#[derive(Clone, Debug)]
pub struct Acl {
    /// Its name.
    pub name: String,
    /// Whether the outcome is logged (`+log`).
    pub logs: bool,
    /// The entries; those of more bits first, so that the first one that matches decides.
    pub entries: Vec<AclEntry>,
}

impl Acl {
    /// The entry that decides about an address.
    #[must_use]
    pub fn deciding(&self, address: IpAddr) -> Option<&AclEntry> {
        self.entries.iter().find(|entry| match (entry.address, address) {
            (None, _) => true,
            (Some(IpAddr::V4(of_entry)), IpAddr::V4(asked)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(entry.mask.min(32))).unwrap_or(0);
                u32::from(of_entry) & mask == u32::from(asked) & mask
            }
            (Some(IpAddr::V6(of_entry)), IpAddr::V6(asked)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(entry.mask.min(128))).unwrap_or(0);
                u128::from(of_entry) & mask == u128::from(asked) & mask
            }
            _ => false,
        })
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.deciding(address).is_some_and(|entry| !entry.negated)
    }
}

/// How a director of VCL 3 chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By weights, at random.
    Random,
    /// One after the other.
    RoundRobin,
    /// By the client's identity.
    Client,
    /// By the key of the request.
    Hash,
    /// The first healthy one.
    Fallback,
}

/// A director of VCL 3.
#[derive(Clone, Debug)]
pub struct Director {
    /// Its name.
    pub name: String,
    /// How it chooses.
    pub policy: Policy,
    /// `.retries`.
    pub retries: Option<u32>,
    /// Backends with their weights.
    pub members: Vec<(BackendIndex, f64)>,
}

/// An object that a module makes.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// What it is.
    pub class: &'static Class,
}

/// Statements under a name.
#[derive(Debug)]
pub struct Routine {
    /// Its name.
    pub name: String,
    /// What it does.
    pub body: Vec<Statement>,
    /// Where it may be called from: what it uses allows no more.
    pub places: crate::subroutine::Subroutines,
    /// Where it is defined.
    pub span: Span,
}

/// The name of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderName {
    /// As it is written.
    pub text: Box<str>,
    /// In small letters.
    pub lower: Box<str>,
    /// Its number, if it is well known.
    pub id: HeaderId,
}

impl HeaderName {
    /// A name.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), lower: text.to_ascii_lowercase().into(), id: HeaderId::of(text.as_bytes()) }
    }
}

/// A header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRef {
    /// The message.
    pub message: Message,
    /// The header.
    pub name: HeaderName,
}

/// One thing to do.
#[derive(Debug)]
pub enum Statement {
    /// `set req.http.x = ...;`
    SetHeader(HeaderRef, Expression),
    /// `unset req.http.x;`
    UnsetHeader(HeaderRef),
    /// `set beresp.ttl = ...;`
    Set(Variable, Expression),
    /// `set resp.body += ...;`, `synthetic(...)`: what is said twice stands behind one another.
    AppendBody(Variable, Expression),
    /// `unset bereq.body;`
    Unset(Variable),
    /// `if (...) { ... } else ...`: the first condition that holds; none at the end for `else`.
    If(Vec<(Option<Expression>, Vec<Statement>)>),
    /// `call name;`
    Call(RoutineIndex),
    /// `return;`: the end of this routine.
    Leave,
    /// `return (action);`
    Return(Return),
    /// `hash_data(...);`
    HashData(Expression),
    /// `ban(...);`
    Ban(Expression),
    /// A function for what it does.
    Do(Expression),
    /// `new name = module.class(...);`
    New(ObjectIndex, Vec<Argument>),
}

/// An answer with what belongs to it.
#[derive(Debug)]
pub struct Return {
    /// What is next.
    pub action: Action,
    /// `synth(404)`, `error(503)`, `pass(10s)`.
    pub number: Option<Expression>,
    /// `synth(404, "reason")`, `fail("why")`.
    pub text: Option<Expression>,
    /// `vcl(label)`.
    pub label: Option<LabelIndex>,
}

/// A value that is known.
#[derive(Clone, Debug)]
pub enum Constant {
    /// `true`, `false`.
    Bool(bool),
    /// `12`
    Int(i64),
    /// `1.5`
    Real(f64),
    /// `5m`, in seconds.
    Duration(f64),
    /// `10KB`
    Bytes(i64),
    /// `"..."`
    String(Box<[u8]>),
    /// `:Zm9v:`
    Blob(Box<[u8]>),
    /// An address, and its port.
    Ip(IpAddr, u16),
    /// A backend, or none (`none`).
    Backend(Option<BackendIndex>),
    /// A director of VCL 3, by its place.
    Director(u32),
    /// A probe.
    Probe(ProbeIndex),
    /// A list of addresses.
    Acl(AclIndex),
    /// A routine.
    Routine(RoutineIndex),
    /// A storage.
    Storage(StorageIndex),
    /// One of a few words.
    Enum(&'static str),
    /// A header as such, for a module.
    Header(HeaderRef),
    /// A message as such, for a module.
    Message(Message),
    /// A compiled regular expression.
    Regex(Arc<Pattern>),
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// What a module's function is given, in the order of its parameters; none for one that is left out.
pub type Argument = Option<Expression>;

/// What gives a value.
#[derive(Debug)]
pub enum Expression {
    /// A constant.
    Constant(Constant),
    /// A variable.
    Variable(Variable),
    /// A header's first value.
    Header(HeaderRef),
    /// What a storage says of itself.
    Storage(StorageIndex, StorageVariable),
    /// Pieces behind one another; each becomes a string.
    Concat(Vec<Expression>),
    /// The value as a string.
    Text(Box<Expression>),
    /// The value as a condition.
    Truth(Box<Expression>),
    /// The value as another type of number.
    Convert(Type, Box<Expression>),
    /// `-x`
    Negate(Box<Expression>),
    /// `!x`
    Not(Box<Expression>),
    /// All hold.
    And(Vec<Expression>),
    /// Any holds.
    Or(Vec<Expression>),
    /// Two values beside each other.
    Compare(Comparison, Box<(Expression, Expression)>),
    /// `~` and `!~` with a regular expression.
    Match {
        /// What is looked at.
        subject: Box<Expression>,
        /// What is looked for.
        pattern: Arc<Pattern>,
        /// `!~`
        negated: bool,
    },
    /// `~` and `!~` with a list of addresses.
    InAcl {
        /// The address.
        address: Box<Expression>,
        /// The list.
        acl: Box<Expression>,
        /// `!~`
        negated: bool,
    },
    /// Two numbers into one of this type.
    Arithmetic(Arithmetic, Type, Box<(Expression, Expression)>),
    /// `regsub`, `regsuball`.
    Substitute {
        /// The text, the pattern and what is put in its place.
        parts: Box<(Expression, Arc<Pattern>, Expression)>,
        /// Each occurrence.
        all: bool,
    },
    /// `req.url.upper()`, `.lower()`.
    Case {
        /// The text.
        text: Box<Expression>,
        /// Into capital letters.
        upper: bool,
    },
    /// `backend.resolve()`: what a director chooses.
    Resolve(Box<Expression>),
    /// A module's function.
    Call(&'static Function, Vec<Argument>),
    /// A method of an object.
    Method(ObjectIndex, &'static Method, Vec<Argument>),
}
