//! HTTP dates (RFC 9110 section 5.6.7).

use basics::Date;

mod read;

pub use read::{is_http_date_in_usual_letters, parse_http_date};

/// Bytes of an HTTP date.
pub const HTTP_DATE_LEN: usize = 29;

/// The latest moment with a year of four digits.
const SECONDS_MAX: i64 = 253_402_300_799;

/// A moment, in seconds since 1970, as in `Sun, 06 Nov 1994 08:49:37 GMT`. Moments after the year 9999 become its end.
#[must_use]
pub fn http_date(unix_seconds: u64) -> [u8; HTTP_DATE_LEN] {
    let moment = Date::at(i64::try_from(unix_seconds).unwrap_or(SECONDS_MAX).min(SECONDS_MAX));
    let century = u8::try_from(moment.year / 100).unwrap_or(99);
    let of_century = u8::try_from(moment.year % 100).unwrap_or(99);

    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let mut put = |start: usize, bytes: &[u8]| {
        for (place, byte) in date.iter_mut().skip(start).zip(bytes) {
            *place = *byte;
        }
    };
    put(0, moment.weekday_short().as_bytes());
    put(5, &two_digits(moment.day));
    put(8, moment.month_short().as_bytes());
    put(12, &two_digits(century));
    put(14, &two_digits(of_century));
    put(17, &two_digits(moment.hour));
    put(20, &two_digits(moment.minute));
    put(23, &two_digits(moment.second));
    date
}

fn two_digits(number: u8) -> [u8; 2] {
    [b'0' + number / 10 % 10, b'0' + number % 10]
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
