//! How fetches and converters are declared: one entry each, from which parsing, checking, evaluation, messages and the
//! reference come.

use std::cell::Cell;

use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::{Context, Options};
use crate::parser::ParseContext;
use crate::place::{Places, Sources};
use crate::value::{Type, Value};

/// Whether a keyword of HAProxy 2.6 works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It works.
    Supported,
    /// It is known, and an error says that it does not work yet.
    NotYet {
        /// What it belongs to.
        comes_with: &'static str,
    },
}

/// What a fetch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<'a> {
    /// A value that will stay as it is.
    Value(Value<'a>),
    /// A value that may still change (the length of what has come in so far).
    Changing(Value<'a>),
    /// Nothing, and there will be nothing.
    Missing,
    /// Nothing so far.
    NotYet,
}

impl<'a> Fetched<'a> {
    /// The value, if there is one.
    #[must_use]
    pub fn value(self) -> Option<Value<'a>> {
        match self {
            Fetched::Value(value) | Fetched::Changing(value) => Some(value),
            Fetched::Missing | Fetched::NotYet => None,
        }
    }

    /// Whether a later evaluation may find something else.
    #[must_use]
    pub fn may_change(&self) -> bool {
        matches!(self, Fetched::Changing(_) | Fetched::NotYet)
    }
}

impl<'a> From<Option<Value<'a>>> for Fetched<'a> {
    fn from(value: Option<Value<'a>>) -> Self {
        value.map_or(Fetched::Missing, Fetched::Value)
    }
}

/// What a converter that looks into a message finds, of which more may come.
pub(crate) enum Judgement<T> {
    /// This, or nothing, whatever comes.
    Settled(Option<T>),
    /// Nothing so far.
    Open,
}

/// What a fetch or a converter is called with.
pub(crate) struct Call<'a> {
    pub(crate) arguments: &'a [Argument],
    pub(crate) context: &'a dyn Context,
    pub(crate) options: Options,
    /// Whether every occurrence is wanted, one after the other (in ACLs), rather than the last.
    pub(crate) iterate: bool,
    /// Whether more of the message may change what comes out, if the converter knows that better than the fetch.
    pub(crate) may_change: Cell<Option<bool>>,
}

impl<'a> Call<'a> {
    /// Notes whether more of the message may change the judgement; what was found.
    pub(crate) fn judge<T>(&self, judgement: Judgement<T>) -> Option<T> {
        match judgement {
            Judgement::Settled(found) => {
                self.may_change.set(Some(false));
                found
            }
            Judgement::Open => {
                self.may_change.set(Some(true));
                None
            }
        }
    }

    /// What to answer when something is not there: it may still come unless this is final.
    pub(crate) fn absent(&self) -> Fetched<'a> {
        if self.options.is_final { Fetched::Missing } else { Fetched::NotYet }
    }

    /// A value that may change unless this is final.
    pub(crate) fn changing(&self, value: Value<'a>) -> Fetched<'a> {
        if self.options.is_final { Fetched::Value(value) } else { Fetched::Changing(value) }
    }

    /// The string at `position`, if it was given.
    pub(crate) fn text(&self, position: usize) -> Option<&'a [u8]> {
        match self.arguments.get(position) {
            Some(Argument::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// The integer at `position`, if it was given.
    pub(crate) fn integer(&self, position: usize) -> Option<i64> {
        match self.arguments.get(position) {
            Some(Argument::Sint(value)) => Some(*value),
            _ => None,
        }
    }

    /// The name at `position`, if it was given.
    pub(crate) fn name(&self, position: usize) -> Option<&'a str> {
        match self.arguments.get(position) {
            Some(Argument::Name(name)) => Some(name),
            _ => None,
        }
    }
}

/// Where a fetch of several occurrences stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Set by the fetch: there may be another occurrence.
    pub(crate) more: bool,
    /// For the fetch: which field it is at.
    pub(crate) field: usize,
    /// For the fetch: where in the field it is.
    pub(crate) offset: usize,
    /// For the fetch: whether it was called before.
    pub(crate) started: bool,
}

pub(crate) type FetchRun = for<'a> fn(&Call<'a>, &mut Cursor) -> Fetched<'a>;
pub(crate) type ConverterRun = for<'a> fn(Value<'a>, &Call<'a>) -> Option<Value<'a>>;
pub(crate) type Check = fn(&mut Arguments, &mut ParseContext<'_>) -> Result<(), String>;

/// A sample fetch.
#[derive(Clone, Copy)]
pub struct Fetch {
    /// Its name.
    pub name: &'static str,
    /// Other names for exactly the same.
    pub aliases: &'static [&'static str],
    /// The types of its arguments.
    pub arguments: &'static [ArgumentType],
    /// How many of them must be given.
    pub required: usize,
    /// The type of its samples; where there may be several, the one that casts to all of them.
    pub output: Type,
    /// What it reads.
    pub sources: Sources,
    /// Whether it works here.
    pub state: State,
    /// A line about it.
    pub doc: &'static str,
    /// How it is used.
    pub example: &'static str,
    pub(crate) check: Option<Check>,
    pub(crate) run: FetchRun,
}

/// A converter.
#[derive(Clone, Copy)]
pub struct Converter {
    /// Its name.
    pub name: &'static str,
    /// Other names for exactly the same.
    pub aliases: &'static [&'static str],
    /// The types of its arguments.
    pub arguments: &'static [ArgumentType],
    /// How many of them must be given.
    pub required: usize,
    /// The type that it takes.
    pub input: Type,
    /// The type that it gives.
    pub output: Type,
    /// Whether it works here.
    pub state: State,
    /// A line about it.
    pub doc: &'static str,
    /// How it is used.
    pub example: &'static str,
    pub(crate) check: Option<Check>,
    pub(crate) run: ConverterRun,
}

fn nothing<'a>(_: &Call<'a>, _: &mut Cursor) -> Fetched<'a> {
    Fetched::Missing
}

fn no_value<'a>(_: Value<'a>, _: &Call<'a>) -> Option<Value<'a>> {
    None
}

impl Fetch {
    pub(crate) const fn new(name: &'static str, output: Type, sources: Sources, run: FetchRun) -> Self {
        Fetch {
            name,
            aliases: &[],
            arguments: &[],
            required: 0,
            output,
            sources,
            state: State::Supported,
            doc: "",
            example: "",
            check: None,
            run,
        }
    }

    pub(crate) const fn not_yet(
        name: &'static str,
        output: Type,
        sources: Sources,
        comes_with: &'static str,
        doc: &'static str,
    ) -> Self {
        let mut fetch = Fetch::new(name, output, sources, nothing);
        fetch.state = State::NotYet { comes_with };
        fetch.doc = doc;
        fetch
    }

    pub(crate) const fn takes(mut self, arguments: &'static [ArgumentType], required: usize) -> Self {
        self.arguments = arguments;
        self.required = required;
        self
    }

    pub(crate) const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn checked(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str, example: &'static str) -> Self {
        self.doc = doc;
        self.example = example;
        self
    }

    /// Where it may be used.
    #[must_use]
    pub fn places(&self) -> Places {
        self.sources.places()
    }

    /// How it is written with its arguments: `hdr([string[,integer]])`.
    #[must_use]
    pub fn signature(&self) -> String {
        signature(self.name, self.arguments, self.required)
    }
}

impl Converter {
    pub(crate) const fn new(name: &'static str, input: Type, output: Type, run: ConverterRun) -> Self {
        Converter {
            name,
            aliases: &[],
            arguments: &[],
            required: 0,
            input,
            output,
            state: State::Supported,
            doc: "",
            example: "",
            check: None,
            run,
        }
    }

    pub(crate) const fn not_yet(
        name: &'static str,
        input: Type,
        output: Type,
        comes_with: &'static str,
        doc: &'static str,
    ) -> Self {
        let mut converter = Converter::new(name, input, output, no_value);
        converter.state = State::NotYet { comes_with };
        converter.doc = doc;
        converter
    }

    pub(crate) const fn takes(mut self, arguments: &'static [ArgumentType], required: usize) -> Self {
        self.arguments = arguments;
        self.required = required;
        self
    }

    pub(crate) const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn checked(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str, example: &'static str) -> Self {
        self.doc = doc;
        self.example = example;
        self
    }

    /// How it is written with its arguments: `bytes(integer[,integer])`.
    #[must_use]
    pub fn signature(&self) -> String {
        signature(self.name, self.arguments, self.required)
    }
}

fn signature(name: &str, arguments: &[ArgumentType], required: usize) -> String {
    if arguments.is_empty() {
        return name.to_owned();
    }
    let mut text = format!("{name}(");
    for (position, argument) in arguments.iter().enumerate() {
        if position == required {
            text.push('[');
        }
        if position > 0 {
            text.push(',');
        }
        text.push_str(argument.name());
    }
    if arguments.len() > required {
        text.push(']');
    }
    text.push(')');
    text
}
