//! Real programs doing real work: healthy, and each with one fault.

pub mod compute;
pub mod database;
pub mod files;
pub mod web;

use crate::trial::Trial;

pub const TABLES: &[&[Trial]] = &[database::TRIALS, web::TRIALS, files::TRIALS, compute::TRIALS];
