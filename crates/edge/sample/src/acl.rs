//! Access control lists: named tests on samples.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::acl_keyword;
use crate::arguments::Argument;
use crate::context::{Context, Options};
use crate::error::{Error, ErrorKind};
use crate::expression::{self, Conversion, Expression, Refused, name_length};
use crate::fetch;
use crate::keyword::{Cursor, Fetched, State};
use crate::parser::{ParseContext, ReferenceKind};
use crate::pattern::{
    Compilation, MatchMethod, Matcher, Operator, PatternExpression, PatternOptions, PatternReference, PatternSet, User,
    integer_pattern,
};
use crate::place::{Places, Sources};
use crate::value::Type;

/// The answer of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// Nobody can tell yet: more of the message must come in.
    Miss,
}

impl Outcome {
    fn or(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Pass, _) | (_, Outcome::Pass) => Outcome::Pass,
            (Outcome::Miss, _) | (_, Outcome::Miss) => Outcome::Miss,
            (Outcome::Fail, Outcome::Fail) => Outcome::Fail,
        }
    }

    pub(crate) fn negated(self) -> Outcome {
        match self {
            Outcome::Pass => Outcome::Fail,
            Outcome::Fail => Outcome::Pass,
            Outcome::Miss => Outcome::Miss,
        }
    }
}

/// One test: an expression and what its value must match.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    expression: Expression,
    /// The word that was written, for messages.
    pub(crate) keyword: Box<str>,
    matcher: Matcher,
}

impl Test {
    fn evaluate(&self, context: &dyn Context, options: Options) -> Outcome {
        let mut cursor = Cursor::default();
        loop {
            cursor.more = false;
            let fetched = self.expression.next(context, options, true, &mut cursor);
            let may_change = fetched.may_change() && !options.is_final;
            let matches = match &fetched {
                // The value stays where it is: it is looked at 200 times as often as it is moved.
                Fetched::Value(value) | Fetched::Changing(value) => match self.matcher.matches_as_is(value) {
                    Some(matches) => matches,
                    None => fetched.value().is_some_and(|value| self.matcher.matches(value, context)),
                },
                // Without a value there is no next occurrence either.
                Fetched::Missing | Fetched::NotYet => {
                    return if may_change { Outcome::Miss } else { Outcome::Fail };
                }
            };
            if matches {
                return Outcome::Pass;
            }
            if cursor.more {
                continue;
            }
            return if may_change { Outcome::Miss } else { Outcome::Fail };
        }
    }
}

/// A named ACL: it holds if one of its tests does. Tests are only ever added, so that a condition read before a later line
/// with the same name tests that one too.
#[derive(Debug)]
pub struct Acl {
    name: Box<str>,
    test: Test,
    next: OnceLock<Arc<Acl>>,
    /// What kinds of tests there are; kept by the first of a name for all of them.
    kinds: Mutex<Vec<Kind>>,
}

/// Where tests can hold and what they read: the same for most tests of a name.
#[derive(Clone, Debug)]
struct Kind {
    places: Places,
    sources: Sources,
    /// The word of the first such test.
    keyword: Box<str>,
}

impl Acl {
    fn new(name: &str, test: Test) -> Self {
        Acl { name: name.into(), test, next: OnceLock::new(), kinds: Mutex::default() }
    }

    /// The first of its name.
    fn first(name: &str, test: Test) -> Self {
        let acl = Acl::new(name, test);
        acl.count(&acl.test);
        acl
    }

    fn kinds(&self) -> MutexGuard<'_, Vec<Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, test: &Test) {
        let (places, sources) = (test.expression.places(), test.expression.sources());
        let mut kinds = self.kinds();
        if !kinds.iter().any(|kind| kind.places == places && kind.sources == sources) {
            kinds.push(Kind { places, sources, keyword: test.keyword.clone() });
        }
    }

    /// The name; empty for an anonymous one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tests(&self) -> impl Iterator<Item = &Test> {
        let mut next = Some(self);
        std::iter::from_fn(move || {
            let acl = next?;
            next = acl.next.get().map(|acl| &**acl);
            Some(&acl.test)
        })
    }

    /// Evaluates it.
    pub fn evaluate(&self, context: &dyn Context, options: Options) -> Outcome {
        let mut outcome = self.test.evaluate(context, options);
        let mut next = self.next.get();
        while let Some(acl) = next
            && outcome != Outcome::Pass
        {
            outcome = outcome.or(acl.test.evaluate(context, options));
            next = acl.next.get();
        }
        outcome
    }

    /// Where at least one of its tests can hold.
    #[must_use]
    pub fn places(&self) -> Places {
        self.kinds().iter().fold(Places::NONE, |places, kind| places.union(kind.places))
    }

    /// What its tests read.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.kinds().iter().fold(Sources::NONE, |sources, kind| sources.union(kind.sources))
    }

    /// The word of the first test that can never hold at a place of `places`.
    pub(crate) fn useless_keyword(&self, places: Places) -> Option<Box<str>> {
        self.kinds().iter().find(|kind| !kind.places.intersects(places)).map(|kind| kind.keyword.clone())
    }
}

/// NOTE: one after the other, since thousands of lines with one name would overflow the stack.
impl Drop for Acl {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut acl) = next.and_then(Arc::into_inner) {
            next = acl.next.take();
        }
    }
}

/// The lines with one name: the first, which conditions hold, and the last, to which the next one is linked.
#[derive(Debug)]
struct Chain {
    first: Arc<Acl>,
    last: Arc<Acl>,
}

impl Chain {
    fn new(name: &str, test: Test) -> Self {
        let first = Arc::new(Acl::first(name, test));
        Self { last: Arc::clone(&first), first }
    }

    fn append(&mut self, test: Test) {
        self.first.count(&test);
        let acl = Arc::new(Acl::new(&self.first.name, test));
        // Only a chain links its last one, and it is borrowed mutably for that: the slot is free.
        let _ = self.last.next.set(Arc::clone(&acl));
        self.last = acl;
    }
}

/// The same tests under the same name, which grow apart from now on.
impl Clone for Chain {
    fn clone(&self) -> Self {
        let mut fork = Self::new(&self.first.name, self.first.test.clone());
        for test in self.first.tests().skip(1) {
            fork.append(test.clone());
        }
        fork
    }
}

/// The ACLs of a proxy. A clone is independent: what is declared in one is not in the other.
#[derive(Clone, Debug, Default)]
pub struct AclSet {
    acls: HashMap<Box<str>, Chain>,
}

impl AclSet {
    /// None declared.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a declaration: the words after `acl`, the name first.
    ///
    /// # Errors
    /// What is wrong, in HAProxy's words.
    pub fn declare<W: AsRef<[u8]>>(&mut self, words: &[W], parser: &mut ParseContext<'_>) -> Result<(), Error> {
        let name = words.first().map(AsRef::as_ref).unwrap_or_default();
        let bad = name.iter().find(|byte| !byte.is_ascii_alphanumeric() && !b".:_-".contains(byte));
        if let Some(bad) = bad {
            let message = format!("invalid character in ACL name : '{}'", char::from(*bad));
            return Err(Error::new(ErrorKind::Syntax, message).word(name));
        }
        let text = String::from_utf8_lossy(name);
        if text.eq_ignore_ascii_case("or") {
            let message =
                format!("acl name '{text}' will never match. 'or' is used to express a disjunction within a condition");
            return Err(Error::new(ErrorKind::Syntax, message).word(name));
        }
        let rest: Vec<&[u8]> = words.iter().skip(1).map(AsRef::as_ref).collect();
        self.add(&text, &rest, parser)
    }

    fn add(&mut self, name: &str, words: &[&[u8]], parser: &mut ParseContext<'_>) -> Result<(), Error> {
        let test = parse_test(words, parser)?;
        warn_of_parenthesis(name, words, parser);
        match self.acls.get_mut(name) {
            Some(chain) => chain.append(test),
            None => {
                self.acls.insert(name.into(), Chain::new(name, test));
            }
        }
        Ok(())
    }

    /// The ACL called `name`; a predefined one is added if there is none.
    pub(crate) fn find(&mut self, name: &str, parser: &mut ParseContext<'_>) -> Result<Arc<Acl>, Error> {
        if let Some(chain) = self.acls.get(name) {
            return Ok(Arc::clone(&chain.first));
        }
        let Some(predefined) = acl_keyword::PREDEFINED.iter().find(|predefined| predefined.name == name) else {
            let known = self.acls.keys().map(|name| &**name).chain(acl_keyword::PREDEFINED.iter().map(|acl| acl.name));
            let near = basics::nearest(name, known).map(str::to_owned);
            return Err(Error::new(ErrorKind::Unknown, format!("no such ACL : '{name}'"))
                .word(name.as_bytes())
                .near(near.as_deref()));
        };
        let words: Vec<&[u8]> = predefined.words.iter().map(|word| word.as_bytes()).collect();
        self.add(name, &words, parser)?;
        self.find(name, parser)
    }

    /// Reads an anonymous ACL: the words between braces.
    pub(crate) fn anonymous(words: &[&[u8]], parser: &mut ParseContext<'_>) -> Result<Arc<Acl>, Error> {
        let test = parse_test(words, parser)?;
        warn_of_parenthesis("", words, parser);
        Ok(Arc::new(Acl::first("", test)))
    }

    /// Every ACL, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Acl> {
        self.acls.values().map(|chain| &*chain.first)
    }
}

fn warn_of_parenthesis(name: &str, words: &[&[u8]], parser: &mut ParseContext<'_>) {
    let [subject, pattern, ..] = words else { return };
    if !subject.contains(&b'(') && pattern.first() == Some(&b'(') {
        let (subject, pattern) = (String::from_utf8_lossy(subject), String::from_utf8_lossy(pattern));
        parser.warn(format!(
            "parsing acl '{name}' :\n  matching '{subject}' for pattern '{pattern}' is likely a mistake and probably\n  not \
             what you want. Maybe you need to remove the extraneous space before '('.\n  If you are really sure this is \
             not an error, please insert '--' between the\n  match and the pattern to make this warning message disappear."
        ));
    }
}

/// What stands before the flags and patterns of a test.
struct Subject {
    expression: Expression,
    keyword: Box<str>,
    /// What HAProxy calls the list of patterns after.
    label: &'static str,
    method: Option<MatchMethod>,
    used: usize,
}

/// Reads the subject: an ACL keyword, whose name may say how to match, or any expression.
fn parse_subject(words: &[&[u8]], parser: &mut ParseContext<'_>) -> Result<Subject, Error> {
    let first = words.first().copied().unwrap_or_default();
    let length = name_length(first);
    let name = String::from_utf8_lossy(first.get(..length).unwrap_or_default()).into_owned();
    let Some(keyword) = acl_keyword::find(&name) else {
        let shown = String::from_utf8_lossy(first).into_owned();
        let (expression, used) = Expression::parse(words, parser).map_err(|error| {
            let near = match error.suggestion() {
                Some(near) => Some(near.to_owned()),
                None if error.kind() == ErrorKind::Unknown => {
                    basics::nearest(&name, acl_keyword::names()).map(str::to_owned)
                }
                None => None,
            };
            error.near(near.as_deref()).context(|message| format!("{message} in ACL expression '{shown}'"))
        })?;
        let fetch = expression.fetch();
        let label = fetch.aliases.iter().find(|alias| **alias == name).copied().unwrap_or(fetch.name);
        let method = MatchMethod::default_for(expression.output());
        return Ok(Subject { expression, keyword: fetch.name.into(), label, method, used });
    };
    let in_keyword = |error: Error| error.context(|message| format!("ACL keyword '{name}' : {message}"));
    let Some(found) = fetch::find(keyword.fetch) else {
        return Err(in_keyword(Error::new(ErrorKind::Unknown, format!("unknown fetch method '{}'", keyword.fetch))));
    };
    if let State::NotYet { comes_with } = found.state {
        return Err(expression::unsupported("ACL keyword", &name, comes_with));
    }
    let rest = first.get(length..).unwrap_or_default();
    let (arguments, mut used) =
        expression::parse_arguments(rest, &name, found, parser).map_err(|refused| match refused {
            Refused::List(error) => in_keyword(error),
            Refused::Check(error) => error.context(|message| format!("in argument to '{name}', {message}")),
        })?;
    used += length;
    let mut conversions: Vec<Conversion> = Vec::new();
    let mut output = found.output;
    while used < first.len() {
        let rest = first.get(used..).unwrap_or_default();
        let commas = rest.iter().take_while(|byte| **byte == b',').count();
        if commas == 0 {
            let what = if conversions.is_empty() { "fetch keyword" } else { "converter" };
            return Err(in_keyword(Error::new(ErrorKind::Syntax, format!("missing comma after {what}."))).word(rest));
        }
        used += commas;
        let rest = first.get(used..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        if let Some((conversion, length)) = Conversion::parse(rest, output, false, parser).map_err(in_keyword)? {
            output = conversion.output();
            conversions.push(conversion);
            used += length;
        }
    }
    // After a converter the name of the keyword no longer says how to match.
    let (method, label) = match conversions.is_empty() {
        true => (Some(keyword.method), keyword.name),
        false => (MatchMethod::default_for(output), keyword.fetch),
    };
    let shown = String::from_utf8_lossy(first).into_owned();
    let expression = Expression::build(&shown, found, arguments, conversions);
    Ok(Subject { expression, keyword: name.into(), label, method, used: 1 })
}

/// Reads a test: a subject, flags, patterns.
fn parse_test(words: &[&[u8]], parser: &mut ParseContext<'_>) -> Result<Test, Error> {
    let Subject { expression, keyword, label, mut method, used } = parse_subject(words, parser)?;
    let output = expression.output();
    let mut rest = words.get(used..).unwrap_or_default();
    if method.is_some() && output != Type::Bool && rest.is_empty() {
        let shown = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
        parser.warn(format!(
            "parsing acl keyword '{shown}' :\n  no pattern to match against were provided, so this ACL will never match.\n  \
             If this is what you intended, please add '--' to get rid of this warning.\n  If you intended to match only for \
             existence, please use '-m found'.\n  If you wanted to force an int to match as a bool, please use '-m bool'.\n"
        ));
    }
    let without_method = || {
        let message = format!(
            "matching method must be specified first (using '-m') when using a sample fetch of this type ('{keyword}')"
        );
        Error::new(ErrorKind::Type, message)
    };
    let mut files: Vec<Arc<PatternExpression>> = Vec::new();
    let mut id = None;
    let (mut ignore_case, mut resolves, mut as_map) = (false, true, false);
    while let Some((flag, tail)) = rest.split_first() {
        if flag.first() != Some(&b'-') {
            break;
        }
        rest = tail;
        let mut value = || {
            let first = rest.first().copied().unwrap_or_default();
            rest = rest.get(1..).unwrap_or_default();
            first
        };
        match *flag {
            b"-i" => ignore_case = true,
            b"-n" => resolves = false,
            b"-M" => as_map = true,
            b"--" => break,
            b"-u" => {
                let word = value();
                let Some(wanted) = crate::number::parse_integer(word) else {
                    let message = "the argument of -u must be an integer";
                    return Err(Error::new(ErrorKind::Argument, message).word(word));
                };
                if !parser.patterns.is_free(wanted) {
                    return Err(Error::new(ErrorKind::Argument, "the id is already used").word(word));
                }
                id = Some(wanted);
            }
            b"-m" => {
                let word = value();
                let name = String::from_utf8_lossy(word).into_owned();
                if !files.is_empty() {
                    let message = "'-m' must only be specified before patterns and files in parsing ACL expression";
                    return Err(Error::new(ErrorKind::Syntax, message).word(word));
                }
                let Some(found) = MatchMethod::find(&name) else {
                    let known = crate::pattern::MATCH_METHODS.iter().map(|method| method.name());
                    let message = format!("unknown matching method '{name}' when parsing ACL expression");
                    let near = basics::nearest(&name, known);
                    return Err(Error::new(ErrorKind::Unknown, message).word(word).near(near));
                };
                if found != MatchMethod::Found && !output.casts_to(found.input()) {
                    let message = format!("matching method '{name}' cannot be used with fetch keyword '{keyword}'");
                    return Err(Error::new(ErrorKind::Type, message).word(word));
                }
                method = Some(found);
            }
            b"-f" => {
                let path = value();
                let method = method.ok_or_else(without_method)?;
                let compilation = Compilation { method, ignore_case, resolves, output: None };
                files.push(load_file(path, compilation, as_map, parser)?);
            }
            other => {
                let message = format!(
                    "'{}' is not a valid ACL option. Please use '--' before any pattern beginning with a '-'",
                    String::from_utf8_lossy(other)
                );
                return Err(Error::new(ErrorKind::Syntax, message).word(other));
            }
        }
    }
    let method = method.ok_or_else(without_method)?;
    let compilation = Compilation { method, ignore_case, resolves, output: None };
    let (inline, reference) = inline_patterns(rest, compilation, label, id, parser)?;
    let user_list = match (method, expression.first_argument()) {
        (MatchMethod::Group, Some(Argument::Name(list))) => Some(list.clone()),
        _ => None,
    };
    if let Some(list) = &user_list {
        let mut groups: Vec<Vec<u8>> = inline.words().map(<[u8]>::to_vec).collect();
        for file in &files {
            file.read(|index| groups.extend(index.words().map(<[u8]>::to_vec)));
        }
        for group in groups {
            let name = format!("{list}/{}", String::from_utf8_lossy(&group));
            parser.refer(ReferenceKind::Group, name, &keyword, 0);
        }
    }
    Ok(Test { expression, keyword, matcher: Matcher::new(method, inline, reference, files, user_list) })
}

/// Compiles the patterns that stand in the ACL, and keeps them as text for whoever looks at them or changes them later.
fn inline_patterns(
    words: &[&[u8]],
    compilation: Compilation,
    label: &'static str,
    id: Option<i64>,
    parser: &mut ParseContext<'_>,
) -> Result<(PatternSet, Arc<PatternReference>), Error> {
    let Compilation { method, ignore_case, resolves, .. } = compilation;
    let mut texts: Vec<Arc<[u8]>> = Vec::with_capacity(words.len());
    let set = if method.is_numeric() {
        let is_dotted = method == MatchMethod::Version;
        let mut operator = Operator::Equal;
        let mut ranges = Vec::with_capacity(words.len());
        for word in words {
            if let Some(found) = Operator::find(word) {
                operator = found;
                continue;
            }
            let range = integer_pattern(word, operator, is_dotted)
                .map_err(|reason| Error::new(ErrorKind::Argument, reason).word(word))?;
            let is_range = word.iter().any(|byte| matches!(byte, b':' | b'-'));
            texts.push(if operator == Operator::Equal || is_range {
                Arc::from(*word)
            } else {
                range.text(is_dotted).into_bytes().into()
            });
            ranges.push(range);
        }
        PatternSet::integers(method, ranges)
    } else {
        texts.extend(words.iter().map(|word| Arc::from(*word)));
        let loader = parser.loader;
        let resolve = |name: &str| if resolves { loader.resolve(name) } else { None };
        let options = PatternOptions { method, ignore_case, resolve: &resolve };
        PatternSet::compile(words, &options).map_err(|(number, reason)| {
            Error::new(ErrorKind::Argument, reason).word(words.get(number).copied().unwrap_or_default())
        })?
    };
    let reference = parser.patterns.add_inline(label, compilation, id, &texts, (parser.file, parser.line));
    Ok((set, reference))
}

fn load_file(
    path: &[u8],
    compilation: Compilation,
    as_map: bool,
    parser: &mut ParseContext<'_>,
) -> Result<Arc<PatternExpression>, Error> {
    let Ok(path) = std::str::from_utf8(path) else {
        return Err(Error::new(ErrorKind::File, "a path must be UTF-8").word(path));
    };
    let reference = parser.load(path, as_map, if as_map { User::AclOnMap } else { User::Acl })?;
    let loader = parser.loader;
    reference.expression(compilation, &|name| loader.resolve(name)).map_err(|(line, reason)| {
        Error::new(ErrorKind::File, format!("{reason} at line {line} of file '{path}'")).word(path.as_bytes())
    })
}
