//! Texts into a program.
//!
//! One pass: tokens are read from left to right, names are looked up, types are checked and statements are made at once, so that
//! errors come in the order of the text. Names of backends, probes, lists and routines are collected beforehand, because a text may
//! use them before it declares them. What a routine uses is noted with its place; when all texts are read, `access` goes from each
//! subroutine of the cache through all calls and says what may not be used there.

mod access;
mod acl;
mod backend;
mod calls;
mod declarations;
mod director;
mod expressions;
mod legacy;
mod numbers;
mod operators;
mod parser;
mod primary;
mod probe;
mod statements;
mod symbols;
mod texts;

use std::net::IpAddr;

use rustc_hash::FxHashMap;

pub use self::access::CALL_DEPTH_MAX;
use self::{access::Trace, symbols::Symbol};
pub(crate) use self::{numbers::seconds_of, primary::parse_address_and_port};
use crate::{
    diagnostic::Diagnostic,
    program::{BackendIndex, Program, RoutineIndex},
    source::{Files, Sources, Span},
    subroutine::Subroutine,
    token::Token,
    variables::Version,
};

/// Finds addresses of names. The language asks nobody by itself.
pub trait Resolver {
    /// The addresses of a host.
    ///
    /// # Errors
    /// Why there are none.
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String>;
}

/// A resolver that knows numbers alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumbersOnly;

impl Resolver for NumbersOnly {
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        host.parse().map(|address| vec![address]).map_err(|_| "no names are looked up here".to_owned())
    }
}

/// What a compiler is told.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Finds included files.
    pub files: &'a dyn Files,
    /// Finds addresses of names in lists.
    pub resolver: &'a dyn Resolver,
    /// Whether what is declared and not used is an error (`vcc_feature`'s `err_unref`).
    pub unused_is_error: bool,
    /// Backends that the program has without declaring them: those of a configuration around it.
    pub backends: &'a [String],
    /// Storages that there are.
    pub storages: &'a [String],
    /// Programs that requests may be handed to.
    pub labels: &'a [String],
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            files: &crate::source::NoFiles,
            resolver: &NumbersOnly,
            unused_is_error: true,
            backends: &[],
            storages: &[],
            labels: &[],
        }
    }
}

/// A program and what there is to be said about it.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Where a text means something else than its author may think.
    pub notes: Vec<Diagnostic>,
}

/// Why there is no program.
#[derive(Debug)]
pub struct Rejected {
    /// The texts.
    pub sources: Sources,
    /// The first error.
    pub error: Box<Diagnostic>,
}

impl Rejected {
    /// The message with the lines that it is about.
    #[must_use]
    pub fn message(&self) -> String {
        self.error.render(&self.sources)
    }
}

/// Makes a program of a text.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn compile(name: &str, text: &str, options: &Options<'_>) -> Result<Compiled, Rejected> {
    let mut compiler = Compiler::new(options);
    match compiler.run(name, text) {
        Ok(program) => Ok(Compiled { program, notes: compiler.notes }),
        Err(error) => Err(Rejected { sources: compiler.sources, error: Box::new(error) }),
    }
}

/// Errors are rare and long.
type Outcome<T> = Result<T, Diagnostic>;

/// What is known of a routine while texts are read.
#[derive(Debug, Default)]
struct Draft {
    name: String,
    body: Vec<crate::program::Statement>,
    defined: Option<Span>,
    /// Where it is used first.
    referenced: Option<Span>,
    trace: Trace,
}

struct Compiler<'a> {
    options: &'a Options<'a>,
    sources: Sources,
    tokens: Vec<Token>,
    at: usize,
    /// The version of each text that has said one, and the text that includes it.
    texts: Vec<texts::Text>,
    symbols: FxHashMap<String, Symbol>,
    drafts: Vec<Draft>,
    /// The routine that is being read.
    current: Option<RoutineIndex>,
    /// What VCL 3 means by a name depends on the subroutine that it stands in.
    legacy_place: Option<Subroutine>,
    modules: Vec<String>,
    /// What modules are called here, and their own names.
    aliases: Vec<(String, String)>,
    program: Program,
    /// Where each backend, list and probe is used first.
    used: FxHashMap<Symbol, Span>,
    /// Where backends, lists and probes are declared.
    declared: FxHashMap<Symbol, Span>,
    chosen_default: Option<BackendIndex>,
    notes: Vec<Diagnostic>,
    /// How deep statements and expressions are nested.
    /// Why a routine may not set what it sets, whoever calls it.
    read_only: Option<Diagnostic>,
    depth: usize,
}

impl<'a> Compiler<'a> {
    fn new(options: &'a Options<'a>) -> Self {
        Self {
            options,
            sources: Sources::default(),
            tokens: Vec::new(),
            at: 0,
            texts: Vec::new(),
            symbols: FxHashMap::default(),
            drafts: Vec::new(),
            current: None,
            legacy_place: None,
            modules: Vec::new(),
            aliases: Vec::new(),
            program: Program {
                version: Version::V3,
                sources: Sources::default(),
                backends: Vec::new(),
                default_backend: None,
                probes: Vec::new(),
                acls: Vec::new(),
                directors: Vec::new(),
                objects: Vec::new(),
                storages: options.storages.to_vec(),
                labels: Vec::new(),
                modules: Vec::new(),
                functions: Vec::new(),
                routines: Vec::new(),
                entries: Vec::new(),
            },
            used: FxHashMap::default(),
            declared: FxHashMap::default(),
            chosen_default: None,
            notes: Vec::new(),
            read_only: None,
            depth: 0,
        }
    }

    fn run(&mut self, name: &str, text: &str) -> Outcome<Program> {
        let builtin = self.load_builtin()?;
        let main = self.load(name, text)?;
        self.collect(&builtin, true)?;
        self.collect(&main, false)?;
        self.declare_given_backends();
        self.read(main)?;
        self.program.version = self.version_of_main();
        self.read(builtin)?;
        self.finish()
    }

    /// Everything has been read: what is missing, what is left over, what is used in the wrong place.
    fn finish(&mut self) -> Outcome<Program> {
        self.check_references()?;
        self.choose_default_backend()?;
        self.check_access()?;
        if let Some(error) = self.read_only.take() {
            return Err(error);
        }
        let mut program = std::mem::replace(&mut self.program, Compiler::new(self.options).program);
        program.entries = Subroutine::ALL
            .iter()
            .filter_map(|subroutine| match self.symbols.get(subroutine.name()) {
                Some(Symbol::Routine(index)) => Some(*index),
                _ => None,
            })
            .collect();
        let places = self.places();
        program.routines = std::mem::take(&mut self.drafts)
            .into_iter()
            .zip(places)
            .map(|(draft, places)| crate::program::Routine {
                name: draft.name,
                body: draft.body,
                places,
                span: draft.defined.unwrap_or(Span { source: crate::source::SourceId(0), start: 0, end: 0 }),
            })
            .collect();
        program.modules = std::mem::take(&mut self.modules);
        program.sources = self.sources.clone();
        Ok(program)
    }
}
