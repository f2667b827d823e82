//! Trials with real programs doing real work: healthy, and each with one fault.

mod compute;
mod container;
mod database;
mod files;
mod guest;
mod web;

use crate::trial::Trial;

pub const TABLES: &[&[Trial]] =
    &[database::TRIALS, web::TRIALS, files::TRIALS, compute::TRIALS, container::TRIALS, guest::TRIALS];
