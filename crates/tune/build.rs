//! Embeds the catalogue and the profiles.

#[path = "../../scripts/embed.rs"]
mod embed;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    embed::embed("tunables", &out.join("tunables.rs"), embed::toml);
    // A profile is a folder; its name is the profile's name.
    let profile = |folder: &Path| folder.is_dir().then(|| folder.join("tuned.conf"));
    embed::embed("../../profiles", &out.join("profiles.rs"), profile);
}
