//! Builds long recordings from short captured ones: clips are played one after the other, with continuous counters.

mod clip;
mod player;

pub use clip::Clip;
pub use player::Player;
