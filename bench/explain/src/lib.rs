//! Long recordings out of short captured ones: clips are played one after the other, and counters go on from one to the next.

mod clip;
mod player;

pub use clip::Clip;
pub use player::Player;
