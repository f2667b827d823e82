//! `whyslow bench` from the outside: what it refuses to touch, what it leaves behind, and whether its books balance.

mod ended;
mod in_use;
mod layers;
mod machine;
mod measured;
mod stage;
mod written;
