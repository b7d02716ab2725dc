//! How fast slots move: what an operator allows, and how far they are, as bars on a terminal.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use serde_json::{Value, json};

use super::{
    CommandError, WhichArguments, ask,
    change::{self, Change},
    confirm::DryRun,
    get, show, shown,
};
use crate::style::size;

/// Characters of a bar.
const BAR: u64 = 24;
/// Bars that are shown at once.
const BARS_MAX: usize = 12;

/// Bytes a second, with a unit; 0 is no bound.
pub fn rate_of(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    if lower == "off" {
        return Ok(0);
    }
    let lower = lower.strip_suffix("/s").unwrap_or(&lower);
    let units = [("gb", 1_u64 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1), ("", 1)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let digits = lower.strip_suffix(unit)?;
        digits.parse::<u64>().ok()?.checked_mul(*factor)
    });
    parsed.ok_or_else(|| "bytes a second are expected, such as 50mb, or off".to_owned())
}

/// Options of `slot rate`.
#[derive(Args, Debug)]
pub struct RateArguments {
    /// Bytes per second of all copies together, such as 50mb, or `off`.
    #[arg(value_parser = rate_of)]
    rate: Option<u64>,
    /// How many copies run at once. Between two groups, one copy runs at a time.
    #[arg(long)]
    parallel: Option<u16>,
    /// Slow copies down when a server takes longer than this to answer, in milliseconds; 0: never.
    #[arg(long, value_name = "MS")]
    latency: Option<u64>,
    #[command(flatten)]
    dry: DryRun,
    #[command(flatten)]
    which: WhichArguments,
}

/// `slot rate`: looks, or changes what is told.
pub fn rate(arguments: &RateArguments) -> Result<String, CommandError> {
    let which = &arguments.which;
    let path = "/api/migrations/pace";
    let is_question = arguments.rate.is_none() && arguments.parallel.is_none() && arguments.latency.is_none();
    if is_question {
        return Ok(shown(which, &get(which, path)?, text_of));
    }

    let wanted =
        [("rate", arguments.rate), ("parallel", arguments.parallel.map(u64::from)), ("latency_ms", arguments.latency)];
    let fields = wanted.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let change = Change::new("POST", path, Value::Object(fields.collect()));
    change::at_once(which, arguments.dry, &change, (text_of, text_of))
}

/// Sets the rate before a move, if one was told.
pub fn set_rate(which: &WhichArguments, rate: Option<u64>) -> Result<(), CommandError> {
    match rate {
        Some(rate) => ask(which, "POST", "/api/migrations/pace", &json!({ "rate": rate })).map(drop),
        None => Ok(()),
    }
}

fn text_of(bounds: &Value) -> String {
    let number = |name: &str| bounds.get(name).and_then(Value::as_u64);
    let rate = number("rate").map_or("as fast as they can".to_owned(), |rate| format!("{} a second", size(rate)));
    let latency = match number("latency_ms") {
        Some(0) | None => "however long servers take to answer".to_owned(),
        Some(ms) => format!("slower when a server takes more than {ms} ms to answer"),
    };
    format!(
        "slots move: {rate}, {} copies at once, {latency}\ncommands on slots had to wait for {} ms at most so far",
        number("parallel").unwrap_or(1),
        number("longest_pause_ms").unwrap_or(0)
    )
}

/// What is shown while slots move: bars that change on a terminal, else a line whenever something changes.
pub struct Bars {
    is_terminal: bool,
    lines: usize,
    last: String,
}

impl Bars {
    pub fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), lines: 0, last: String::new() }
    }

    /// Shows how far moves are.
    pub fn show(&mut self, moves: &Value) {
        let text = if self.is_terminal { bars(moves) } else { show::progress(moves) };
        if text == self.last {
            return;
        }
        let mut out = std::io::stderr().lock();
        if self.is_terminal && self.lines > 0 {
            // Up, and all below is cleared.
            let _ = write!(out, "\x1b[{}A\x1b[J", self.lines);
        }
        let _ = writeln!(out, "{text}");
        self.lines = text.lines().count();
        self.last = text;
    }

    /// Takes the bars away.
    pub fn end(&mut self) {
        if self.is_terminal && self.lines > 0 {
            let _ = write!(std::io::stderr().lock(), "\x1b[{}A\x1b[J", self.lines);
        }
    }
}

fn bars(moves: &Value) -> String {
    let all = moves.as_array().map(Vec::as_slice).unwrap_or_default();
    let under_way = all.iter().filter(|one| one.get("phase").and_then(Value::as_str) != Some("planned"));
    let mut lines: Vec<String> = under_way.take(BARS_MAX).map(bar).collect();
    let waiting = all.len() - lines.len();
    if waiting > 0 {
        lines.push(format!("{waiting} more ranges wait for their turn"));
    }
    lines.join("\n")
}

fn bar(one: &Value) -> String {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
    let copy = one.get("progress").unwrap_or(&Value::Null);
    let (done, about) = (number(copy, "keys"), number(one, "keys_about"));
    let is_following = copy.get("is_following").and_then(Value::as_bool).unwrap_or(false);
    let filled = match (text("phase"), is_following) {
        ("clearing", _) | (_, true) => BAR,
        // It is not known exactly how much there is.
        _ => (done * BAR / about.max(done).max(1)).min(BAR - 1),
    };
    let bar: String = (0..BAR).map(|place| if place < filled { '#' } else { '.' }).collect();
    let speed = match number(one, "bytes_per_second") {
        0 => String::new(),
        speed => format!("  {}/s", size(speed)),
    };
    let left = match (number(one, "keys_per_second"), about.saturating_sub(done)) {
        (0, _) | (_, 0) => String::new(),
        (speed, left) => format!("  {} left", crate::style::lasting(left / speed)),
    };
    let slowed = match text("slowed") {
        "latency" => "  slowed: servers answer late",
        "rate" => "  slowed: slot rate",
        _ => "",
    };
    let problem = match text("problem") {
        "" => String::new(),
        problem => format!("  {problem}"),
    };
    format!(
        "{:>5}-{:<5} {} > {}  [{bar}] {:<8} {done} keys{speed}{left}{slowed}{problem}",
        number(one, "first"),
        number(one, "last"),
        number(one, "from"),
        number(one, "to"),
        text("phase")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_or_refused() {
        for (text, expected) in [
            ("50mb", Some(50 << 20)),
            ("1GB/s", Some(1 << 30)),
            ("off", Some(0)),
            ("700", Some(700)),
            ("fast", None),
            ("", None),
        ] {
            assert_eq!(rate_of(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_bar_says_how_far_it_is() {
        let one = json!({
            "first": 0, "last": 99, "from": 1, "to": 2, "phase": "copying", "keys_about": 1000, "keys_per_second": 100,
            "bytes_per_second": 2048, "slowed": "rate", "progress": { "keys": 500, "is_following": false },
        });
        let line = bars(&json!([one, { "phase": "planned" }]));
        assert!(
            line.contains("[############............] copying  500 keys  2.0 kB/s  5s left  slowed: slot rate"),
            "{line}"
        );
        assert!(line.ends_with("1 more ranges wait for their turn"), "{line}");
        assert_eq!(bars(&json!([])), "");
    }
}
