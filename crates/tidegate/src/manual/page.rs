//! Manual pages.

use std::{io, path::PathBuf};

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, italic, roman},
};

use super::{File, tree};

/// A place that a page tells of: what it is, and the pages that it concerns.
struct DocumentedFile {
    path: &'static str,
    doc: &'static str,
    pages: &'static [&'static str],
}

/// What the package brings, in the section FILES.
const PLACES: &[DocumentedFile] = &[
    DocumentedFile {
        path: "/etc/tidegate/edge/haproxy.cfg",
        doc: "What tidegate.service runs: a load balancer, in HAProxy's language.",
        pages: &["tidegate", "tidegate-edge", "tidegate-haproxy"],
    },
    DocumentedFile {
        path: "/etc/tidegate/store/redis.conf",
        doc: "What tidegate-store.service runs: settings of a store, by redis.conf's names.",
        pages: &["tidegate", "tidegate-store", "tidegate-redis-server"],
    },
    DocumentedFile {
        path: "/run/tidegate/tidegate.pid",
        doc: "The process number of tidegate.service's master.",
        pages: &[
            "tidegate-reload",
            "tidegate-upgrade",
            "tidegate-drain",
            "tidegate-stop",
            "tidegate-status",
            "tidegate-log",
        ],
    },
    DocumentedFile {
        path: "/var/lib/tidegate",
        doc: "The data of tidegate-store.service.",
        pages: &["tidegate", "tidegate-store", "tidegate-redis-server", "tidegate-backup", "tidegate-restore"],
    },
];

/// The page of the whole program and those of its commands, each in a file of its own.
pub fn pages(tree: &Command) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    add(tree, &mut files)?;
    Ok(files)
}

fn add(command: &Command, files: &mut Vec<File>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let page = Man::new(command.clone());
    // NOTE: clap_mangen leaves a date out that is not known, and what follows it would move up.
    let mut text = format!(".TH {} 1 \"\" \"tidegate {}\" Tidegate\n", name.to_uppercase(), env!("CARGO_PKG_VERSION"))
        .into_bytes();
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    end(&name).to_writer(&mut text)?;
    let text = tree::with_single_dashes(&String::from_utf8_lossy(&text));
    files.push((PathBuf::from(format!("man1/{name}.1")), text));
    command.get_subcommands().try_for_each(|command| add(command, files))
}

/// The sections behind those that clap's tree gives.
fn end(name: &str) -> Roff {
    let mut roff = Roff::new();
    let mut places = PLACES.iter().filter(|place| place.pages.contains(&name)).peekable();
    if places.peek().is_some() {
        roff.control("SH", ["FILES"]);
    }
    for place in places {
        roff.control("TP", []);
        roff.text([italic(place.path)]);
        roff.text([roman(place.doc)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    if name != "tidegate" {
        roff.text([bold("tidegate"), roman("(1)")]);
        roff.control("PP", []);
    }
    roff.text([
        bold("tidegate explain"),
        roman(" tells what a word of a configuration, a command or a setting means; the book is in /usr/share/doc/tidegate."),
    ]);
    roff
}
