//! Statements.

use super::{
    evaluate::{Run, texts},
    host::{Failure, Host},
    value::Value,
    workspace::Workspace,
};
use crate::{
    action::Action,
    compile::CALL_DEPTH_MAX,
    program::{LabelIndex, Program, Return, RoutineIndex, Statement},
    subroutine::Subroutine,
};

/// What a subroutine answered.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'w> {
    /// What is next.
    pub action: Action,
    /// `synth(404)`, `error(503)`.
    pub status: Option<i64>,
    /// The reason phrase, or why it failed.
    pub text: Option<&'w [u8]>,
    /// `pass(10s)`.
    pub seconds: Option<f64>,
    /// `vcl(label)`.
    pub label: Option<LabelIndex>,
}

/// How a block ended.
enum Flow<'w> {
    /// At its end.
    Next,
    /// The routine is left.
    Leave,
    /// The subroutine has its answer.
    Answer(Answer<'w>),
}

/// Runs a subroutine of the cache.
///
/// # Errors
/// Why it failed.
pub fn run<'w, H: Host>(
    program: &'w Program,
    subroutine: Subroutine,
    host: &mut H,
    workspace: &'w Workspace,
) -> Result<Answer<'w>, Failure> {
    let entry = program.entries.get(subroutine as usize).ok_or(Failure::NoAnswer)?;
    let mut run = Run { program, host, workspace };
    match run.routine(*entry, 0)? {
        Flow::Answer(answer) => Ok(answer),
        Flow::Next | Flow::Leave => Err(Failure::NoAnswer),
    }
}

impl<'w, H: Host> Run<'w, '_, H> {
    fn routine(&mut self, index: RoutineIndex, depth: usize) -> Result<Flow<'w>, Failure> {
        // Routines that are handed to modules are called from outside of what the compiler has looked at.
        if depth > CALL_DEPTH_MAX {
            return Err(Failure::TooDeep);
        }
        let routine = self.program.routine(index).ok_or(Failure::NoAnswer)?;
        match self.block(&routine.body, depth)? {
            Flow::Leave => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    fn block(&mut self, body: &'w [Statement], depth: usize) -> Result<Flow<'w>, Failure> {
        for statement in body {
            match statement {
                Statement::If(arms) => {
                    for (condition, body) in arms {
                        let holds = match condition {
                            Some(condition) => self.holds(condition)?,
                            None => true,
                        };
                        if holds {
                            match self.block(body, depth)? {
                                Flow::Next => break,
                                flow => return Ok(flow),
                            }
                        }
                    }
                }
                Statement::Call(index) => {
                    if let Flow::Answer(answer) = self.routine(*index, depth + 1)? {
                        return Ok(Flow::Answer(answer));
                    }
                }
                Statement::Leave => return Ok(Flow::Leave),
                Statement::Return(answer) => return self.answer(answer).map(Flow::Answer),
                other => self.step(other)?,
            }
        }
        Ok(Flow::Next)
    }

    /// A statement that goes on with the next one.
    fn step(&mut self, statement: &'w Statement) -> Result<(), Failure> {
        match statement {
            Statement::SetHeader(header, value) => {
                let value = self.text(value)?.unwrap_or_default();
                self.host.set_header(header, value)
            }
            Statement::UnsetHeader(header) => {
                self.host.unset_header(header);
                Ok(())
            }
            Statement::Set(variable, value) => {
                let value = self.value(value)?;
                self.host.set_variable(*variable, value)
            }
            Statement::AppendBody(variable, value) => {
                for piece in texts(value) {
                    // NOTE: as in Varnish, a page shows what is not set.
                    match self.value(piece)? {
                        Value::String(None) => self.host.append_body(*variable, Value::String(Some(b"(null)")))?,
                        value @ (Value::String(_) | Value::Blob(_)) => self.host.append_body(*variable, value)?,
                        _ => {
                            let text = self.text(piece)?;
                            self.host.append_body(*variable, Value::String(text))?;
                        }
                    }
                }
                Ok(())
            }
            Statement::Unset(variable) => {
                self.host.unset_variable(*variable);
                Ok(())
            }
            Statement::HashData(value) => {
                // NOTE: each call is told apart from the next one, so that "a" and "b" are not "ab"; its pieces are not.
                for piece in texts(value) {
                    if let Some(text) = self.text(piece)? {
                        self.host.hash_data(text);
                    }
                }
                self.host.end_hash_data();
                Ok(())
            }
            Statement::Ban(value) => {
                let text = self.text(value)?.unwrap_or_default();
                self.host.ban(text)
            }
            Statement::Do(expression) => self.value(expression).map(|_| ()),
            Statement::New(object, arguments) => {
                let arguments = self.arguments(arguments)?;
                self.host.make(*object, &arguments)
            }
            Statement::If(_) | Statement::Call(_) | Statement::Leave | Statement::Return(_) => Ok(()),
        }
    }

    fn answer(&mut self, answer: &'w Return) -> Result<Answer<'w>, Failure> {
        let number = answer.number.as_ref().map(|number| self.value(number)).transpose()?;
        let text = answer.text.as_ref().map(|text| self.text(text)).transpose()?.flatten();
        let (status, seconds) = match number {
            Some(Value::Int(status)) => (Some(status), None),
            Some(Value::Duration(seconds)) => (None, Some(seconds)),
            _ => (None, None),
        };
        Ok(Answer { action: answer.action, status, text, seconds, label: answer.label })
    }
}
