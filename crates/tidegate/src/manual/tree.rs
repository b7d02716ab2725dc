//! clap's tree, whole: with HAProxy's options and the store's settings, which clap does not read itself.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command, ValueHint, builder::StyledStr};

use crate::edge_command::usage::{OPTIONS, OptionHelp, Value};

/// clap knows no options of several letters behind one dash (`-sf`). They stand in the tree as long ones whose name begins with
/// this, which is taken out of what is written.
pub const SINGLE_DASH: &str = "ONEDASH";

/// The tree that pages and completions are made of. Commands that are not for users are left out.
pub fn complete(command_line: Command) -> Command {
    let mut tree = Command::new("tidegate").disable_help_subcommand(true);
    tree = tree.about(command_line.get_about().cloned().unwrap_or_default());
    tree = tree.version(command_line.get_version().unwrap_or_default().to_owned());
    for command in command_line.get_subcommands().filter(|command| !command.is_hide_set()) {
        tree = tree.subcommand(match command.get_name() {
            "edge" | "haproxy" => edge(command),
            "store" | "redis-server" => store(command),
            _ => command.clone().disable_help_subcommand(true),
        });
    }
    tree.build();
    tree
}

/// The same command without the arguments that clap only passes on.
fn bare(command: &Command) -> Command {
    let about: StyledStr = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned()).about(about).disable_help_flag(true).disable_version_flag(true)
}

fn edge(command: &Command) -> Command {
    let name = command.get_name();
    let mut whole = bare(command).override_usage(format!("tidegate {name} [-f <file|folder>]... [options]"));
    for (index, option) in OPTIONS.iter().enumerate() {
        whole = whole.arg(edge_option(option).display_order(index));
    }
    whole
}

fn edge_option(option: &'static OptionHelp) -> Arg {
    let name = option.flag.trim_start_matches('-');
    let mut letters = name.chars();
    let arg = Arg::new(option.flag).help(option.doc);
    let arg = match (letters.next(), letters.next()) {
        _ if option.flag.starts_with("--") => arg.long(name),
        (Some(letter), None) => arg.short(letter),
        _ => arg.long(format!("{SINGLE_DASH}{name}")),
    };
    let (value, hint) = match option.value {
        Value::None | Value::Attached(_) => return arg.action(ArgAction::SetTrue),
        Value::Path(value) => (value, ValueHint::AnyPath),
        Value::Word(value) => (value, ValueHint::Other),
    };
    let arg = arg.value_name(value).value_hint(hint);
    if option.is_list { arg.action(ArgAction::Append).num_args(1..) } else { arg.action(ArgAction::Set) }
}

fn store(command: &Command) -> Command {
    let name = command.get_name();
    let usage = format!("tidegate {name} [FILE] [--SETTING VALUE ...] [--until POINT] [-]");
    let file = Arg::new("FILE").value_hint(ValueHint::FilePath);
    let mut whole = bare(command).override_usage(usage).args([
        file.help("A redis.conf. Settings on the command line override it. `-` reads settings from standard input"),
        Arg::new("help").short('h').long("help").action(ArgAction::SetTrue).help("Names all settings"),
        Arg::new("version").short('v').long("version").action(ArgAction::SetTrue).help("The version"),
        word("until", "POINT").help("Go back to a time or an offset of the log before starting"),
    ]);
    for setting in store::setting_help::settings() {
        let mut text = setting.doc.to_owned();
        if !setting.default.is_empty() {
            text.push_str(&format!(" [default: {}]", setting.default));
        }
        whole = whole.arg(word(setting.name, "VALUE").help(text));
    }
    whole
}

/// A long option that takes a word.
fn word(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).action(ArgAction::Set)
}

/// A text that was made of the tree, with the options as they are typed.
pub fn with_single_dashes(text: &str) -> String {
    let forms: BTreeMap<String, &str> = [
        // bash and zsh, fish, manual pages.
        (format!("--{SINGLE_DASH}"), "-"),
        (format!("-l {SINGLE_DASH}"), "-o "),
        (format!(r"\-\-{SINGLE_DASH}"), r"\-"),
    ]
    .into();
    let mut text = text.to_owned();
    for option in OPTIONS {
        // zsh would offer `-sf=`.
        let name = option.flag.trim_start_matches('-');
        text = text.replace(&format!("--{SINGLE_DASH}{name}=["), &format!("-{name}["));
    }
    forms.iter().fold(text, |text, (made, typed)| text.replace(made, typed))
}
