//! HTTP dates (RFC 9110 section 5.6.7).

/// Bytes of an HTTP date.
pub const HTTP_DATE_LEN: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The latest moment with a year of four digits.
const SECONDS_MAX: u64 = 253_402_300_799;

/// A moment, in seconds since 1970, as in `Sun, 06 Nov 1994 08:49:37 GMT`. Moments after the year 9999 become its end.
#[must_use]
pub fn http_date(unix_seconds: u64) -> [u8; HTTP_DATE_LEN] {
    let seconds = unix_seconds.min(SECONDS_MAX);
    let days = seconds / 86_400;
    let of_day = seconds % 86_400;
    let (year, month, day) = civil(days);

    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let mut put = |start: usize, bytes: &[u8]| {
        for (place, byte) in date.iter_mut().skip(start).zip(bytes) {
            *place = *byte;
        }
    };
    put(0, pick(&DAYS, days % 7));
    put(5, &two_digits(day));
    put(8, pick(&MONTHS, month - 1));
    put(12, &two_digits(year / 100));
    put(14, &two_digits(year % 100));
    put(17, &two_digits(of_day / 3_600));
    put(20, &two_digits(of_day / 60 % 60));
    put(23, &two_digits(of_day % 60));
    date
}

fn pick<'a>(names: &[&'a [u8; 3]], index: u64) -> &'a [u8; 3] {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or(b"???")
}

fn two_digits(number: u64) -> [u8; 2] {
    let digit = |value: u64| b'0' + u8::try_from(value % 10).unwrap_or(0);
    [digit(number / 10), digit(number)]
}

/// Year, month and day of the month of a day counted from 1970-01-01.
///
/// Counted from 0000-03-01 a leap day is the last day of its year, and the months from March on have lengths that repeat
/// every 153 days; so each part is a division.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let era = days / DAYS_IN_400_YEARS;
    let of_era = days % DAYS_IN_400_YEARS;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::http_date;

    fn check(seconds: u64, expected: &str) {
        assert_eq!(std::str::from_utf8(&http_date(seconds)).unwrap(), expected);
    }

    #[test]
    fn dates() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
