//! Embeds the rules.

#[path = "../../scripts/embed.rs"]
mod embed;

use std::env;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    embed::embed("../../rules", &out.join("rules.rs"), embed::toml);
}
