//! What a host and the fleet exchange over a store: an hour of a recording as rows per minute, episodes, and their Parquet
//! files; signed requests for more; and the addresses and paths of all of them.
//!
//! [`tables`] describes all tables, [`parquet`] writes one of them, and [`Place`] is the location of its file in the
//! store. [`HourRollup`] creates the rows of an hour from the readings of a recording. A [`RecordingRequest`] asks a host for part of
//! its own recording. A [`StoreAddress`] names the store.
//!
//! Both ends depend on this crate, the host that writes and the fleet that reads; all code that only one of them needs is
//! elsewhere. No I/O: a store that was opened here has not been contacted.

mod episodes;
mod family;
mod file;
mod hour;
mod judged;
mod place;
mod requests;
mod row;
mod store_address;
mod table;
mod tables;

pub use file::{FileError, TableWriter, parquet, properties};
pub use hour::{HourRollup, MARGIN_NS, TableRows};
pub use place::{COMPACTED, File, Hour, INCOMING, Place, PlaceError, VERSION, host_in_path};
pub use requests::{
    ANSWERS, LONGEST_ANSWER, LONGEST_REQUEST, LONGEST_SPAN_MS, PublicKey, REQUESTS, RecordingAnswer, RecordingRequest,
    RequestError, SigningKey, answer_path, request_path,
};
pub use row::{Cell, Row};
pub use store_address::{AddressError, BucketAddress, StoreAddress, in_one_line};
pub use table::{Column, ColumnKind, TableSpec};
pub use tables::{AT, HOST, table, tables};
