//! Programs and labels, as the manager keeps them: with all that a worker is to be told of them.

use std::time::Instant;

use varnishcli::{Failure, VclState};
use vcl::{Options, compile::Resolver as _, program::Endpoint};

use crate::{
    orders::Source,
    recorded::{Recorder, read_text},
};

/// What a program is called that stands on a command line.
pub(super) const INLINE: &str = "<vcl.inline>";

/// A program or a label.
#[derive(Debug)]
pub(super) enum Entry {
    Program(Box<Program>),
    Label { name: String, target: String },
}

#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) state: VclState,
    pub(super) source: Source,
    /// Its texts, the built-in one last.
    pub(super) files: Vec<(String, String)>,
    /// Labels that it hands requests to.
    pub(super) uses: Vec<String>,
    /// Whether a worker checks its backends.
    pub(super) is_warm: bool,
    /// Since when nothing needs it.
    pub(super) idle_since: Option<Instant>,
}

impl Entry {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Program(program) => &program.name,
            Self::Label { name, .. } => name,
        }
    }
}

/// Where a program comes from.
#[derive(Clone, Debug)]
pub enum Text {
    /// A file.
    File(String),
    /// Here, under this name.
    Given(String, String),
}

/// What a program is compiled with.
pub(super) struct Surroundings {
    pub(super) vcl_path: String,
    pub(super) takes_paths: bool,
    pub(super) storages: Vec<String>,
    pub(super) labels: Vec<String>,
    pub(super) unused_is_error: bool,
}

/// Compiles a program, to see whether it is one.
pub(super) fn compile(name: &str, text: &Text, around: Surroundings) -> Result<Program, Failure> {
    let recorder = Recorder::new(&around.vcl_path, around.takes_paths);
    let (path, text) = match text {
        Text::Given(path, text) => (path.clone(), text.clone()),
        Text::File(path) => {
            let found = recorder.find(path);
            let text = read_text(&found)
                .map_err(|why| Failure::parameter(rejected(&format!("Cannot read file '{path}' ({why})"))))?;
            (found.to_string_lossy().into_owned(), text)
        }
    };
    let options = Options {
        files: &recorder,
        resolver: &recorder,
        storages: &around.storages,
        labels: &around.labels,
        unused_is_error: around.unused_is_error,
        ..Options::default()
    };
    let compiled = match vcl::compile(&path, &text, &options) {
        Ok(compiled) => compiled,
        Err(why) => return Err(Failure::parameter(rejected(&why.message()))),
    };
    for backend in &compiled.program.backends {
        if let Endpoint::Host { host, .. } = &backend.endpoint {
            // NOTE: so that the answer is recorded.
            let _ = recorder.resolve(host);
        }
    }
    let mut files: Vec<(String, String)> =
        compiled.program.sources.iter().map(|source| (source.name.clone(), source.text.to_string())).collect();
    // The built-in one comes first there.
    if !files.is_empty() {
        files.rotate_left(1);
    }
    Ok(Program {
        name: name.to_owned(),
        state: VclState::Auto,
        files,
        uses: compiled.program.labels.clone(),
        is_warm: true,
        idle_since: None,
        source: Source {
            path,
            text,
            recorded: recorder.recorded(),
            storages: around.storages,
            labels: around.labels,
            unused_is_error: around.unused_is_error,
        },
    })
}

/// What a user is told of a text that is no program.
fn rejected(why: &str) -> String {
    let why = why.trim_end();
    format!("Message from VCC-compiler:\n{why}\nRunning VCC-compiler failed, exited with 2\nVCL compilation failed")
}
