//! Contents of whyslow's documents: diagnoses, baselines, benchmark reports, charts, explanations, plans and trials of changes.
//!
//! Nothing here reads the system or touches a file.

pub mod baseline;
pub mod bench;
pub mod blind_spots;
pub mod chart;
pub mod comparison;
pub mod diagnosis;
pub mod expectation;
pub mod explanation;
pub mod io_stack;
pub mod listing;
pub mod overview;
pub mod profile;
pub mod time_breakdown;
pub mod tune;
