//! The manual page of a program, made of its command line.

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// The page of a program, with all of its commands, and with sections of a title and lines at its end.
///
/// # Errors
/// Nothing that is written to memory fails.
pub fn page(program: &clap::Command, sections: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let man = Man::new(program.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    commands(program).to_writer(&mut page)?;
    described(sections).to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// The commands in this one page, not in pages of their own.
fn commands(program: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["COMMANDS"]);
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        entry(&mut roff, command.get_name(), command);
    }
    roff
}

/// A command, and those it has of its own, by their whole names.
fn entry(roff: &mut Roff, name: &str, command: &clap::Command) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    roff.control("TP", []).text([bold(name)]).text([roman(about)]);
    options(roff, command);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        entry(roff, &format!("{name} {}", sub.get_name()), sub);
    }
}

/// The options a command has of its own, set in under it.
fn options(roff: &mut Roff, command: &clap::Command) {
    roff.control("RS", []);
    for option in command.get_opts().filter(|option| !option.is_global_set()) {
        let long = option.get_long().map(|long| format!("--{long}"));
        let names: Vec<String> = option.get_short().map(|short| format!("-{short}")).into_iter().chain(long).collect();
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        roff.control("TP", []).text([bold(names.join(", "))]).text([roman(help)]);
    }
    roff.control("RE", []);
}

/// What `--help` says after the options, its lines kept.
fn described(sections: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    for (title, text) in sections {
        roff.control("SH", [&*title.to_uppercase()]).control("nf", []);
        for line in text.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}
