//! Generates the manual pages of a program from its command line: one for the program, and one for each command.

use crate::HelpSection;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;
use std::path::PathBuf;

/// Which pages to make.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page to print, such as 'tune set'; without one, the page of the program
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder, a file each
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    folder: Option<PathBuf>,
}

impl ManArgs {
    /// Returns the page to print; empty if the pages were written to a folder.
    ///
    /// # Errors
    /// Fails with one sentence if the program has no such command, or the folder cannot be written to.
    pub fn page(&self, program: &Command, sections: &[HelpSection]) -> Result<Vec<u8>, String> {
        let pages = pages(program, sections).map_err(|e| format!("cannot make the manual page: {e}"))?;
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            for page in pages {
                let path = folder.join(page.file_name());
                std::fs::write(&path, page.roff).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            return Ok(Vec::new());
        }
        let names: Vec<&str> =
            [program.get_name()].into_iter().chain(self.command.iter().map(String::as_str)).collect();
        let page = pages.into_iter().find(|page| page.name == names.join("-")).ok_or_else(|| {
            format!("no command '{}'; '{} --help' lists them", self.command.join(" "), program.get_name())
        })?;
        Ok(page.roff)
    }
}

/// A manual page of section 1.
struct ManPage {
    /// Program and command, as in `whyslow-tune-set`.
    name: String,
    roff: Vec<u8>,
}

impl ManPage {
    fn file_name(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// Returns the page of the program, then those of its commands.
fn pages(program: &Command, sections: &[HelpSection]) -> io::Result<Vec<ManPage>> {
    let mut program = program.clone().disable_help_subcommand(true);
    program.build();
    let source = format!("{} {}", program.get_name(), program.get_version().unwrap_or_default());
    let mut pages = Vec::new();
    add_pages(&program, None, &source, sections, &mut pages)?;
    Ok(pages)
}

fn add_pages(
    command: &Command,
    above: Option<&str>,
    source: &str,
    sections: &[HelpSection],
    pages: &mut Vec<ManPage>,
) -> io::Result<()> {
    let name = display_name(command);
    let man = Man::new(command.clone()).source(source);
    let mut roff = Vec::new();
    man.render_title(&mut roff)?;
    man.render_name_section(&mut roff)?;
    man.render_synopsis_section(&mut roff)?;
    man.render_description_section(&mut roff)?;
    man.render_options_section(&mut roff)?;
    commands(command).to_writer(&mut roff)?;
    described(sections).to_writer(&mut roff)?;
    see_also(above).to_writer(&mut roff)?;
    pages.push(ManPage { name: name.to_owned(), roff });
    for sub in visible_commands(command) {
        add_pages(sub, Some(name), source, &[], pages)?;
    }
    Ok(())
}

fn display_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn visible_commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Lists the commands below this one, with the names of their pages.
fn commands(command: &Command) -> Roff {
    let mut roff = Roff::new();
    if visible_commands(command).next().is_some() {
        roff.control("SH", ["COMMANDS"]);
    }
    for sub in visible_commands(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        roff.control("TP", []).text([bold(display_name(sub)), roman("(1)")]).text([roman(about)]);
    }
    roff
}

/// Formats the text that `--help` prints after the options, with its line breaks.
fn described(sections: &[HelpSection]) -> Roff {
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

/// Refers to the page of the parent command.
fn see_also(above: Option<&str>) -> Roff {
    let mut roff = Roff::new();
    if let Some(above) = above {
        roff.control("SH", ["SEE ALSO"]).text([bold(above), roman("(1)")]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use std::fs;

    fn program() -> Command {
        let set = Command::new("set").about("Change settings").arg(Arg::new("dry-run").long("dry-run"));
        let tune = Command::new("tune").about("Show and change settings").subcommand(set);
        let hidden = Command::new("internal").hide(true);
        let json = Arg::new("json").long("json").global(true);
        Command::new("demo").version("1.2").about("Demonstrates").arg(json).subcommand(tune).subcommand(hidden)
    }

    fn asked(command: &[&str]) -> Result<String, String> {
        let args = ManArgs { command: command.iter().map(ToString::to_string).collect(), folder: None };
        args.page(&program(), &[("Files", "/etc/demo\n/var/demo")]).map(|page| String::from_utf8(page).unwrap())
    }

    #[test]
    fn a_command_has_a_page_with_its_own_options_and_those_of_the_commands_above() {
        let page = asked(&["tune", "set"]).unwrap();
        for part in [".TH demo-tune-set 1", "demo 1.2", "\\-\\-dry\\-run", "\\-\\-json", ".SH \"SEE ALSO\""] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("/etc/demo"), "{page}");
    }

    #[test]
    fn the_page_of_the_program_names_those_of_its_commands() {
        let page = asked(&[]).unwrap();
        assert!(page.contains("\\fBdemo\\-tune\\fR(1)") && page.contains("/etc/demo\n/var/demo"), "{page}");
        assert!(!page.contains("internal") && !page.contains("demo\\-help"), "{page}");
    }

    #[test]
    fn there_is_no_page_of_what_is_no_command() {
        assert_eq!(asked(&["tune", "sat"]).unwrap_err(), "no command 'tune sat'; 'demo --help' lists them");
    }

    #[test]
    fn all_pages_are_written_a_file_each() {
        let folder = whyslow_testing::folder();
        let args = ManArgs { command: Vec::new(), folder: Some(folder.path().join("man1")) };
        assert_eq!(args.page(&program(), &[]), Ok(Vec::new()));
        let mut names: Vec<String> = fs::read_dir(folder.path().join("man1"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["demo-tune-set.1", "demo-tune.1", "demo.1"]);
    }
}
