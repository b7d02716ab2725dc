//! `set-var`, `set-var-fmt` and `unset-var`, wherever they may stand.

use sample::{LogFormatOptions, SetCondition};

use super::{ruleset::Ruleset, words::wrong};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{SetVariable, VariableValue},
    scope::Scope,
};

/// What HAProxy says about a name without its parentheses.
fn incomplete(word: &str, index: usize, how: &str) -> Problem {
    wrong(
        format!(
            "{how} action '{word}'. Expects 'set-var(<var-name>)', 'set-var-fmt(<var-name>)' or 'unset-var(<var-name>)'"
        ),
        index,
    )
    .expected("a variable in parentheses, as in set-var(txn.user)")
}

/// Whether a word that is no known action was meant to be one of these.
pub(super) fn incomplete_action(word: &str, index: usize) -> Option<Problem> {
    let stem = word.split('(').next().unwrap_or_default();
    matches!(stem, "set-var" | "set-var-fmt" | "unset-var").then(|| incomplete(word, index, "invalid or incomplete"))
}

/// What stands within the parentheses: name and conditions.
fn parenthesized(line: &Line, index: usize) -> Result<(&str, Vec<&str>), Problem> {
    let word = line.word(index);
    let Some((_, inside)) = word.split_once('(') else {
        return Err(incomplete(word, index, "invalid or incomplete"));
    };
    let Some(inside) = inside.strip_suffix(')') else {
        return Err(incomplete(word, index, "incomplete argument after"));
    };
    let mut parts = inside.split(',');
    let name = parts.next().unwrap_or_default();
    // As in HAProxy, conditions end at the first empty one.
    Ok((name, parts.take_while(|condition| !condition.is_empty()).collect()))
}

fn condition(word: &str, index: usize) -> Result<SetCondition, Problem> {
    SetCondition::parse(word.as_bytes()).ok_or_else(|| {
        wrong(format!("unknown condition \"{word}\""), index)
            .expected("ifexists, ifnotexists, ifempty, ifnotempty, ifset, ifnotset, ifgt or iflt")
            .nearest(word, SetCondition::WORDS.iter().map(|(name, _)| *name))
    })
}

/// `set-var(name[,condition...]) <expr>` and `set-var-fmt(name[,condition...]) <fmt>`.
pub(super) fn set(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<SetVariable, Problem> {
    let at = *index;
    let ruleset = Ruleset::of(line, at);
    let (name, conditions) = parenthesized(line, at)?;
    let conditions = conditions.into_iter().map(|word| condition(word, at)).collect::<Result<_, _>>()?;
    let name = scope.variable(line, at, name)?;
    let places = ruleset.places(scope);
    *index += 1;
    let value = if line.word(at).starts_with("set-var-fmt") {
        if line.word(*index).is_empty() {
            return Err(wrong("expects a format string", *index).expected("one <fmt>, spaces escaped or quoted"));
        }
        let text = line.bytes(*index);
        let format = scope.log_format_with(line, *index, text, places, LogFormatOptions::PLAIN)?;
        *index += 1;
        VariableValue::Format(format)
    } else {
        if line.word(*index).is_empty() {
            return Err(wrong("missing fetch method", *index).expected("a sample expression, as in req.hdr(host)"));
        }
        VariableValue::Expr(scope.expr(line, index, places)?)
    };
    Ok(SetVariable { name, value, conditions })
}

/// `unset-var(name)`.
pub(super) fn unset(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<sample::VariableName, Problem> {
    let at = *index;
    let (name, conditions) = parenthesized(line, at)?;
    if !conditions.is_empty() {
        return Err(wrong(
            "unset-var does not expect parameters after the variable name. Only \"set-var\" and \"set-var-fmt\" \
             manage conditions",
            at,
        ));
    }
    let name = scope.variable(line, at, name)?;
    *index += 1;
    Ok(name)
}

/// `set-var <name> <expr>` and `set-var-fmt <name> <fmt>` of `global`.
pub(super) fn set_global(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    let formatted = keyword == "set-var-fmt";
    if line.word(1).is_empty() || line.word(2).is_empty() {
        let what = if formatted { "a format string" } else { "a sample expression" };
        return Err(wrong(
            format!("'{keyword}' requires a process-wide variable name ('proc.<name>') and {what}."),
            line.len().min(2),
        ));
    }
    let name = scope.variable(line, 1, line.word(1))?;
    if name.scope() != sample::Scope::Process {
        return Err(wrong(
            format!(
                "'{keyword}': cannot set variable '{}', only scope 'proc' is permitted in the global section.",
                line.word(1)
            ),
            1,
        )
        .expected("a name that begins with proc."));
    }
    let places = Ruleset::Configuration.places(scope);
    let value = if formatted {
        VariableValue::Format(scope.log_format_with(line, 2, line.bytes(2), places, LogFormatOptions::PLAIN)?)
    } else {
        VariableValue::Expr(scope.expr(line, &mut 2, places)?)
    };
    scope.state.global.set_vars.push(SetVariable { name, value, conditions: Vec::new() });
    Ok(())
}
