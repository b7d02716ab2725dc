//! Backups of this host's stores, for `tidegate cluster backup` on another host. The loop only says where a store is: what takes time is
//! done by the thread that serves the request.

use super::{Conductor, Handler, Problem, Route, address};
use crate::{
    api::{Input, Kind, Parameter},
    backups::Task,
};

const TAG: &str = "backups";
/// What all paths here begin with. They are about the host of the agent that is asked.
pub(super) const PLACE: &str = "/api/backups";
const NUMBER: Parameter = Parameter::required("number", Kind::Integer, "The number that the beginning gave.");

pub(super) const ROUTES: &[Route] = &[
    Route::change("POST", PLACE, Handler::Backup(begin))
        .named(TAG, "beginBackup", "Begins a backup of a store of this host. A later request sets its moment.")
        .takes(&[Parameter::required("server", Kind::Text, "The store's address.")]),
    Route::change("POST", "/api/backups/{number}/cut", Handler::Backup(cut))
        .named(TAG, "cutBackup", "Sets the end of the backup, an offset from /api/cut.")
        .takes(&[
            NUMBER,
            Parameter::required("until", Kind::Integer, "The offset of the store's log."),
            Parameter::optional("former_end", Kind::Integer, "The end of the previous backup's log."),
        ]),
    // These change nothing, but give away all data: the token is needed even on this host.
    Route::change("GET", "/api/backups/{number}", Handler::Backup(describe))
        .named(TAG, "backup", "The description of a backup that was cut (docs/formats/backup.md).")
        .takes(&[NUMBER]),
    Route::change("GET", "/api/backups/{number}/files/{digest}", Handler::Backup(file))
        .named(TAG, "backupFile", "A file of a backup that was described.")
        .takes(&[NUMBER, Parameter::required("digest", Kind::Text, "Its SHA-256, as the description has it.")]),
    Route::change("DELETE", "/api/backups/{number}", Handler::Backup(end))
        .named(TAG, "endBackup", "Ends the backup, and releases the store's files that it holds.")
        .takes(&[NUMBER]),
];

fn begin(conductor: &Conductor, input: &Input) -> Result<Task, Problem> {
    let server = address(input.text("server").unwrap_or_default())?;
    let dir = conductor
        .data_of(&server)
        .ok_or_else(|| Problem::NotThere(format!("{server} is no store of host {}", conductor.options.host_name())))?;
    Ok(Task::Begin { dir: dir.into() })
}

fn cut(_: &Conductor, input: &Input) -> Result<Task, Problem> {
    let former_end = input.maybe_integer("former_end");
    Ok(Task::Cut { number: input.integer("number"), until: input.integer("until"), former_end })
}

fn describe(_: &Conductor, input: &Input) -> Result<Task, Problem> {
    Ok(Task::Describe { number: input.integer("number") })
}

fn file(_: &Conductor, input: &Input) -> Result<Task, Problem> {
    let digest = input.text("digest").unwrap_or_default().to_owned();
    Ok(Task::File { number: input.integer("number"), digest })
}

fn end(_: &Conductor, input: &Input) -> Result<Task, Problem> {
    Ok(Task::End { number: input.integer("number") })
}
