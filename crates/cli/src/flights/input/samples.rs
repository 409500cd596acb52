//! Small inputs for tests: rows, files in memory, packed or not.

use std::io::{Cursor, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Flight, InputError, Reader};

/// The columns that the job needs, in the order of `row`.
pub(crate) const HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,arr_delay,carrier,flight,tailnum,origin,dest\n";

/// Three flights of one aircraft: on time to IAH, diverted, cancelled.
pub(crate) fn three_flights() -> String {
    format!(
        "{HEADER}{}{}{}",
        "2013,1,1,517,515,2,830,11,UA,1545,N14228,EWR,IAH\n",
        "2013,1,1,533,529,4,NA,,UA,1714,N14228,LGA,IAH\n",
        "2013,1,2,NA,1630,NA,NA,NA,UA,4308,,EWR,RDU\n",
    )
}

/// The text as one gzip member.
pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

/// Reads everything as if it stood in the file `sample.csv`.
pub(crate) fn read(bytes: impl Into<Vec<u8>>) -> Result<Vec<Flight>, InputError> {
    reader(bytes)?.collect()
}

/// A reader over bytes in memory.
pub(crate) fn reader(bytes: impl Into<Vec<u8>>) -> Result<Reader, InputError> {
    Reader::new(Path::new("sample.csv"), Cursor::new(bytes.into()), None)
}
