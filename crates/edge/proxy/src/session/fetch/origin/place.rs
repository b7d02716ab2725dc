//! Which lines count for a request, and which names are looked for.

use std::sync::Arc;

use haproxycfg::model::{FileService, Rule};
use http::RequestHead;
use live::files::{Key, LiveFolder, Step, StepKind};
use web::{CleanPath, TryFiles};

use super::Here;
use crate::session::{
    fetch::program,
    rules::{self, Phase},
    transaction::Transaction,
};

/// The lines that count.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) settings: &'a FileService,
    pub(super) folder: &'a Arc<LiveFolder>,
    /// `alias`: the beginning of paths that is no part of names.
    prefix: Option<&'a CleanPath>,
    /// The line of `root` or `alias`.
    pub(super) line: usize,
    pub(super) tries: Option<&'a TryFiles>,
    /// Its line, from 1; 0 for none.
    tries_line: u16,
    /// Programs answer some paths (`cgi`).
    has_programs: bool,
}

/// The first rule that applies, and its place.
pub(super) fn first<'r, A>(rules: &'r [Rule<A>], transaction: &Transaction) -> Option<(usize, &'r A)> {
    let applies = |rule: &&'r Rule<A>| rules::applies(rule.condition.as_ref(), transaction, Phase::Request);
    rules.iter().enumerate().find(|(_, rule)| applies(rule)).map(|(line, rule)| (line, &rule.action))
}

impl<'a> Place<'a> {
    /// The lines that count for a request; `None` if no folder is for it, or a line of programs is. `try-files` counts only for what the
    /// client asked for.
    #[inline]
    pub(super) fn of(transaction: &Transaction, here: Here<'a>, is_asked: bool) -> Option<Self> {
        if program::cgi::line_for(transaction, here.backend).is_some() {
            return None;
        }
        let settings = &here.backend.settings().files;
        let path = transaction.request.path();
        let is_for = |rule: &Rule<haproxycfg::model::Folder>| {
            let is_beneath = rule.action.prefix.as_ref().is_none_or(|prefix| may_be_beneath(path, prefix));
            is_beneath && rules::applies(rule.condition.as_ref(), transaction, Phase::Request)
        };
        let (line, rule) = settings.folders.iter().enumerate().find(|(_, rule)| is_for(rule))?;
        let folder = here.files.folders.get(line)?;
        let tries = if is_asked { first(&settings.try_files, transaction) } else { None };
        let tries_line = tries.map_or(0, |(line, _)| u16::try_from(line + 1).unwrap_or(u16::MAX));
        let prefix = rule.action.prefix.as_ref();
        let has_programs = !here.backend.settings().cgi.is_empty();
        Some(Self { settings, folder, prefix, line, tries: tries.map(|(_, tries)| tries), tries_line, has_programs })
    }

    /// What the file is known by, once it was found.
    #[inline]
    pub(super) fn key<'k>(&self, request: &'k RequestHead) -> Key<'k> {
        let line = u16::try_from(self.line).unwrap_or(u16::MAX);
        Key { folder: self.folder.version(), line, tries: self.tries_line, path: request.path() }
    }

    /// Whether another path may be for another folder, for servers, or for programs.
    pub(super) fn has_conditions(&self) -> bool {
        let folders = &self.settings.folders;
        self.has_programs || folders.iter().any(|rule| rule.condition.is_some() || rule.action.prefix.is_some())
    }

    /// The names that are looked for, in order. None if the path is not beneath that of an alias after all.
    pub(super) fn steps(&self, path: &CleanPath) -> Vec<Step> {
        let mut steps = Vec::new();
        match self.tries {
            Some(tries) => {
                for candidate in tries.candidates(path, self.settings.paths) {
                    if candidate.is_folder {
                        self.push_folder(candidate.path, &mut steps);
                    } else {
                        self.push(candidate.path, StepKind::File, &mut steps);
                    }
                }
            }
            None if path.is_folder() => self.push_folder(path.clone(), &mut steps),
            None => self.push(path.clone(), StepKind::Any, &mut steps),
        }
        steps
    }

    /// A folder: what stands for it, then itself.
    fn push_folder(&self, path: CleanPath, steps: &mut Vec<Step>) {
        for name in &self.settings.index.0 {
            if let Some(index) = path.child(name.as_bytes()) {
                self.push(index, StepKind::File, steps);
            }
        }
        self.push(path, StepKind::Folder, steps);
    }

    fn push(&self, path: CleanPath, kind: StepKind, steps: &mut Vec<Step>) {
        // The slash at its end is no part of a file's name: a file is not found by it, which conditions would see another path of.
        if kind == StepKind::File && path.is_folder() {
            return;
        }
        let inside = match self.prefix {
            Some(prefix) => match path.beneath(prefix) {
                Some(inside) => Some(inside),
                None => return,
            },
            None => None,
        };
        steps.push(Step { path, inside, kind });
    }
}

/// Whether a path, as it came, may be beneath another one: what is encoded in it or leads upwards is looked at later.
fn may_be_beneath(path: &[u8], prefix: &CleanPath) -> bool {
    if path.contains(&b'%') || path.windows(2).any(|pair| matches!(pair, b"//" | b"/.")) {
        return CleanPath::of_target(path, web::PathRules { hidden: true })
            .is_ok_and(|path| path.beneath(prefix).is_some());
    }
    let prefix = prefix.as_bytes().strip_suffix(b"/").unwrap_or(prefix.as_bytes());
    path.strip_prefix(prefix).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}
