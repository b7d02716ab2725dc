//! `vcl`: has a program of VCL answer, from a cache where it can.
//!
//! A program may name a proxy as a backend. One that it declares itself is the `backend` section of the same name: the section says
//! where it is, so that balancing, checks and statistics are the same as everywhere.

use std::sync::Arc;

use accelerator::{
    load::try_to_load,
    publication::Publication,
    settings::{NotSet, Settings},
};
use vcl::{
    Options,
    program::{BackendIndex, Endpoint},
};

use super::words::wrong;
use crate::{
    args,
    diagnostics::{Diagnostic, Problem, Severity},
    line::Line,
    model::{Accelerator, StorageKind, StorageSpec},
    scope::Scope,
    source::Files,
    table::{Group, Keyword, Sections},
};

/// Stands for a program that says nothing itself: Varnish's built-in policy.
const BUILTIN: &str = "builtin";
/// How a program is called unless it has another name: as Varnish calls the one that it starts with.
const NAME_DEFAULT: &str = "boot";
/// Programs come at run time, from a manager: varnishd's.
const MANAGED: &str = "managed";

pub(super) const KEYWORDS: &[Keyword] = &[VCL, WORKDIR];

const WORKDIR: Keyword =
    Keyword::new(Group::Global, "varnish-workdir", "<name> [param <name>=<value>]*", "")
        .doc(
            "Publishes the log and the counters of proxies with a program of VCL in Varnish's shared memory, for varnishlog, varnishstat and the like (-n). The name is a path, or a folder below /var/lib/varnish. Parameters are vsl_space, vsl_mask, vsl_buffer and vsl_reclen.",
            "varnish-workdir edge1 param vsl_space=20m",
        )
        .line(workdir);

const VCL: Keyword = Keyword::new(
    Group::Proxy,
    "vcl",
    "{ <file> | builtin } [storage <spec>]* [param <name>=<value>]* [identity <name>] [name <name>]",
    "",
)
.sections(Sections::FRONTEND_BACKEND)
.doc(
    "Lets a VCL program answer the requests that rules let through, from a cache where it can. A storage is malloc,SIZE or file,PATH,SIZE; a file survives a restart. NAME= before a storage names it for the program. The log and the counters call the program by its name (boot, unless it is given).",
    "vcl builtin storage malloc,256m param default_ttl=60",
)
.line(vcl_file);

fn workdir(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a name.")?;
    let mut publication = Publication::new(line.word(1));
    let mut word = 2;
    while word < line.len() {
        if line.word(word) != "param" {
            let message = format!("'varnish-workdir' : unknown argument '{}'.", line.word(word));
            return Err(wrong(message, word).expected("param <name>=<value>"));
        }
        let text = line.word(word + 1);
        let (name, value) = parameter(line, text, word + 1)?;
        let set = publication.set(name, value);
        set.map_err(|why| not_set(line, why, (name, value, &Publication::NAMES), word + 1))?;
        word += 2;
    }
    scope.state.global.publication = Some(publication);
    Ok(())
}

/// A parameter's name and value.
fn parameter<'t>(line: &Line, text: &'t str, word: usize) -> Result<(&'t str, &'t str), Problem> {
    let keyword = line.word(0);
    text.split_once('=').ok_or_else(|| {
        wrong(format!("'{keyword}' : parameter '{text}' has no value."), word).expected("<name>=<value>")
    })
}

fn not_set(line: &Line, why: NotSet, (name, value, known): (&str, &str, &[&'static str]), word: usize) -> Problem {
    let keyword = line.word(0);
    match why {
        NotSet::Unknown => {
            wrong(format!("'{keyword}' : unknown parameter '{name}'."), word).nearest(name, known.iter().copied())
        }
        NotSet::Invalid => wrong(format!("'{keyword}' : '{value}' is no value of parameter '{name}'."), word),
    }
}

fn vcl_file(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a file.")?;
    let bytes = match line.word(1) {
        BUILTIN | MANAGED => Arc::from(b"vcl 4.1;\n".as_slice()),
        _ => scope.read_file(line, 1)?,
    };
    let text =
        std::str::from_utf8(&bytes).map_err(|_| wrong(format!("'vcl' : {} is no text in UTF-8.", line.word(1)), 1))?;
    let mut accelerator = Accelerator {
        path: line.word(1).to_owned(),
        name: NAME_DEFAULT.to_owned(),
        text: text.into(),
        is_managed: line.word(1) == MANAGED,
        program: None,
        storages: Vec::new(),
        settings: Settings::default(),
    };
    let mut word = 2;
    while word < line.len() {
        let value = line.word(word + 1);
        match line.word(word) {
            "storage" => {
                let added = storage(value, accelerator.storages.len(), word + 1)?;
                if accelerator.storages.iter().any(|known| known.name == added.name) {
                    return Err(wrong(format!("'vcl' : there are two storages '{}'.", added.name), word + 1));
                }
                accelerator.storages.push(added);
            }
            "param" => {
                let (name, value) = parameter(line, value, word + 1)?;
                let set = accelerator.settings.set(name, value);
                set.map_err(|why| not_set(line, why, (name, value, &Settings::NAMES), word + 1))?;
            }
            "name" if !value.is_empty() => value.clone_into(&mut accelerator.name),
            "identity" if !value.is_empty() => value.clone_into(&mut accelerator.settings.identity),
            other => {
                return Err(wrong(format!("'vcl' : unknown argument '{other}'."), word)
                    .expected("storage <spec>, param <name>=<value>, identity <name> or name <name>")
                    .nearest(other, ["storage", "param", "identity", "name"]));
            }
        }
        word += 2;
    }
    let draft = scope.proxy();
    draft.proxy.accelerator = Some(Arc::new(accelerator));
    draft.rules.accelerator = Some(line.clone());
    Ok(())
}

fn storage(text: &str, place: usize, word: usize) -> Result<StorageSpec, Problem> {
    // A path may have `=` in it, a name has no comma.
    let named = text.split_once('=').filter(|(name, _)| !name.contains(','));
    let (name, rest) = named.map_or_else(|| (format!("s{place}"), text), |(name, rest)| (name.to_owned(), rest));
    let mut parts = rest.split(',');
    let (kind, parts) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
    let size = |size: &str| {
        bytes_of(size)
            .ok_or_else(|| wrong(format!("'vcl' : '{size}' is no size."), word).expected("a number with k, m, g or t"))
    };
    let kind = match (kind, &*parts) {
        ("malloc" | "default", []) => StorageKind::Malloc(None),
        ("malloc" | "default", [bytes]) => StorageKind::Malloc(Some(size(bytes)?)),
        // Granularity and advice are about pages of a mapped file, of which there is none here.
        ("file", [path, bytes, rest @ ..]) if !path.is_empty() && rest.len() <= 2 => {
            StorageKind::File { path: (*path).to_owned(), bytes: size(bytes)? }
        }
        ("file", _) => {
            return Err(wrong(format!("'vcl' : storage '{text}' says no path, or not how large it may become."), word)
                .expected("file,PATH,SIZE or NAME=file,PATH,SIZE"));
        }
        _ => {
            return Err(wrong(format!("'vcl' : storage '{text}' is of a kind that is not there: '{kind}'."), word)
                .expected("malloc,SIZE or file,PATH,SIZE, with NAME= before it or without"));
        }
    };
    if kind.is_too_small() {
        return Err(wrong(format!("'vcl' : storage '{text}' is too small for a file."), word).expected("at least 1m"));
    }
    Ok(StorageSpec { name, kind })
}

/// A size as varnishd has it: a number with a unit.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * factor) as u64)
}

/// Reads files that a program includes, the way the configuration's are read.
struct Included<'s>(&'s dyn Files);

impl vcl::source::Files for Included<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        let bytes = self.0.read(path).map_err(|error| error.to_string())?;
        String::from_utf8(bytes.to_vec()).map_err(|_| "it is no text in UTF-8".to_owned())
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Err(format!("{pattern}: include names one file at a time here"))
    }
}

/// Where the proxy's requests go without a program: its `default_backend`, or itself.
fn default_name(scope: &mut Scope<'_>) -> String {
    let proxy = &scope.proxy().proxy;
    let own = proxy.name.to_string();
    let target = proxy.default_backend.and_then(|index| scope.state.proxies.get(index.0 as usize));
    target.map_or(own, |draft| draft.proxy.name.to_string())
}

/// Compiles the program of a proxy, once all proxies are known.
pub(crate) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let (Some(accelerator), Some(line)) = (draft.proxy.accelerator.clone(), draft.rules.accelerator.clone()) else {
        return;
    };
    if accelerator.is_managed {
        return;
    }
    let has_backend = |scope: &Scope<'_>, name: &str| scope.backend_named(name).is_some();
    let storages: Vec<String> =
        accelerator.storages.iter().map(|storage| storage.name.clone()).chain(["Transient".to_owned()]).collect();
    let names: Vec<String> = scope
        .state
        .proxies
        .iter()
        .filter(|draft| draft.proxy.kind.has_backend())
        .map(|draft| draft.proxy.name.to_string())
        .collect();
    let options = Options {
        files: &Included(scope.files),
        storages: &storages,
        backends: &names,
        unused_is_error: false,
        ..Options::default()
    };
    let compiled = match vcl::compile(&accelerator.path, &accelerator.text, &options) {
        Ok(compiled) => compiled,
        Err(rejected) => {
            let message = format!("'vcl' : {} cannot be used:\n{}", accelerator.path, rejected.message().trim_end());
            return scope.alert(&line, wrong(message, 1));
        }
    };
    for note in &compiled.notes {
        scope.diagnostics.push(Diagnostic::on_line(
            Severity::Notice,
            &line,
            wrong(format!("'vcl' : {}", note.summary()), 1),
        ));
    }
    let homeless: Vec<String> = compiled
        .program
        .backends
        .iter()
        .filter(|backend| backend.endpoint != Endpoint::None && !has_backend(scope, &backend.name))
        .map(|backend| backend.name.clone())
        .collect();
    for name in homeless {
        let message = format!(
            "'vcl' : backend '{name}' of {} has no 'backend' section of that name, which says where it is and how it is checked.",
            accelerator.path
        );
        scope.alert(&line, wrong(message, 1).expected(format!("backend {name}, with a server")));
    }
    let mut program = compiled.program;
    if program.default_backend.is_none() {
        let wanted = default_name(scope);
        let place = program
            .backends
            .iter()
            .position(|backend| backend.name == wanted)
            .or_else(|| program.backends.iter().position(|backend| backend.name == "default"));
        program.default_backend = Some(BackendIndex(place.and_then(|place| u32::try_from(place).ok()).unwrap_or(0)));
    }
    let program = Arc::new(program);
    if let Err(why) = try_to_load(&program, &accelerator.settings) {
        scope.alert(&line, wrong(format!("'vcl' : vcl_init of {} failed: {why}.", accelerator.path), 1));
    }
    let compiled = Accelerator { program: Some(program), ..(*accelerator).clone() };
    scope.proxy().proxy.accelerator = Some(Arc::new(compiled));
}
