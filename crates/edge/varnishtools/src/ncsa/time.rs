//! Times by strftime's letters.

use basics::Date;
use telemetry::local_time;

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
    let date = Date::at(seconds + i64::from(time.offset));
    let (weekday, day_name, month_name) = (date.weekday, date.weekday_name(), date.month_name());
    let twelve = match time.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let day_of_year = date.day_of_year + 1;
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
            'a' => date.weekday_short().to_owned(),
            'A' => day_name.to_owned(),
            'b' | 'h' => date.month_short().to_owned(),
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
