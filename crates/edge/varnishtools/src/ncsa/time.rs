//! Times by strftime's letters.

use telemetry::local_time;

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Whether a format has only letters that [`format`] knows; if not, the one that it does not.
pub(super) fn check(text: &str) -> Result<(), char> {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' {
            match letters.next() {
                Some(letter) if "aAbBhCdDeFHIjklmMnpRsStTuwyYz%".contains(letter) => {}
                other => return Err(other.unwrap_or('%')),
            }
        }
    }
    Ok(())
}

/// A time in local time, as a format says.
pub(super) fn format(text: &str, seconds: i64) -> String {
    let time = local_time(seconds);
    let days = (seconds + i64::from(time.offset)).div_euclid(86_400);
    let day_name = DAYS.get(days.rem_euclid(7) as usize).copied().unwrap_or_default();
    let month_name = MONTHS.get(time.month).copied().unwrap_or_default();
    // Thursday was the first one.
    let weekday = (days + 4).rem_euclid(7);
    let twelve = match time.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let is_leap = time.year % 4 == 0 && (time.year % 100 != 0 || time.year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let day_of_year = lengths.iter().take(time.month).sum::<u16>() + u16::from(time.day);
    let offset = time.offset.unsigned_abs() / 60;
    let sign = if time.offset < 0 { '-' } else { '+' };
    let (month, day, hour, minute, second) = (time.month + 1, time.day, time.hour, time.minute, time.second);
    let mut output = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            output.push(letter);
            continue;
        }
        output.push_str(&match letters.next().unwrap_or('%') {
            'a' => day_name.chars().take(3).collect(),
            'A' => day_name.to_owned(),
            'b' | 'h' => month_name.chars().take(3).collect(),
            'B' => month_name.to_owned(),
            'C' => format!("{:02}", time.year.div_euclid(100)),
            'd' => format!("{day:02}"),
            'D' => format!("{month:02}/{day:02}/{:02}", time.year.rem_euclid(100)),
            'e' => format!("{day:2}"),
            'F' => format!("{}-{month:02}-{day:02}", time.year),
            'H' => format!("{hour:02}"),
            'I' => format!("{twelve:02}"),
            'j' => format!("{day_of_year:03}"),
            'k' => format!("{hour:2}"),
            'l' => format!("{twelve:2}"),
            'm' => format!("{month:02}"),
            'M' => format!("{minute:02}"),
            'n' => "\n".to_owned(),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'R' => format!("{hour:02}:{minute:02}"),
            's' => seconds.to_string(),
            'S' => format!("{second:02}"),
            't' => "\t".to_owned(),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'u' => if weekday == 0 { 7 } else { weekday }.to_string(),
            'w' => weekday.to_string(),
            'y' => format!("{:02}", time.year.rem_euclid(100)),
            'Y' => time.year.to_string(),
            'z' => format!("{sign}{:02}{:02}", offset / 60, offset % 60),
            other => other.to_string(),
        });
    }
    output
}
