//! `program` sections.

use crate::{
    args,
    diagnostics::{Problem, Severity},
    line::{Line, Modifier},
    model::{Identity, Program},
    scope::{Scope, Section},
    table::Group,
};

/// `program`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(Problem::new("'program' expects an <id> argument").at(1).expected("a name"));
    }
    args::no_more(line, 1)?;
    if scope.state.programs.iter().any(|program| *program.name == *name) {
        let message = format!("'{name}' program section already exists in the configuration.");
        return Err(Problem::new(message).at(1));
    }
    scope.state.programs.push(Program {
        location: line.location(),
        name: name.into(),
        start_on_reload: true,
        ..Program::default()
    });
    scope.section = Section::Other(Group::Program);
    Ok(())
}

/// `command`. The last one counts, as in HAProxy.
pub fn command(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a command with optional arguments separated in words.")?;
    if let Some(program) = scope.state.programs.last_mut() {
        program.command = line.texts_from(1).map(str::to_owned).collect();
    }
    Ok(())
}

/// `option start-on-reload`.
pub fn option(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    match args::required(line, 1, "an option name.")? {
        "start-on-reload" => args::no_more_after(line, 0, 1)?,
        word => return Err(Problem::new(format!("unknown option '{word}'.")).at(1).nearest(word, ["start-on-reload"])),
    }
    let starts = match line.modifier() {
        Modifier::Set => true,
        Modifier::No => false,
        Modifier::Default => return Ok(()),
    };
    if let Some(program) = scope.state.programs.last_mut() {
        program.start_on_reload = starts;
    }
    Ok(())
}

/// `user` and `group`: names, which are looked up by whoever starts the program.
pub fn identity(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let is_user = line.word(0) == "user";
    let name = args::required(line, 1, if is_user { "a user name." } else { "a group name." })?;
    args::no_more(line, 1)?;
    let Some(program) = scope.state.programs.last_mut() else { return Ok(()) };
    let (slot, kind) = if is_user { (&mut program.user, "user/uid") } else { (&mut program.group, "group/gid") };
    if slot.is_some() {
        let message = format!("{kind} already specified. Continuing.");
        scope.warn(line, Problem::new(message).at(0));
        return Ok(());
    }
    *slot = Some((Identity::Name(name.to_owned()), line.location()));
    Ok(())
}

/// What can be said of programs when all sections have been read.
pub fn finish(scope: &mut Scope<'_>) {
    let without = scope.state.programs.iter().filter(|program| program.command.is_empty());
    let messages: Vec<String> =
        without.map(|program| format!("The program section '{}' lacks a command to launch.", program.name)).collect();
    for message in messages {
        scope.whole(Severity::Alert, message);
    }
}
