//! The parser: a machine that takes a body in pieces of any size.
//!
//! All bytes up to `decided` are delivered or skipped; those up to `position` have been looked at. A word that may still become one of
//! several stands in `word` until that is known. Text within `<!--esi -->` is looked at like any other, so the end of that comment is
//! looked for beside tags (`comment_end`).

use std::mem;

use super::{
    ATTRIBUTE_BYTES_MAX, NOTES_MAX, Note, Piece, Plan, Settings, Severity,
    include::{Include, NoTarget, Scheme, Target},
    states::{Attribute, Ending, Match, Next, State, Words, is_blank, is_name, is_name_start, is_space},
};

const NO_XML: &str = "No ESI processing, first char not '<'. (See feature esi_disable_xml_check)";
const NO_XML_BUT_MARK: &str = "No ESI processing, first char not '<' but BOM. (See feature esi_remove_bom)";

const TREATED_AS_HTTP: &str = "ESI 1.0 <esi:include> https:// treated as http://";

/// Which of our tags it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Include,
    Remove,
    Comment,
}

/// What an ESI tag has said so far.
#[derive(Debug, Default)]
struct TagContents {
    tag: Option<Tag>,
    is_end: bool,
    /// `/` has come: `>` must follow.
    is_empty: bool,
    may_have_attribute: bool,
    /// The attribute whose value comes; `None` for one that nobody wants.
    attribute: Option<Attribute>,
    value: Vec<u8>,
    source: Option<Vec<u8>>,
    alt: Option<Vec<u8>>,
    continues_on_error: bool,
}

/// Reads a body.
#[derive(Debug)]
pub struct Parser {
    settings: Settings,
    page: Box<[u8]>,
    state: State,
    position: u64,
    decided: u64,
    /// Whether what was decided last is delivered, and where that run begins.
    delivers: bool,
    run_start: u64,
    word: Vec<u8>,
    /// How much has come of what ends a comment or CDATA.
    ending_matched: usize,
    /// How much has come of `-->`, within `<!--esi`.
    comment_end: Option<usize>,
    is_in_esi_tag: bool,
    is_in_remove: bool,
    has_esi: bool,
    contents: TagContents,
    plan: Plan,
    notes: Vec<Note>,
    errors: u64,
    warnings: u64,
}

impl Parser {
    /// A parser for the body of the page with this URL, by which relative ones are found.
    #[must_use]
    pub fn new(settings: Settings, page: &[u8]) -> Self {
        Self {
            settings,
            page: page.into(),
            state: State::Start,
            position: 0,
            decided: 0,
            delivers: true,
            run_start: 0,
            word: Vec::new(),
            ending_matched: 0,
            comment_end: None,
            is_in_esi_tag: false,
            is_in_remove: false,
            has_esi: false,
            contents: TagContents::default(),
            plan: Plan::default(),
            notes: Vec::new(),
            errors: 0,
            warnings: 0,
        }
    }

    /// Takes the next bytes of the body.
    pub fn parse(&mut self, bytes: &[u8]) {
        self.run(bytes);
        if self.is_in_esi_tag || self.is_in_remove {
            self.decide(false);
        } else if matches!(self.state, State::OtherTag | State::Until(_) | State::BeforeXml | State::NotXml)
            || self.state == State::Text && self.comment_end.is_none_or(|matched| matched == 0)
        {
            self.decide(true);
        }
    }

    /// The body is over. `None` if there is nothing of ESI in it: it is delivered as it is.
    pub fn finish(&mut self) -> Option<Plan> {
        if !matches!(self.state, State::Start | State::AfterMark | State::BeforeXml | State::NotXml | State::Text)
            && !(self.state == State::Word(Words::ByteOrderMark))
        {
            self.error("VEP ended inside a tag");
        }
        self.position += mem::take(&mut self.word).len() as u64;
        self.decide(self.delivers);
        self.has_esi.then(|| mem::take(&mut self.plan))
    }

    /// What is known of the plan so far: it only grows.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is wrong with the body, as far as it was not taken yet.
    pub fn take_notes(&mut self) -> Vec<Note> {
        mem::take(&mut self.notes)
    }

    /// How many errors there were (`esi_errors`).
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How many warnings there were (`esi_warnings`).
    #[must_use]
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    fn run(&mut self, mut rest: &[u8]) {
        while let Some(first) = rest.first() {
            rest = self.step(*first, rest);
        }
    }

    /// Looks at some bytes, or at none and goes to another state; what is left.
    fn step<'i>(&mut self, first: u8, rest: &'i [u8]) -> &'i [u8] {
        match self.state {
            State::Start if self.settings.remove_bom && matches!(first, 0xeb | 0xef) => {
                self.look_for(Words::ByteOrderMark, rest)
            }
            State::Start => self.goto(State::AfterMark, rest),
            State::AfterMark => {
                self.decide(false);
                let next = if self.settings.disable_xml_check { State::Text } else { State::BeforeXml };
                self.goto(next, rest)
            }
            State::BeforeXml => self.before_xml(rest),
            State::NotXml => self.advance(rest, rest.len()),
            State::Text => self.text(rest),
            State::OtherTag => self.other_tag(rest),
            State::Until(ending) => self.until(ending, rest),
            State::Word(words) => self.word(words, rest),
            State::EsiComment => {
                if self.is_in_remove {
                    self.error("ESI 1.0 Nested <!--esi element in <esi:remove>");
                }
                self.comment_end = Some(0);
                self.decide(false);
                self.goto(State::Text, rest)
            }
            State::EsiTag { is_end } => {
                self.is_in_esi_tag = true;
                self.has_esi = true;
                self.decide(false);
                self.contents = TagContents { is_end, ..TagContents::default() };
                self.look_for(Words::EsiTag, rest)
            }
            State::Include | State::Remove | State::Comment | State::UnknownTag => self.begin_tag(rest),
            State::InTag => self.in_tag(rest),
            State::BadTag => self.bad_tag(rest),
            State::OtherAttribute => self.other_attribute(rest),
            State::BeforeValue if is_blank(first) => {
                self.error("XML 1.0 Illegal attribute delimiter");
                self.goto(State::BadTag, rest)
            }
            State::BeforeValue => {
                let quote = Some(first).filter(|byte| matches!(byte, b'"' | b'\''));
                self.state = State::Value(quote);
                self.advance(rest, usize::from(quote.is_some()))
            }
            State::Value(quote) => self.value(quote, rest),
        }
    }

    fn before_xml<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        let rest = self.advance_while(rest, is_space);
        self.decide(true);
        match rest.first() {
            None => rest,
            Some(b'<') => {
                let rest = self.advance(rest, 1);
                self.look_for(Words::AfterLess, rest)
            }
            Some(other) => {
                let text = if matches!(other, 0xeb | 0xef) { NO_XML_BUT_MARK } else { NO_XML };
                self.note(Severity::NotProcessed, text);
                self.goto(State::NotXml, rest)
            }
        }
    }

    fn text<'i>(&mut self, mut rest: &'i [u8]) -> &'i [u8] {
        if self.comment_end.is_some() {
            rest = self.text_in_comment(rest);
        } else {
            let length = memchr::memchr(b'<', rest).unwrap_or(rest.len());
            rest = self.advance(rest, length);
        }
        if rest.first() != Some(&b'<') {
            return rest;
        }
        if !self.is_in_remove {
            self.decide(true);
        }
        let rest = self.advance(rest, 1);
        self.look_for(Words::AfterLess, rest)
    }

    /// Up to `<`, or behind `-->`.
    fn text_in_comment<'i>(&mut self, mut rest: &'i [u8]) -> &'i [u8] {
        while let (Some(matched), Some(first)) = (self.comment_end, rest.first()) {
            if *first == b'<' {
                return rest;
            }
            let ending = Ending::Comment.text();
            // NOTE: as in Varnish, `--->` ends no comment: what did not fit is not looked at again.
            if ending.get(matched) != Some(first) {
                self.comment_end = Some(0);
                rest = self.advance(rest, 1);
                continue;
            }
            if matched == 0 && !self.is_in_remove {
                self.decide(true);
            }
            rest = self.advance(rest, 1);
            self.comment_end = Some(matched + 1);
            if matched + 1 == ending.len() {
                self.comment_end = None;
                self.has_esi = true;
                self.decide(false);
            }
        }
        rest
    }

    fn other_tag<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        if self.settings.ignore_other_elements {
            self.state = State::Text;
            return self.advance(rest, 1);
        }
        let end = memchr::memchr(b'>', rest);
        if end.is_some() {
            self.state = State::Text;
        }
        self.advance(rest, end.map_or(rest.len(), |end| end + 1))
    }

    fn until<'i>(&mut self, ending: Ending, rest: &'i [u8]) -> &'i [u8] {
        if ending == Ending::Comment {
            // An ordinary comment within `<!--esi` ends that too.
            self.comment_end = None;
        }
        let text = ending.text();
        for (place, byte) in rest.iter().enumerate() {
            let fits = text.get(self.ending_matched) == Some(byte);
            self.ending_matched = if fits { self.ending_matched + 1 } else { 0 };
            if self.ending_matched == text.len() {
                self.ending_matched = 0;
                self.state = State::Text;
                return self.advance(rest, place + 1);
            }
        }
        self.advance(rest, rest.len())
    }

    fn word<'i>(&mut self, words: Words, rest: &'i [u8]) -> &'i [u8] {
        if self.word.is_empty() {
            return match words.find(rest) {
                Match::Partial => {
                    self.word.extend_from_slice(rest);
                    rest.get(rest.len()..).unwrap_or_default()
                }
                Match::Decided(length, next) => {
                    let rest = self.advance(rest, length);
                    self.follow(next);
                    rest
                }
            };
        }
        let Some((first, rest)) = rest.split_first() else { return rest };
        self.word.push(*first);
        if let Match::Decided(length, next) = words.find(&self.word) {
            let word = mem::take(&mut self.word);
            let behind = self.advance(&word, length);
            self.follow(next);
            // What looked like a longer word is looked at again.
            self.run(behind);
        }
        rest
    }

    fn follow(&mut self, next: Next) {
        match next {
            Next::State(state) => self.state = state,
            Next::Attribute(attribute) => {
                self.contents.attribute = Some(attribute);
                self.contents.value.clear();
                self.state = State::BeforeValue;
            }
        }
    }

    fn begin_tag<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        let (tag, nested, end) = match self.state {
            State::Include => (
                Tag::Include,
                "ESI 1.0 <esi:include> element nested in <esi:remove>",
                "ESI 1.0 </esi:include> illegal end-tag",
            ),
            State::Comment => (
                Tag::Comment,
                "ESI 1.0 <esi:comment> element nested in <esi:remove>",
                "ESI 1.0 </esi:comment> illegal end-tag",
            ),
            State::Remove => {
                self.contents.tag = Some(Tag::Remove);
                return self.goto(State::InTag, rest);
            }
            _ => return self.bad("ESI 1.0 <esi:bogus> element", rest),
        };
        if self.is_in_remove {
            self.bad(nested, rest)
        } else if self.contents.is_end {
            self.bad(end, rest)
        } else {
            self.contents.tag = Some(tag);
            self.goto(State::InTag, rest)
        }
    }

    fn in_tag<'i>(&mut self, mut rest: &'i [u8]) -> &'i [u8] {
        if !self.contents.is_empty {
            let before = rest.len();
            rest = self.advance_while(rest, is_space);
            self.contents.may_have_attribute |= rest.len() < before;
            if rest.first() == Some(&b'/') {
                rest = self.advance(rest, 1);
                self.contents.is_empty = true;
            }
        }
        match rest.first() {
            None => rest,
            Some(b'>') => {
                let rest = self.advance(rest, 1);
                self.decide(false);
                self.end_tag();
                self.is_in_esi_tag = false;
                self.goto(State::Text, rest)
            }
            Some(_) if self.contents.is_empty => self.bad("XML 1.0 '>' does not follow '/' in tag", rest),
            Some(byte) if self.contents.may_have_attribute && is_name_start(*byte) => {
                self.contents.attribute = None;
                if self.contents.tag == Some(Tag::Include) {
                    self.look_for(Words::Attribute, rest)
                } else {
                    self.goto(State::OtherAttribute, rest)
                }
            }
            Some(_) => self.bad("XML 1.0 Illegal attribute start char", rest),
        }
    }

    fn bad_tag<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        let Some(end) = memchr::memchr(b'>', rest) else { return self.advance(rest, rest.len()) };
        let rest = self.advance(rest, end + 1);
        self.decide(false);
        self.is_in_esi_tag = false;
        self.contents = TagContents::default();
        self.goto(State::Text, rest)
    }

    fn other_attribute<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        let rest = self.advance_while(rest, is_name);
        match rest.first() {
            None => rest,
            Some(b'=') => {
                self.state = State::BeforeValue;
                self.advance(rest, 1)
            }
            Some(byte) if matches!(byte, b'>' | b'/') || is_blank(*byte) => self.goto(State::InTag, rest),
            Some(_) => self.bad("XML 1.0 Illegal attr char", rest),
        }
    }

    fn value<'i>(&mut self, quote: Option<u8>, rest: &'i [u8]) -> &'i [u8] {
        let ends = |byte: &u8| *byte == b'>' || quote.map_or_else(|| is_blank(*byte), |quote| *byte == quote);
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        if self.contents.attribute.is_some() {
            if self.contents.value.len() + length > ATTRIBUTE_BYTES_MAX {
                return self.bad("ESI 1.0 <esi:include> has an attribute of more than 32 kB", rest);
            }
            self.contents.value.extend_from_slice(rest.get(..length).unwrap_or_default());
        }
        let rest = self.advance(rest, length);
        match rest.first() {
            None => rest,
            Some(b'>') => self.bad("XML 1.0 Missing end attribute delimiter", rest),
            Some(_) => {
                let rest = self.advance(rest, 1);
                self.state = State::InTag;
                self.take_attribute();
                rest
            }
        }
    }

    fn take_attribute(&mut self) {
        let value = mem::take(&mut self.contents.value);
        let has_space = value.iter().any(|byte| is_space(*byte));
        match self.contents.attribute.take() {
            None => {}
            Some(Attribute::OnError) => self.contents.continues_on_error = value == b"continue",
            Some(Attribute::Source) if self.contents.source.is_some() => {
                self.error("ESI 1.0 <esi:include> has multiple src= attributes");
                self.state = State::BadTag;
            }
            Some(Attribute::Source) if has_space => {
                self.error("ESI 1.0 <esi:include> has whitespace in src= attribute");
                self.state = State::BadTag;
            }
            Some(Attribute::Source) => self.contents.source = Some(value),
            Some(Attribute::Alt) if has_space => self.warn("ESI 1.0 <esi:include> has whitespace in alt= attribute"),
            Some(Attribute::Alt) => self.contents.alt = Some(value),
        }
    }

    fn end_tag(&mut self) {
        let contents = mem::take(&mut self.contents);
        match contents.tag {
            Some(Tag::Include) => self.include(&contents),
            Some(Tag::Comment) if !contents.is_empty => self.error("ESI 1.0 <esi:comment> needs final '/'"),
            Some(Tag::Comment) | None => {}
            Some(Tag::Remove) => match (contents.is_empty, contents.is_end, self.is_in_remove) {
                (true, ..) => self.error("ESI 1.0 <esi:remove/> not legal"),
                (_, false, true) => self.error("ESI 1.0 <esi:remove> already open"),
                (_, true, false) => self.error("ESI 1.0 <esi:remove> not open"),
                (_, is_end, _) => self.is_in_remove = !is_end,
            },
        }
    }

    fn include(&mut self, contents: &TagContents) {
        if !contents.is_empty {
            self.warn("ESI 1.0 <esi:include> lacks final '/'");
        }
        let Some(source) = &contents.source else { return self.error("ESI 1.0 <esi:include> lacks src attr") };
        let Some(target) = self.target(source) else { return };
        let alt = contents.alt.as_ref().and_then(|alt| self.target(alt));
        let include = Include { target, alt, continues_on_error: contents.continues_on_error };
        self.plan.add(Piece::Include(Box::new(include)));
    }

    fn target(&mut self, source: &[u8]) -> Option<Target> {
        match Target::of(source, &self.page, self.settings.ignore_https) {
            Ok((target, scheme)) => {
                if scheme == Scheme::Https {
                    self.warn(TREATED_AS_HTTP);
                }
                return Some(target);
            }
            Err(NoTarget::Url) => self.error("ESI 1.0 <esi:include> invalid src= URL"),
            Err(NoTarget::HttpsUrl) => {
                self.warn(TREATED_AS_HTTP);
                self.error("ESI 1.0 <esi:include> invalid src= URL");
            }
            Err(NoTarget::Https) => self.warn("ESI 1.0 <esi:include> with https:// ignored"),
        }
        None
    }

    fn look_for<'i>(&mut self, words: Words, rest: &'i [u8]) -> &'i [u8] {
        self.goto(State::Word(words), rest)
    }

    fn goto<'i>(&mut self, state: State, rest: &'i [u8]) -> &'i [u8] {
        self.state = state;
        rest
    }

    fn bad<'i>(&mut self, text: &'static str, rest: &'i [u8]) -> &'i [u8] {
        self.error(text);
        self.goto(State::BadTag, rest)
    }

    fn advance<'i>(&mut self, rest: &'i [u8], bytes: usize) -> &'i [u8] {
        self.position += bytes as u64;
        rest.get(bytes..).unwrap_or_default()
    }

    fn advance_while<'i>(&mut self, rest: &'i [u8], passes: fn(u8) -> bool) -> &'i [u8] {
        let bytes = rest.iter().position(|byte| !passes(*byte)).unwrap_or(rest.len());
        self.advance(rest, bytes)
    }

    /// All bytes that have been looked at and not decided on are delivered, or not.
    fn decide(&mut self, delivers: bool) {
        if delivers != self.delivers {
            self.delivers = delivers;
            self.run_start = self.decided;
        }
        let bytes = self.position - self.decided;
        self.decided = self.position;
        self.plan.add(if delivers { Piece::Deliver(bytes) } else { Piece::Skip(bytes) });
    }

    fn error(&mut self, text: &'static str) {
        self.errors += 1;
        self.note(Severity::Error, text);
    }

    fn warn(&mut self, text: &'static str) {
        self.warnings += 1;
        self.note(Severity::Warning, text);
    }

    fn note(&mut self, severity: Severity, text: &'static str) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { severity, after: self.run_start, text });
        }
    }
}
