//! Dates from seconds, without asking the system.

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: u8,
    /// From 1.
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    /// From 0, Sunday.
    pub(crate) weekday: u8,
    /// From 0.
    pub(crate) day_of_year: u16,
}

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
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Seconds beyond which a date is not computed: they keep every step below within 64 bits.
const SECONDS_MAX: i64 = 1 << 56;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "each value is in the range of its field")]
impl Civil {
    /// The date at `seconds` since the Unix epoch, in the calendar that the world uses.
    ///
    /// Days are counted from 1 March of year 0, so that a leap day is the last of its year; 400 years have 146,097 days.
    pub(crate) fn at(seconds: i64) -> Civil {
        let seconds = seconds.clamp(-SECONDS_MAX, SECONDS_MAX);
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let day = day_from_march - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month > 2 { day_from_march + 59 + i64::from(leap) } else { day_from_march - 306 };
        Civil {
            year,
            month: month as u8,
            day: day as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
            day_of_year: day_of_year as u16,
        }
    }
}

impl Civil {
    pub(crate) fn month_name(&self) -> &'static str {
        MONTHS.get(usize::from(self.month).saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(crate) fn month_short(&self) -> &'static str {
        self.month_name().get(..3).unwrap_or_default()
    }

    pub(crate) fn weekday_name(&self) -> &'static str {
        WEEKDAYS.get(usize::from(self.weekday)).copied().unwrap_or_default()
    }

    pub(crate) fn weekday_short(&self) -> &'static str {
        self.weekday_name().get(..3).unwrap_or_default()
    }
}

/// An offset from UTC as `+0100`.
pub(crate) fn offset_text(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, expected) in [
            (0, (1970, 1, 1, 0, 0, 0, 4, 0)),
            (951_782_400, (2000, 2, 29, 0, 0, 0, 2, 59)),
            (951_868_800, (2000, 3, 1, 0, 0, 0, 3, 60)),
            (1_700_000_000, (2023, 11, 14, 22, 13, 20, 2, 317)),
            (-1, (1969, 12, 31, 23, 59, 59, 3, 364)),
            (4_107_542_399, (2100, 2, 28, 23, 59, 59, 0, 58)),
        ] {
            let civil = Civil::at(seconds);
            let found = (
                civil.year,
                civil.month,
                civil.day,
                civil.hour,
                civil.minute,
                civil.second,
                civil.weekday,
                civil.day_of_year,
            );
            assert_eq!(found, expected, "{seconds}");
        }
    }
}
