//! Commands about parameters.

use super::Call;
use crate::{Effect, Failure, Instance, Outcome, Parameters, Status, json, parameters::Flag};

/// Columns before what is said of a parameter, and of a line at most.
const MARGIN: usize = 8;
const WRAP_AT: usize = 72;

pub(super) fn set(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let name = call.argument(0);
    let text = change(name, Some(call.argument(1)), instance)?;
    if !call.wants_json {
        return Ok(text);
    }
    let words: Vec<String> = call.words.iter().take(3).cloned().collect();
    let element = element(instance.parameters(), name);
    Ok(json::envelope(2, &words, call.now, &element.into_iter().collect::<Vec<_>>()))
}

pub(super) fn reset(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    change(call.argument(0), None, instance)
}

fn change(name: &str, value: Option<&str>, instance: &mut dyn Instance) -> Outcome {
    let parameters = instance.parameters();
    let Some(specification) = parameters.specification(name) else {
        return Err(Failure::parameter(format!("Unknown parameter \"{name}\".")));
    };
    let changed = match value {
        Some(value) => parameters.set(name, value),
        None => parameters.reset(name),
    };
    if let Err(error) = changed {
        let attempted = value.unwrap_or(specification.default);
        let text = match error.status {
            Status::Parameter => format!("{error}\n(attempting to set param '{name}' to '{attempted}')"),
            _ => error.to_string(),
        };
        return Err(Failure { status: error.status, text });
    }
    instance.parameter_changed(name);
    let running = instance.state() == crate::ChildState::Running;
    Ok(match specification.flags {
        flags if flags.contains(&Flag::MustRestart) && running => {
            "\nChange will take effect when child is restarted".to_owned()
        }
        flags if flags.contains(&Flag::MustReload) => {
            "\nChange will take effect when VCL script is reloaded".to_owned()
        }
        _ => String::new(),
    })
}

pub(super) fn show(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let mut is_long = false;
    let mut changed_only = false;
    let mut wanted = None;
    for argument in call.arguments {
        match argument.as_str() {
            "-l" if call.wants_json => return Err(Failure::parameter("-l not permitted with param.show -j")),
            "-l" => is_long = true,
            "changed" => changed_only = true,
            "-j" if call.wants_json => {}
            _ if wanted.is_some() => {
                return Err(Failure { status: Status::TooMany, text: "Too many parameters".to_owned() });
            }
            name => wanted = Some(name),
        }
    }
    let parameters = instance.parameters();
    if let Some(name) = wanted.filter(|name| parameters.specification(name).is_none()) {
        return Err(Failure::parameter(format!("Unknown parameter \"{name}\".")));
    }
    let is_chosen =
        |name: &str| wanted.is_none_or(|wanted| wanted == name) && !(changed_only && parameters.is_default(name));
    let names = Parameters::names().filter(|name| is_chosen(name));
    if call.wants_json {
        let elements: Vec<String> = names.filter_map(|name| element(parameters, name)).collect();
        return Ok(json::envelope(2, call.words, call.now, &elements));
    }
    let margin = Parameters::names().map(str::len).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for name in names {
        if is_long || wanted.is_some() {
            text.push_str(&long(parameters, name).unwrap_or_default());
        } else {
            text.push_str(&format!("{name:<margin$}{}\n", value_line(parameters, name)));
        }
    }
    Ok(text)
}

/// The value, its unit, and whether it is the default.
fn value_line(parameters: &Parameters, name: &str) -> String {
    let Some(specification) = parameters.specification(name) else { return String::new() };
    if matches!(specification.effect, Effect::Unavailable) {
        return "-".to_owned();
    }
    let unit = if specification.units.is_empty() { String::new() } else { format!(" [{}]", specification.units) };
    let default = if parameters.is_default(name) { " (default)" } else { "" };
    format!("{}{unit}{default}", parameters.text(name))
}

fn long(parameters: &Parameters, name: &str) -> Option<String> {
    let specification = parameters.specification(name)?;
    if matches!(specification.effect, Effect::Unavailable) {
        return Some(format!("{name}\n        Not available\n\n{}\n\n", wrapped(NOT_AVAILABLE)));
    }
    let mut text = format!("{name}\n        Value is: {}\n", value_line(parameters, name));
    if !parameters.is_default(name) {
        text.push_str(&format!("        Default is: {}\n", specification.default));
    }
    let (least, most) = parameters.bounds(name);
    least.iter().for_each(|least| text.push_str(&format!("        Minimum is: {least}\n")));
    most.iter().for_each(|most| text.push_str(&format!("        Maximum is: {most}\n")));
    text.push('\n');
    text.push_str(&wrapped(specification.doc));
    let notes = specification.flags.iter().filter_map(|flag| flag.note()).chain(specification.effect.note());
    notes.for_each(|note| text.push_str(&format!("\n\n{}", wrapped(note))));
    text.push_str("\n\n");
    Some(text)
}

const NOT_AVAILABLE: &str = "NB: This parameter is about something that this platform does not have.";

/// A text in lines behind the margin.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && MARGIN + line.len() + 1 + word.len() >= WRAP_AT {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let margin = " ".repeat(MARGIN);
    let lines: Vec<String> =
        lines.into_iter().map(|line| if line.is_empty() { line } else { format!("{margin}{line}") }).collect();
    lines.join("\n")
}

fn element(parameters: &Parameters, name: &str) -> Option<String> {
    let specification = parameters.specification(name)?;
    let mut members = vec![("name", json::string(name))];
    if matches!(specification.effect, Effect::Unavailable) {
        members.push(("implemented", "false".to_owned()));
        return Some(json::object(&members));
    }
    members.extend([("implemented", "true".to_owned()), ("value", parameters.json(name))]);
    if !specification.units.is_empty() {
        members.push(("units", json::string(specification.units)));
    }
    members.push(("default", json::string(specification.default)));
    let (least, most) = parameters.bounds(name);
    members.extend(least.map(|least| ("minimum", json::string(&least))));
    members.extend(most.map(|most| ("maximum", json::string(&most))));
    members.push(("description", json::string(specification.doc)));
    let flags: Vec<String> = specification.flags.iter().map(|flag| json::string(flag.name())).collect();
    members.push(("flags", format!("[{}]", flags.join(", "))));
    Some(json::object(&members))
}
