//! `varnishstat`.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use telemetry::local_time;
use vsm::{
    counters::{Format, Kind, Level},
    reader::{CounterReader, CounterValue, Reader},
};

use crate::{
    VERSION, fail,
    options::{self, Specification},
    source::{attach, folder, with_causes},
};

const TOOL: &str = "varnishstat";
/// Columns of names in the list, at least.
const NAME_COLUMNS: usize = 18;

const OPTIONS: &[Specification] = &[
    ('1', "", "Print all counters once, and end"),
    ('f', "pattern", "Only counters that match; with ^ in front, only those that do not"),
    ('h', "", "This help"),
    ('I', "pattern", "Show counters that match: SMA.*"),
    ('j', "", "Print all counters once as JSON, and end"),
    ('l', "", "List names and meanings of all counters"),
    ('n', "name", "The instance: a name, or the path of its working directory"),
    ('r', "", "Show negative gauges as they are, instead of zero"),
    ('t', "seconds", "How long to wait for the instance; off: without a limit"),
    ('V', "", "The version"),
    ('x', "", "Print all counters once as XML, and end"),
    ('X', "pattern", "Hide counters that match"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Live,
    Once,
    Json,
    Xml,
    List,
}

/// Patterns of names, and whether what matches is shown.
#[derive(Default)]
struct Choice(Vec<(String, bool)>);

impl Choice {
    fn shows(&self, name: &str) -> bool {
        match self.0.iter().find(|(pattern, _)| matches(pattern.as_bytes(), name.as_bytes())) {
            Some((_, is_shown)) => *is_shown,
            None => !self.0.iter().any(|(_, is_shown)| *is_shown),
        }
    }
}

/// Whether a name is what a pattern with `*` and `?` means.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut again: Option<(usize, usize)> = None;
    let (mut at, mut here) = (0, 0);
    while let Some(letter) = name.get(here) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                again = Some((at, here));
            }
            Some(wanted) if *wanted == b'?' || wanted == letter => (at, here) = (at + 1, here + 1),
            _ => {
                let Some((behind, from)) = again else { return false };
                again = Some((behind, from + 1));
                (at, here) = (behind, from + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|letter| *letter == b'*')
}

/// Shows the counters of an instance.
#[must_use]
pub fn varnishstat(words: &[String]) -> ExitCode {
    match run(words) {
        Ok(code) => code,
        Err(message) => fail(TOOL, &message),
    }
}

fn run(words: &[String]) -> Result<ExitCode, String> {
    let parsed = options::parse(words, OPTIONS)?;
    let mut choice = Choice::default();
    let mut form = if io::stdout().is_terminal() { Form::Live } else { Form::Once };
    let mut name = None;
    let mut is_raw = false;
    let mut patience = Some(Duration::from_secs(5));
    for (option, value) in &parsed.options {
        match option {
            'h' => {
                print!("{}", options::usage(TOOL, "", OPTIONS));
                return Ok(ExitCode::SUCCESS);
            }
            'V' => {
                println!("{TOOL} ({VERSION})");
                return Ok(ExitCode::SUCCESS);
            }
            '1' => form = Form::Once,
            'j' => form = Form::Json,
            'x' => form = Form::Xml,
            'l' => form = Form::List,
            'r' => is_raw = true,
            'n' => name = Some(value.as_str()),
            'f' => match value.strip_prefix('^') {
                Some(pattern) => choice.0.push((pattern.to_owned(), false)),
                None => choice.0.push((value.clone(), true)),
            },
            'I' => choice.0.push((value.clone(), true)),
            'X' => choice.0.push((value.clone(), false)),
            _ if value.eq_ignore_ascii_case("off") => patience = None,
            _ => {
                let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                patience = Some(seconds.ok_or_else(|| format!("-t needs a number of seconds, not '{value}'"))?);
            }
        }
    }
    if let Some(word) = parsed.rest.first() {
        return Err(format!("'{word}' cannot stand here (-h names the options)"));
    }
    let reader = attach(&folder(name), patience)?;
    let mut stat = Stat { reader, counters: CounterReader::default(), choice, is_raw };
    stat.counters.refresh(&stat.reader);
    let result = match form {
        Form::Live => stat.live(),
        Form::Once => print(&stat.once()),
        Form::Json => print(&stat.json()),
        Form::Xml => print(&stat.xml()),
        Form::List => print(&stat.list()),
    };
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("cannot go on: {error}")),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

struct Stat {
    reader: Reader,
    counters: CounterReader,
    choice: Choice,
    is_raw: bool,
}

impl Stat {
    fn values(&self) -> impl Iterator<Item = CounterValue<'_>> {
        self.counters.values().filter(|value| self.choice.shows(&value.name)).map(|mut value| {
            // A gauge that was decremented before it was incremented elsewhere is below zero for a moment.
            if value.description.kind == Kind::Gauge && !self.is_raw && value.value > i64::MAX as u64 {
                value.value = 0;
            }
            value
        })
    }

    fn once(&self) -> String {
        let uptime = self.counters.values().find(|value| value.name == "MAIN.uptime").map_or(0, |value| value.value);
        let mut pad = NAME_COLUMNS;
        let mut text = String::new();
        for value in self.values() {
            if value.name.len() >= pad {
                pad = value.name.len() + 1;
            }
            let rate = match (value.description.kind, uptime) {
                (Kind::Counter, 0) => "0.00".to_owned(),
                (Kind::Counter, uptime) => format!("{:.2}", value.value as f64 / uptime as f64),
                _ => ".  ".to_owned(),
            };
            let (name, number) = (&value.name, value.value);
            text.push_str(&format!("{name:<pad$}{number:>12} {rate:>12} {}\n", value.description.oneliner));
        }
        text
    }

    fn json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let element = |value: CounterValue<'_>| {
            format!(
                "    {}: {{\n      \"description\": {},\n      \"flag\": \"{}\",\n      \"format\": \"{}\",\n      \"value\": {}\n    }}",
                quoted(&value.name),
                quoted(&value.description.oneliner),
                kind_letter(value.description.kind),
                format_letter(value.description.format),
                value.value
            )
        };
        let elements: Vec<String> = self.values().map(element).collect();
        let counters = elements.join(",\n");
        format!(
            "{{\n  \"version\": 1,\n  \"timestamp\": \"{}\",\n  \"counters\": {{\n{counters}\n  }}\n}}\n",
            timestamp()
        )
    }

    fn xml(&self) -> String {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let element = |value: CounterValue<'_>| {
            format!(
                "\t<stat>\n\t\t<name>{}</name>\n\t\t<value>{}</value>\n\t\t<flag>{}</flag>\n\t\t<format>{}</format>\n\t\t<description>{}</description>\n\t</stat>\n",
                escape(&value.name),
                value.value,
                kind_letter(value.description.kind),
                format_letter(value.description.format),
                escape(&value.description.oneliner)
            )
        };
        let elements: String = self.values().map(element).collect();
        format!("<?xml version=\"1.0\"?>\n<varnishstat timestamp=\"{}\">\n{elements}</varnishstat>\n", timestamp())
    }

    fn list(&self) -> String {
        let line = |value: CounterValue<'_>| format!("{:<30} {}\n", value.name, value.description.oneliner);
        let lines: String = self.values().map(line).collect();
        format!(
            "Varnishstat -f option fields:\nField name                     Description\n----------                     -----------\n{lines}"
        )
    }

    /// A table that is drawn again each second, until somebody ends it.
    fn live(&mut self) -> io::Result<()> {
        const CLEAR: &str = "\x1b[H\x1b[2J";
        let mut former: HashMap<String, u64> = HashMap::new();
        let mut looked = Instant::now();
        loop {
            if let Err(error) = self.reader.refresh() {
                return Err(io::Error::other(with_causes(&error)));
            }
            self.counters.refresh(&self.reader);
            let elapsed = looked.elapsed().as_secs_f64();
            looked = Instant::now();
            let table = self.table(&former, elapsed);
            former = self.values().map(|value| (value.name, value.value)).collect();
            print(&format!("{CLEAR}{table}"))?;
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn table(&self, former: &HashMap<String, u64>, elapsed: f64) -> String {
        let of = |name: &str| self.counters.values().find(|value| value.name == name).map_or(0, |value| value.value);
        let since = |name: &str| of(name).saturating_sub(former.get(name).copied().unwrap_or_else(|| of(name)));
        let (hits, misses) = (since("MAIN.cache_hit"), since("MAIN.cache_miss"));
        let ratio = if hits + misses > 0 { hits as f64 / (hits + misses) as f64 } else { 0.0 };
        let uptime = of("MAIN.uptime");
        let mut text = format!(
            "Uptime {}+{:02}:{:02}:{:02}   Hit rate {ratio:.4}   (Ctrl-C ends)\n\n",
            uptime / 86_400,
            uptime / 3600 % 24,
            uptime / 60 % 60,
            uptime % 60
        );
        text.push_str(&format!("{:<34} {:>14} {:>12} {:>12}\n", "NAME", "CURRENT", "CHANGE/s", "AVERAGE/s"));
        // What is zero and was zero says nothing.
        let shown = self.values().filter(|value| {
            value.description.level == Level::Info
                && (value.value != 0 || former.get(&value.name).is_some_and(|value| *value != 0))
        });
        for value in shown {
            let change = value.value as f64 - former.get(&value.name).map_or(value.value as f64, |value| *value as f64);
            let (change, average) = match value.description.kind {
                Kind::Counter if elapsed > 0.0 => {
                    let average = if uptime > 0 { value.value as f64 / uptime as f64 } else { 0.0 };
                    (format!("{:.2}", change / elapsed), format!("{average:.2}"))
                }
                _ => (".  ".to_owned(), ".  ".to_owned()),
            };
            let number = shown_as(value.value, value.description.format);
            text.push_str(&format!("{:<34} {number:>14} {change:>12} {average:>12}\n", value.name));
        }
        text
    }
}

fn shown_as(value: u64, format: Format) -> String {
    match format {
        Format::Bitmap => format!("{value:010x}"),
        Format::Duration => {
            format!("{}+{:02}:{:02}:{:02}", value / 86_400, value / 3600 % 24, value / 60 % 60, value % 60)
        }
        Format::Bytes if value >= 1024 => {
            let mut scaled = value as f64;
            let mut unit = ' ';
            for next in ['K', 'M', 'G', 'T'] {
                if scaled < 1024.0 {
                    break;
                }
                (scaled, unit) = (scaled / 1024.0, next);
            }
            format!("{scaled:.2}{unit}")
        }
        Format::Bytes | Format::Integer => value.to_string(),
    }
}

fn kind_letter(kind: Kind) -> char {
    match kind {
        Kind::Counter => 'c',
        Kind::Gauge => 'g',
        Kind::Bitmap => 'b',
    }
}

fn format_letter(format: Format) -> char {
    match format {
        Format::Integer => 'i',
        Format::Bytes => 'B',
        Format::Bitmap => 'b',
        Format::Duration => 'd',
    }
}

fn timestamp() -> String {
    let seconds = basics::clock::since_1970().as_secs();
    let time = local_time(seconds.cast_signed());
    let (month, day) = (time.month + 1, time.day);
    format!("{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", time.year, time.hour, time.minute, time.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let choice = |rules: &[(&str, bool)]| {
            Choice(rules.iter().map(|(pattern, shown)| ((*pattern).to_owned(), *shown)).collect())
        };
        assert!(choice(&[]).shows("MAIN.uptime"));
        assert!(!choice(&[("SMA.*", true)]).shows("MAIN.uptime"));
        assert!(choice(&[("SMA.*", false)]).shows("MAIN.uptime"));
        assert!(!choice(&[("MAIN.sc_*", false), ("MAIN.*", true)]).shows("MAIN.sc_tx_eof"));
        assert!(choice(&[("MAIN.sc_*", false), ("MAIN.*", true)]).shows("MAIN.uptime"));
        assert!(matches(b"*.s?", b"SMA.s0") && !matches(b"SMA", b"SMA.s0") && matches(b"*", b""));
    }
}
