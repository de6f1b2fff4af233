//! Times in UTC, for names and reports.

/// A time in UTC, to the second.
///
/// ```
/// use paceline_record::UtcTime;
///
/// let time = UtcTime::at(1_709_251_199);
/// assert_eq!(time.to_string(), "2024-02-29 23:59 UTC");
/// assert_eq!(time.stamp(), "20240229-235959");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    second_of_day: u64,
}

impl UtcTime {
    /// The time this many seconds after the beginning of 1970, by Howard Hinnant's algorithm for
    /// the civil calendar.
    pub fn at(unix_seconds: u64) -> Self {
        let days = (unix_seconds / 86_400) as i64;
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            second_of_day: unix_seconds % 86_400,
        }
    }

    /// The time as `YYYYMMDD-HHMMSS`, which sorts by time.
    pub fn stamp(&self) -> String {
        let Self { year, month, day, second_of_day } = self;
        let (hour, minute, second) =
            (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

impl std::fmt::Display for UtcTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, second_of_day } = self;
        let (hour, minute) = (second_of_day / 3_600, second_of_day / 60 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        for (seconds, stamp) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_709_251_199, "20240229-235959"),
            (1_791_763_200, "20261012-000000"),
        ] {
            assert_eq!(UtcTime::at(seconds).stamp(), stamp);
        }
    }
}
