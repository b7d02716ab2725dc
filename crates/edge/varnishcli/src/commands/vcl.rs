//! Commands about VCLs: what must be true before the instance is asked to do something.

use std::collections::HashMap;

use super::{Call, matches};
use crate::{Failure, Instance, Outcome, Param, VclEntry, VclKind, VclSource, VclState, json, table};

/// What names there are more of is only counted.
const DEPENDENTS_SHOWN_MAX: usize = 5;

pub(super) fn run(name: &str, call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    match name {
        "vcl.load" => load(call, VclSource::File(call.argument(1)), instance),
        "vcl.inline" => load(call, VclSource::Text(call.argument(1)), instance),
        "vcl.use" => use_it(call, instance),
        "vcl.discard" => discard(call, instance),
        "vcl.label" => label(call, instance),
        "vcl.state" => state(call, instance),
        "vcl.show" => show(call, instance),
        "vcl.deps" => Ok(dependencies(call, &instance.vcls())),
        _ => Ok(list(call, &instance.vcls())),
    }
}

/// Names begin with a letter and have letters, digits, `-` and `_`.
fn check_name(name: &str) -> Result<(), Failure> {
    let invalid = |what: &str| Err(Failure::parameter(format!("{what} in VCL name '{name}'")));
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(Failure::parameter(format!("Illegal first character in VCL name: '{name}' (it must be a letter)")));
    }
    match name.chars().find(|letter| !(letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))) {
        Some(letter) => invalid(&format!("Illegal character '{}'", letter.escape_default())),
        None => Ok(()),
    }
}

fn find<'a>(name: &str, vcls: &'a [VclEntry]) -> Result<&'a VclEntry, Failure> {
    check_name(name)?;
    let found = vcls.iter().find(|vcl| vcl.name == name && !vcl.is_discarded);
    found.ok_or_else(|| Failure::parameter(format!("No VCL named {name} known\n")))
}

fn parse_state(word: &str) -> Result<VclState, Failure> {
    match word {
        "" => Ok(VclState::Auto),
        _ => VclState::named(word).ok_or_else(|| Failure::parameter("State must be one of auto, cold or warm.")),
    }
}

/// Names of those that depend on a VCL: its labels, and VCLs that go to a label.
fn dependents<'a>(name: &str, vcls: &'a [VclEntry]) -> Vec<&'a str> {
    let depends = |vcl: &&VclEntry| {
        matches!(&vcl.kind, VclKind::Label(target) if target == name) || vcl.uses.iter().any(|used| used == name)
    };
    vcls.iter().filter(depends).map(|vcl| vcl.name.as_str()).collect()
}

fn load(call: &Call<'_>, source: VclSource<'_>, instance: &mut dyn Instance) -> Outcome {
    let name = call.argument(0);
    check_name(name)?;
    let vcls = instance.vcls();
    if vcls.iter().any(|vcl| vcl.name == name && !vcl.is_discarded) {
        return Err(Failure::parameter(format!("Already a VCL named {name}")));
    }
    let state = parse_state(call.argument(2))?;
    let count = vcls.iter().filter(|vcl| matches!(vcl.kind, VclKind::Program(_)) && !vcl.is_discarded).count() as u64;
    let parameters = instance.parameters();
    let (most, handling) = (parameters.unsigned(Param::max_vcl), parameters.unsigned(Param::max_vcl_handling));
    if count >= most && handling == 2 {
        let text = format!("Too many ({count}) VCLs already loaded\n(See max_vcl and max_vcl_handling parameters)");
        return Err(Failure::cannot(text));
    }
    let mut text = instance.vcl_load(name, source, state)?;
    let count = count + 1;
    if count > most && handling == 1 {
        text.push_str(&format!(
            "{count} VCLs loaded\nRemember to vcl.discard the old/unused VCLs.\n(See max_vcl and max_vcl_handling parameters)"
        ));
    }
    Ok(text)
}

fn use_it(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let vcls = instance.vcls();
    let vcl = find(call.argument(0), &vcls)?;
    if vcl.is_active {
        return Ok(String::new());
    }
    if vcl.kind == VclKind::Program(VclState::Cold) {
        return Err(Failure::cannot(format!("VCL '{}' is cold - set to auto or warm first", vcl.name)));
    }
    instance.vcl_use(&vcl.name)?;
    Ok(format!("VCL '{}' now active", vcl.name))
}

fn state(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let vcls = instance.vcls();
    let vcl = find(call.argument(0), &vcls)?;
    let VclKind::Program(former) = vcl.kind else { return Err(Failure::parameter("Labels are always warm")) };
    let state = VclState::named(call.argument(1))
        .ok_or_else(|| Failure::parameter("State must be one of auto, cold or warm."))?;
    if state == VclState::Cold {
        if !dependents(&vcl.name, &vcls).is_empty() {
            return Err(Failure::cannot("A labeled VCL cannot be set cold"));
        }
        if vcl.is_active {
            return Err(Failure::cannot("Cannot set the active VCL cold."));
        }
    }
    if state != former {
        instance.vcl_state(&vcl.name, state)?;
    }
    Ok(String::new())
}

fn label(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let (name, target) = (call.argument(0), call.argument(1));
    check_name(name)?;
    let vcls = instance.vcls();
    let program = find(target, &vcls)?;
    match &program.kind {
        VclKind::Label(_) => return Err(Failure::parameter("VCL labels cannot point to other labels")),
        VclKind::Program(VclState::Cold) => {
            return Err(Failure::cannot(format!("VCL '{target}' is cold - set to auto or warm first")));
        }
        VclKind::Program(_) => {}
    }
    if let Some(former) = vcls.iter().find(|vcl| vcl.name == name && !vcl.is_discarded) {
        match &former.kind {
            VclKind::Program(_) => return Err(Failure::parameter(format!("{name} is not a label"))),
            VclKind::Label(now) if now == target => return Ok(String::new()),
            VclKind::Label(_) => {}
        }
    }
    // Following labels from the target must not lead here again.
    let mut to_visit = vec![target];
    let mut visited: Vec<&str> = Vec::new();
    while let Some(at) = to_visit.pop() {
        if at == name {
            return Err(Failure::parameter(format!(
                "{target} uses the label {name} itself: it would go round in circles"
            )));
        }
        if !visited.contains(&at) {
            visited.push(at);
            if let Some(vcl) = vcls.iter().find(|vcl| vcl.name == at) {
                to_visit.extend(vcl.uses.iter().map(String::as_str));
                if let VclKind::Label(next) = &vcl.kind {
                    to_visit.push(next);
                }
            }
        }
    }
    instance.vcl_label(name, target)?;
    Ok(String::new())
}

fn discard(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let vcls = instance.vcls();
    let mut marked: Vec<&VclEntry> = Vec::new();
    for pattern in call.arguments {
        let found: Vec<&VclEntry> =
            vcls.iter().filter(|vcl| !vcl.is_discarded && matches(pattern, &vcl.name)).collect();
        if found.is_empty() {
            return Err(Failure::parameter(format!("No VCL name matches {pattern}\n")));
        }
        if let Some(active) = found.iter().find(|vcl| vcl.is_active) {
            return Err(Failure::cannot(format!("Cannot discard active VCL program {}\n", active.name)));
        }
        for vcl in found {
            if !marked.iter().any(|other| other.name == vcl.name) {
                marked.push(vcl);
            }
        }
    }
    let is_marked = |name: &str| marked.iter().any(|vcl| vcl.name == name);
    for vcl in &marked {
        let dependents = dependents(&vcl.name, &vcls);
        if dependents.iter().all(|name| is_marked(name)) {
            continue;
        }
        let mut text = match vcl.kind {
            VclKind::Program(_) => format!("Cannot discard labeled VCL program {}:\n", vcl.name),
            VclKind::Label(_) => format!("Cannot discard VCL label {}, other VCLs depend on it:\n", vcl.name),
        };
        dependents.iter().take(DEPENDENTS_SHOWN_MAX).for_each(|name| text.push_str(&format!("\t{name}\n")));
        if dependents.len() > DEPENDENTS_SHOWN_MAX {
            text.push_str("\t[...]");
        }
        return Err(Failure::cannot(text));
    }
    instance.vcl_discard(&in_order(&marked, &vcls))?;
    Ok(String::new())
}

/// Names so that each one stands behind those that depend on it.
fn in_order(marked: &[&VclEntry], vcls: &[VclEntry]) -> Vec<String> {
    let mut left: Vec<&VclEntry> = marked.to_vec();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_free = |vcl: &&VclEntry| {
            !dependents(&vcl.name, vcls).iter().any(|name| left.iter().any(|other| other.name == *name))
        };
        // There is always one: `label` allows no circles. If there were, the first one would go.
        let at = left.iter().position(is_free).unwrap_or(0);
        order.push(left.remove(at).name.clone());
    }
    order
}

fn show(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let (is_verbose, rest) = match call.arguments {
        [flag, rest @ ..] if flag == "-v" => (true, rest),
        all => (false, all),
    };
    let vcls = instance.vcls();
    let name = match rest {
        [] => match vcls.iter().find(|vcl| vcl.is_active) {
            Some(active) => active.name.clone(),
            None => return Err(Failure::parameter("No active VCL")),
        },
        [name] if !name.starts_with('-') => name.clone(),
        [flag, ..] if flag.starts_with('-') => return Err(Failure::parameter(format!("Unknown option: {flag}"))),
        _ => return Err(Failure::parameter("Too many parameters")),
    };
    let mut vcl = find(&name, &vcls)?;
    if let VclKind::Label(target) = &vcl.kind {
        vcl = find(target, &vcls)?;
    }
    let files = instance.vcl_files(&vcl.name);
    if !is_verbose {
        return Ok(files.into_iter().next().map(|(_, text)| text).unwrap_or_default());
    }
    let mut output = String::new();
    for (at, (file, text)) in files.iter().enumerate() {
        output.push_str(&format!("// VCL.SHOW {at} {} {file}\n{text}\n", text.len()));
    }
    Ok(output)
}

fn status_word(vcl: &VclEntry) -> &'static str {
    match (vcl.is_discarded, vcl.is_active) {
        (true, _) => "discarded",
        (_, true) => "active",
        _ => "available",
    }
}

fn state_word(vcl: &VclEntry) -> &'static str {
    match vcl.kind {
        VclKind::Program(state) => state.name(),
        VclKind::Label(_) => "label",
    }
}

/// How many labels each program has.
fn labels(vcls: &[VclEntry]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for vcl in vcls {
        if let VclKind::Label(target) = &vcl.kind {
            *counts.entry(target.as_str()).or_insert(0) += 1;
        }
    }
    counts
}

fn list(call: &Call<'_>, vcls: &[VclEntry]) -> String {
    let labels = labels(vcls);
    let returns = |name: &str| vcls.iter().filter(|vcl| vcl.uses.iter().any(|used| used == name)).count();
    if call.wants_json {
        let element = |vcl: &VclEntry| {
            let mut members = vec![
                ("status", json::string(status_word(vcl))),
                ("state", json::string(state_word(vcl))),
                ("temperature", json::string(vcl.temperature)),
                ("name", json::string(&vcl.name)),
            ];
            if let Some(busy) = vcl.busy {
                members.insert(3, ("busy", busy.to_string()));
            }
            match &vcl.kind {
                VclKind::Label(target) => {
                    let mut label = vec![("name", json::string(target))];
                    if returns(&vcl.name) > 0 {
                        label.push(("refs", returns(&vcl.name).to_string()));
                    }
                    members.push(("label", json::object(&label)));
                }
                VclKind::Program(_) => {
                    members.extend(labels.get(vcl.name.as_str()).map(|count| ("labels", count.to_string())));
                }
            }
            json::object(&members)
        };
        return json::envelope(2, call.words, call.now, &vcls.iter().map(element).collect::<Vec<_>>());
    }
    let mut lines = String::new();
    for vcl in vcls {
        let (status, state) = (status_word(vcl), state_word(vcl));
        let busy = vcl.busy.map_or_else(|| "-".to_owned(), |busy| busy.to_string());
        lines.push_str(&format!("{status}\t{state}\t{}\t{busy:>6}\t{}", vcl.temperature, vcl.name));
        match (&vcl.kind, labels.get(vcl.name.as_str())) {
            (VclKind::Label(target), _) => {
                lines.push_str(&format!("\t->\t{target}"));
                let count = returns(&vcl.name);
                if count > 0 {
                    lines.push_str(&format!(" ({count} return(vcl){})", if count > 1 { "'s" } else { "" }));
                }
            }
            (_, Some(count)) => lines.push_str(&format!("\t<-\t({count} label{})", if *count > 1 { "s" } else { "" })),
            _ => {}
        }
        lines.push('\n');
    }
    table::in_columns(&lines)
}

fn dependencies(call: &Call<'_>, vcls: &[VclEntry]) -> String {
    let of = |vcl: &VclEntry| match &vcl.kind {
        VclKind::Label(target) => vec![target.clone()],
        VclKind::Program(_) => vcl.uses.clone(),
    };
    if call.wants_json {
        let element = |vcl: &VclEntry| {
            let deps: Vec<String> = of(vcl).iter().map(|name| json::string(name)).collect();
            json::object(&[("name", json::string(&vcl.name)), ("deps", format!("[{}]", deps.join(", ")))])
        };
        return json::envelope(1, call.words, call.now, &vcls.iter().map(element).collect::<Vec<_>>());
    }
    let mut lines = String::new();
    for vcl in vcls {
        let needed = of(vcl);
        if needed.is_empty() {
            lines.push_str(&format!("{}\n", vcl.name));
        }
        needed.iter().for_each(|name| lines.push_str(&format!("{}\t{name}\n", vcl.name)));
    }
    table::in_columns(&lines)
}
