//! The calendar that the world uses, in UTC, without asking the system: dates of seconds since 1970, and back.
//!
//! Years are counted from 1 March, so that a leap day is the last of its year and the months' lengths repeat every 153 days; 400 years
//! have 146,097 days. So each part is a division.

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Months in full, from January.
pub const MONTHS: [&str; 12] = [
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

/// Months in three letters, from January.
pub const MONTHS_SHORT: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days of the week in full, from Sunday.
pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days of the week in three letters, from Sunday.
pub const WEEKDAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

const DAYS_OF_400_YEARS: i64 = 146_097;
/// From 1 March of the year 0 to 1970.
const DAYS_BEFORE_1970: i64 = 719_468;
/// Seconds beyond which a date is not computed: they keep every step below within 64 bits.
const SECONDS_MAX: i64 = 1 << 56;

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year; 0 is the one before the first.
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 59.
    pub second: u8,
    /// From 0, Sunday.
    pub weekday: u8,
    /// From 0.
    pub day_of_year: u16,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "each value is in the range of its field")]
impl Date {
    /// The date at `seconds` since 1970.
    #[must_use]
    pub const fn at(seconds: i64) -> Self {
        let seconds = if seconds > SECONDS_MAX {
            SECONDS_MAX
        } else if seconds < -SECONDS_MAX {
            -SECONDS_MAX
        } else {
            seconds
        };
        let (days, of_day) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let shifted = days + DAYS_BEFORE_1970;
        let (era, day_of_era) = (shifted.div_euclid(DAYS_OF_400_YEARS), shifted.rem_euclid(DAYS_OF_400_YEARS));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let day = day_from_march - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
        let leap_day = if is_leap(year) { 1 } else { 0 };
        let day_of_year = if month > 2 { day_from_march + 59 + leap_day } else { day_from_march - 306 };
        Self {
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

impl Date {
    /// `January`
    #[must_use]
    pub fn month_name(&self) -> &'static str {
        MONTHS.get(usize::from(self.month).saturating_sub(1)).copied().unwrap_or_default()
    }

    /// `Jan`
    #[must_use]
    pub fn month_short(&self) -> &'static str {
        MONTHS_SHORT.get(usize::from(self.month).saturating_sub(1)).copied().unwrap_or_default()
    }

    /// `Sunday`
    #[must_use]
    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS.get(usize::from(self.weekday)).copied().unwrap_or_default()
    }

    /// `Sun`
    #[must_use]
    pub fn weekday_short(&self) -> &'static str {
        WEEKDAYS_SHORT.get(usize::from(self.weekday)).copied().unwrap_or_default()
    }
}

/// Whether a year has a leap day.
#[must_use]
pub const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has, from 1.
#[must_use]
pub const fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date. Months and days are from 1; a day that the month does not have is one of the next month.
#[must_use]
pub const fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * DAYS_OF_400_YEARS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_BEFORE_1970
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
            let Date { year, month, day, hour, minute, second, weekday, day_of_year } = Date::at(seconds);
            assert_eq!((year, month, day, hour, minute, second, weekday, day_of_year), expected, "{seconds}");
        }
        assert_eq!(Date::at(i64::MIN), Date::at(-SECONDS_MAX));
        let date = Date::at(784_111_777);
        assert_eq!((date.month_name(), date.month_short()), ("November", "Nov"));
        assert_eq!((date.weekday_name(), date.weekday_short()), ("Sunday", "Sun"));
    }

    #[test]
    fn each_day_of_eight_hundred_years_follows_the_one_before() {
        let first = days_from_1970(1600, 1, 1);
        let (mut year, mut month, mut day, mut of_year) = (1600, 1, 1, 0);
        for days in first..first + 2 * DAYS_OF_400_YEARS {
            let date = Date::at(days * DAY_SECONDS);
            let found = (date.year, i64::from(date.month), i64::from(date.day), date.day_of_year);
            assert_eq!(found, (year, month, day, of_year));
            assert_eq!(days_from_1970(year, month, day), days);
            (day, of_year) = (day + 1, of_year + 1);
            if day > days_of_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month, of_year) = (year + 1, 1, 0);
            }
        }
        assert_eq!((year, month, day), (2400, 1, 1));
    }
}
