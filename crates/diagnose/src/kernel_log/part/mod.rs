//! Errors of storage: of disks, of the way to them, and of host adapters, in the words of every generation of drivers
//! since 2.4.

mod adapter;
mod additional;
mod ata;
mod block;
mod event;
mod ide;
mod known_devices;
mod mmc;
mod nvme;
mod parser;
mod scsi;
mod sense;
mod target;

pub use event::{Event, Kind};
pub use known_devices::KnownDevices;
pub use parser::parse;

use std::collections::BTreeMap;

/// Errors, and what the log tells of the devices.
#[derive(Debug, Default)]
pub struct Errors {
    /// In the order they were logged.
    pub events: Vec<Event>,
    /// Names and models.
    pub known: KnownDevices,
    /// Whether an ATA link was free of errors whenever its port failed (SErr 0x0), by target.
    pub clean_links: BTreeMap<String, bool>,
}
