//! Colours on a terminal, and how people read times and amounts.

use std::{fmt::Display, io::IsTerminal as _};

/// What a text is about, by the colour that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Good,
    Neutral,
    Doubtful,
    Bad,
    Faint,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Neutral => "36",
            Self::Doubtful => "33",
            Self::Bad => "31",
            Self::Faint => "2",
        }
    }
}

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    colours: bool,
}

impl Style {
    /// What suits standard output: colours on a terminal, unless `NO_COLOR` says otherwise (<https://no-color.org>) or the
    /// terminal knows none.
    #[must_use]
    pub fn of_output() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { colours: std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb }
    }

    /// The text in its colour.
    #[must_use]
    pub fn paint(self, colour: Colour, text: impl Display) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", colour.code()) } else { text.to_string() }
    }
}

/// How many columns standard output has: those of the terminal, or 80.
#[must_use]
pub fn width_of_output() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|width| *width >= 40).unwrap_or(80)
}

/// Bytes for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / *unit as f64))
}

/// A time in the two largest of its units: `3d 4h`, `2m 5s`, `7s`.
#[must_use]
pub fn lasting(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// A short time with its unit and three digits or so: `740us`, `1.2ms`, `35ms`, `2.34s`.
#[must_use]
pub fn taking(us: u64) -> String {
    let parts = |unit: u64| (us / unit, us % unit);
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{}.{}ms", parts(1_000).0, parts(1_000).1 / 100),
        10_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}.{:02}s", parts(1_000_000).0, parts(1_000_000).1 / 10_000),
    }
}

/// Rows with their columns below one another; the last column is as wide as it is.
#[must_use]
pub fn columns<const COUNT: usize>(rows: &[[String; COUNT]]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COUNT).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!(" {cell:<width$} "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_largest_units() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (125, "2m 5s"), (7_500, "2h 5m"), (273_600, "3d 4h")] {
            assert_eq!(lasting(seconds), expected);
        }
        for (us, expected) in [
            (0, "0us"),
            (740, "740us"),
            (1_165, "1.1ms"),
            (35_900, "35ms"),
            (2_345_678, "2.34s"),
            (60_000_000, "60.00s"),
        ] {
            assert_eq!(taking(us), expected);
        }
    }

    #[test]
    fn columns_stand_below_one_another() {
        let rows = [["a", "bcd", "e"], ["abc", "d", "efg"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "  a    bcd  e\n  abc  d    efg\n");
    }

    #[test]
    fn nothing_is_coloured_without_a_terminal() {
        assert_eq!(Style::default().paint(Colour::Bad, 503), "503");
        assert_eq!(Style { colours: true }.paint(Colour::Bad, 503), "\x1b[31m503\x1b[0m");
    }
}
