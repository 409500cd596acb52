//! In which order the rows are handed out, and when by the simulated clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::input::{Fate, Flight, InputError, Reader};

/// Minutes of an hour.
const HOUR_MIN: i64 = 60;

/// The rows of a file by their release; all of them are in memory.
pub(super) struct Schedule {
    rows: Vec<Flight>,
    /// The full hour before the first release: where the simulated clock stands at zero.
    start_min: i64,
}

impl Schedule {
    /// Reads all rows. Each is released at its actual departure, but none before an earlier row of the same aircraft;
    /// of those released at once the file's order is kept.
    pub(super) fn read(reader: Reader) -> Result<Self, InputError> {
        let mut rows = reader.collect::<Result<Vec<Flight>, _>>()?;
        let mut newest: HashMap<Arc<str>, i64> = HashMap::new();
        for row in &mut rows {
            if let Fate::Departed { tailnum, .. } = &row.fate {
                let before = newest.entry(Arc::clone(tailnum)).or_insert(row.release_min);
                row.release_min = row.release_min.max(*before);
                *before = row.release_min;
            }
        }
        rows.sort_by_key(|row| row.release_min);
        let start_min = rows.first().map_or(0, |row| row.release_min.div_euclid(HOUR_MIN) * HOUR_MIN);
        Ok(Self { rows, start_min })
    }

    /// The rows, each with its release as time since the start.
    pub(super) fn into_rows(self) -> impl Iterator<Item = (Duration, Flight)> {
        let start_min = self.start_min;
        self.rows.into_iter().map(move |row| {
            let after_min = u64::try_from(row.release_min - start_min).unwrap_or(0);
            (Duration::from_secs(60 * after_min), row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::input::samples;
    use super::*;

    fn order(rows: &str) -> Vec<(u64, u64)> {
        let text = format!("{}{rows}", samples::HEADER);
        let schedule = Schedule::read(samples::reader(text).unwrap()).unwrap();
        schedule.into_rows().map(|(after, row)| (row.line, after.as_secs() / 60)).collect()
    }

    #[test]
    fn rows_are_released_at_their_departure_and_cancelled_ones_at_schedule() {
        let rows = "2013,1,1,900,700,120,1100,1,UA,1,N1,EWR,IAH\n\
                    2013,1,1,800,800,0,1000,1,UA,2,N2,EWR,IAH\n\
                    2013,1,1,NA,730,NA,NA,NA,UA,3,,EWR,IAH\n\
                    2012,12,31,5,2355,10,200,1,UA,4,N4,EWR,IAH\n";
        assert_eq!(order(rows), [(5, 5), (4, 450), (3, 480), (2, 540)]);
    }

    #[test]
    fn the_rows_of_an_aircraft_keep_the_order_of_the_file() {
        let rows = "2013,1,1,900,900,0,1100,1,UA,1,N1,EWR,IAH\n\
                    2013,1,1,800,800,0,1000,1,UA,2,N1,IAH,EWR\n\
                    2013,1,1,830,830,0,1000,1,UA,3,N2,EWR,IAH\n\
                    2013,1,1,900,900,0,1000,1,UA,4,N3,EWR,IAH\n";
        assert_eq!(order(rows), [(4, 30), (2, 60), (3, 60), (5, 60)]);
    }
}
