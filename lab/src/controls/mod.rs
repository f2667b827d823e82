//! The healthy controls, one file each: machines that look ill and are well.

mod build;
mod busy_parallel_disk;
mod busy_server;
mod fs_85;
mod game_loop;
mod half_open_files;
mod high_load;
mod idle;
mod loopback;
mod nice_batch;
mod paced_parallel_disk;
mod paced_read;
mod paced_stream;
mod page_cache;
mod slight_loss;
mod slow_logger;
mod small_packets;
mod small_read_ahead;
mod softirqs;
mod still_swap;
mod thread_pool;
mod wanderer;

use crate::trial::Trial;

/// All controls, in the order they are run.
pub const ALL: &[Trial] = &[
    idle::TRIAL,
    page_cache::TRIAL,
    nice_batch::TRIAL,
    still_swap::TRIAL,
    paced_read::TRIAL,
    loopback::TRIAL,
    high_load::TRIAL,
    busy_parallel_disk::TRIAL,
    paced_parallel_disk::TRIAL,
    fs_85::TRIAL,
    half_open_files::TRIAL,
    paced_stream::TRIAL,
    slight_loss::TRIAL,
    small_packets::TRIAL,
    softirqs::TRIAL,
    slow_logger::TRIAL,
    small_read_ahead::TRIAL,
    build::TRIAL,
    busy_server::TRIAL,
    wanderer::TRIAL,
    thread_pool::TRIAL,
    game_loop::TRIAL,
];
