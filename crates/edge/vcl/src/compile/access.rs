//! What may be used where.
//!
//! Each routine notes what it uses, calls and returns, with places. When all texts are read, each subroutine of the cache is gone
//! through with all that it calls: what is not allowed in it is an error that shows the way there.

use super::{Compiler, Draft, Outcome};
use crate::{
    action::Action,
    diagnostic::Diagnostic,
    program::RoutineIndex,
    source::Span,
    subroutine::{Subroutine, Subroutines},
};

/// How deep routines may call one another.
pub const CALL_DEPTH_MAX: usize = 200;

/// What is done with a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is read, or a function is called.
    Read,
    /// It is set.
    Set,
    /// It is removed.
    Unset,
    /// It is a statement.
    Do,
}

impl Verb {
    const fn refusal(self) -> &'static str {
        match self {
            Self::Read => "Not available",
            Self::Set => "Cannot be set",
            Self::Unset => "Cannot be unset",
            Self::Do => "Not a valid action",
        }
    }
}

/// What a routine does that may not be done everywhere.
#[derive(Debug, Default)]
pub struct Trace {
    uses: Vec<(Subroutines, Verb, Span)>,
    calls: Vec<(RoutineIndex, Span)>,
    returns: Vec<(Action, Span)>,
}

/// How a routine was come to: who called it, and where.
struct Step<'s> {
    caller: &'s Draft,
    call: Span,
    before: Option<&'s Step<'s>>,
}

impl Compiler<'_> {
    /// Notes that something is used here which is allowed in these subroutines.
    pub(super) fn note_use(&mut self, places: Subroutines, verb: Verb, span: Span) {
        if let Some(trace) = self.current_trace() {
            trace.uses.push((places, verb, span));
        }
    }

    /// Notes a call.
    pub(super) fn note_call(&mut self, routine: RoutineIndex, span: Span) {
        if let Some(trace) = self.current_trace() {
            trace.calls.push((routine, span));
        }
    }

    /// Notes an answer.
    pub(super) fn note_return(&mut self, action: Action, span: Span) {
        if let Some(trace) = self.current_trace() {
            trace.returns.push((action, span));
        }
    }

    fn current_trace(&mut self) -> Option<&mut Trace> {
        let index = self.current?.0 as usize;
        self.drafts.get_mut(index).map(|draft| &mut draft.trace)
    }

    /// Goes from each subroutine of the cache through all that it calls.
    pub(super) fn check_access(&self) -> Outcome<()> {
        let every = (0..self.drafts.len()).map(|index| RoutineIndex(u32::try_from(index).unwrap_or(u32::MAX)));
        // NOTE: a circle is shown without the way that leads to it.
        let is_entry = |index: &RoutineIndex| self.draft(*index).is_some_and(|draft| draft.name.starts_with("vcl_"));
        let (entries, others): (Vec<_>, Vec<_>) = every.partition(is_entry);
        let every = others.into_iter().chain(entries);
        let mut colours = vec![Colour::New; self.drafts.len()];
        for index in every {
            self.check_recursion(index, &mut colours, None, 0)?;
        }
        for subroutine in Subroutine::ALL {
            let Some(entry) = self.drafts.iter().find(|draft| draft.name == subroutine.name()) else { continue };
            let mut seen = vec![false; self.drafts.len()];
            self.check_routine(*subroutine, entry, None, &mut seen)?;
        }
        Ok(())
    }

    fn draft(&self, index: RoutineIndex) -> Option<&Draft> {
        self.drafts.get(index.0 as usize)
    }

    fn check_recursion(
        &self,
        index: RoutineIndex,
        colours: &mut [Colour],
        way: Option<&Step<'_>>,
        depth: usize,
    ) -> Outcome<()> {
        let (Some(colour), Some(draft)) = (colours.get_mut(index.0 as usize), self.draft(index)) else { return Ok(()) };
        match *colour {
            Colour::Done => return Ok(()),
            Colour::Open => {
                let error = Diagnostic::new("Subroutine recurses on");
                let error = draft.defined.map_or(error.clone(), |span| error.show(span));
                return Err(show_way(error, way).say(""));
            }
            Colour::New => *colour = Colour::Open,
        }
        if depth > CALL_DEPTH_MAX {
            let words = format!("Subroutines call one another more than {CALL_DEPTH_MAX} deep.");
            return Err(show_way(Diagnostic::new(words), way));
        }
        for (callee, call) in &draft.trace.calls {
            let step = Step { caller: draft, call: *call, before: way };
            self.check_recursion(*callee, colours, Some(&step), depth + 1)?;
        }
        if let Some(colour) = colours.get_mut(index.0 as usize) {
            *colour = Colour::Done;
        }
        Ok(())
    }

    fn check_routine(
        &self,
        subroutine: Subroutine,
        draft: &Draft,
        way: Option<&Step<'_>>,
        seen: &mut [bool],
    ) -> Outcome<()> {
        for (places, verb, span) in &draft.trace.uses {
            if !places.contains(subroutine) {
                return Err(refused(subroutine, draft, *verb, *span, way));
            }
        }
        for (action, span) in &draft.trace.returns {
            if !action.places().contains(subroutine) {
                return Err(invalid_return(subroutine, draft, *action, *span, way));
            }
        }
        for (callee, call) in &draft.trace.calls {
            let (Some(slot), Some(called)) = (seen.get_mut(callee.0 as usize), self.draft(*callee)) else { continue };
            if !std::mem::replace(slot, true) {
                let step = Step { caller: draft, call: *call, before: way };
                self.check_routine(subroutine, called, Some(&step), seen)?;
            }
        }
        Ok(())
    }

    /// Where each routine may be called from.
    pub(super) fn places(&self) -> Vec<Subroutines> {
        let mut places: Vec<Option<Subroutines>> = vec![None; self.drafts.len()];
        for index in 0..self.drafts.len() {
            self.places_of(index, &mut places);
        }
        places.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// NOTE: no routine calls itself, and none calls deeper than [`CALL_DEPTH_MAX`].
    fn places_of(&self, index: usize, known: &mut [Option<Subroutines>]) -> Subroutines {
        if let Some(places) = known.get(index).copied().flatten() {
            return places;
        }
        let Some(draft) = self.drafts.get(index) else { return Subroutines::ALL };
        let trace = &draft.trace;
        let mut places = trace.uses.iter().fold(Subroutines::ALL, |all, (places, ..)| all.and(*places));
        places = trace.returns.iter().fold(places, |all, (action, _)| all.and(action.places()));
        for (callee, _) in &trace.calls {
            places = places.and(self.places_of(callee.0 as usize, known));
        }
        if let Some(slot) = known.get_mut(index) {
            *slot = Some(places);
        }
        places
    }
}

/// Whether a routine has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    New,
    Open,
    Done,
}

fn refused(subroutine: Subroutine, draft: &Draft, verb: Verb, span: Span, way: Option<&Step<'_>>) -> Diagnostic {
    let error = Diagnostic::default().show_range(span);
    if way.is_none() {
        return error.say(format!("{} in subroutine '{subroutine}'.", verb.refusal()));
    }
    let error = error.say(format!("{} from subroutine '{subroutine}'.", verb.refusal()));
    show_entry(show_way(in_subroutine(error, draft), way), subroutine)
}

fn invalid_return(
    subroutine: Subroutine,
    draft: &Draft,
    action: Action,
    span: Span,
    way: Option<&Step<'_>>,
) -> Diagnostic {
    let error = Diagnostic::at(format!("Invalid return \"{}\"", action.name()), span);
    let error = show_entry(show_way(in_subroutine(error, draft), way), subroutine);
    error.say(format!("Legal returns are: {}", Action::legal_in(subroutine)))
}

fn in_subroutine(error: Diagnostic, draft: &Draft) -> Diagnostic {
    let error = error.say(format!("\n...in subroutine \"{}\"", draft.name));
    match draft.defined {
        Some(span) => error.show(span),
        None => error,
    }
}

fn show_way(mut error: Diagnostic, way: Option<&Step<'_>>) -> Diagnostic {
    let mut at = way;
    while let Some(step) = at {
        error = error.say(format!("\n...called from \"{}\"", step.caller.name)).show(step.call);
        at = step.before;
    }
    error
}

fn show_entry(error: Diagnostic, subroutine: Subroutine) -> Diagnostic {
    error.say(format!("\n...which is the \"{subroutine}\" subroutine"))
}
