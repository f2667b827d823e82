//! Writes the pages of the manual. Run `whyslow-book [FOLDER]` in the repository's folder.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/manual".to_owned());
    match whyslow_book::write(Path::new("."), Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("whyslow-book: {error}");
            ExitCode::from(2)
        }
    }
}
