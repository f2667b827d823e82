//! Profiles: many settings under one name, in tuned's format.

mod compute;
mod conf;
mod cpus;
mod devices;
mod expand;
mod functions;
mod library;
mod merge;
mod recommend;
mod settings;
mod words;

#[cfg(test)]
pub(crate) use devices::paths;
pub use recommend::recommend;

use crate::Error;
use crate::catalogue::Catalogue;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::request::ChangeRequest;
use conf::{ConfigOption, ConfigSection};
use expand::Variables;
use library::ReadBudget;
use merge::ProfileUnit;
use settings::ProfileOption;
use std::collections::HashSet;
use whyslow_documents::tune::{ProfileInfo, ProfileNote};

/// The section about the profile itself.
const MAIN: &str = "main";
const VARIABLES: &str = "variables";
/// Maximum number of profiles that include each other.
const MOST: usize = 64;
/// Maximum depth of includes.
const DEEPEST: usize = 16;

/// A profile, read for this machine.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name, or several names.
    pub name: String,
    /// Its purpose.
    pub summary: String,
    /// The settings it requests.
    pub requests: Vec<ChangeRequest>,
    /// Options that are ignored, with the reason.
    pub notes: Vec<ProfileNote>,
}

impl Profile {
    /// Reads a profile, or several that are merged from left to right. Commands that compute values (`${f:exec}`) run only if
    /// `may_run`.
    ///
    /// # Errors
    /// Fails if there is no such profile, it is invalid, or one of its assertions fails.
    pub fn load(machine: &Machine, names: &[String], may_run: bool) -> Result<Self, Error> {
        let mut loader = Loader {
            machine,
            variables: Variables::new(machine, may_run),
            units: Vec::new(),
            main: ConfigSection::default(),
            read: Vec::new(),
            depth: 0,
            budget: ReadBudget::default(),
        };
        for name in names {
            loader.load(name).map_err(|why| Error::Usage(format!("profile {name}: {why}")))?;
        }
        loader.finish(names.join(" "))
    }

    /// Resolves the profile on this machine.
    pub fn plan(&self, machine: &Machine) -> Plan {
        Plan::new(machine, &format!("profile {}", self.name), &self.requests)
    }

    /// Returns the profile as one file without includes, variables and functions.
    pub fn flat(&self) -> String {
        let mut text = format!("[main]\nsummary={}\n", one_line(&self.summary));
        for (section, is_of) in [("sysctl", true), ("sysfs", false)] {
            let lines = self.requests.iter().filter_map(|request| flat_line(request, is_of));
            let lines: String = lines.collect();
            if !lines.is_empty() {
                text.push_str(&format!("\n[{section}]\n{lines}"));
            }
        }
        text
    }
}

/// Lists every profile.
pub fn list(machine: &Machine) -> Vec<ProfileInfo> {
    library::list(machine)
}

struct Loader<'a> {
    machine: &'a Machine,
    variables: Variables<'a>,
    units: Vec<ProfileUnit>,
    main: ConfigSection,
    read: Vec<String>,
    /// Number of includes that lead to the current profile.
    depth: usize,
    budget: ReadBudget,
}

impl Loader<'_> {
    /// Reads a profile after its includes; skips one that was read already, and an optional one that does not exist.
    fn load(&mut self, name: &str) -> Result<(), String> {
        let wanted = name.strip_prefix('-');
        let found = match library::find(self.machine, &self.budget, wanted.unwrap_or(name), &self.read) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(_) if wanted.is_some() => return Ok(()),
            Err(why) => return Err(why),
        };
        if self.read.len() >= MOST {
            return Err(format!("more than {MOST} profiles are included"));
        }
        self.read.push(found.place.clone());
        let folder = found.place.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let sections = conf::parse(&found.text).map_err(|why| format!("{}: {why}", found.place))?;
        let mut units = Vec::new();
        for mut section in sections {
            for option in &mut section.options {
                option.value = option.value.replace("${i:PROFILE_DIR}", &format!("/{folder}"));
            }
            if section.name == MAIN { self.take_main(section)? } else { units.push(ProfileUnit::from(section)) }
        }
        merge::merge(&mut self.units, units);
        Ok(())
    }

    fn take_main(&mut self, mut main: ConfigSection) -> Result<(), String> {
        if let Some(include) = main.take("include") {
            let include = self.variables.expand(&include)?;
            if self.depth == DEEPEST {
                return Err(format!("profiles include each other more than {DEEPEST} deep"));
            }
            self.depth += 1;
            for name in include.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()) {
                self.load(name)?;
            }
            self.depth -= 1;
        }
        main.options.into_iter().for_each(|option| self.main.set(option));
        Ok(())
    }

    fn finish(mut self, name: String) -> Result<Profile, Error> {
        let mut profile = Profile {
            name,
            summary: self.main.take("summary").unwrap_or_default(),
            requests: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(at) = self.units.iter().position(|unit| unit.name == VARIABLES) {
            let variables = self.units.remove(at);
            self.define(variables.options.options, &mut profile.notes)?;
        }
        let mut taken: HashSet<(String, String)> = HashSet::new();
        for unit in std::mem::take(&mut self.units) {
            self.unit(&unit, &mut taken, &mut profile);
        }
        Ok(profile)
    }

    /// Defines variables in order. A file that cannot be read is noted; a failed assertion is an error.
    fn define(&mut self, options: Vec<ConfigOption>, notes: &mut Vec<ProfileNote>) -> Result<(), Error> {
        for option in options {
            if option.name == "include" {
                if let Err(why) = self.include_variables(option.value.trim_start_matches('/')) {
                    if why.contains("does not hold") {
                        return Err(Error::Usage(format!("{}: {why}", option.value)));
                    }
                    notes.push(note(VARIABLES, &option, why));
                }
            } else if let Err(why) = self.variables.define(&option.name, &option.value) {
                if why.contains("does not hold") {
                    return Err(Error::Usage(format!("{}: {why}", option.name)));
                }
                notes.push(note(VARIABLES, &option, why));
            }
        }
        Ok(())
    }

    /// Defines the variables of a file. Messages do not repeat its content, because it may be any file.
    fn include_variables(&mut self, path: &str) -> Result<(), String> {
        let text = match self.budget.text(self.machine, path) {
            Err(_) if !self.machine.root().at(path).exists() => return Err("there is no such file".into()),
            other => other?,
        };
        let sections = conf::parse(&format!("[{VARIABLES}]\n{text}"))
            .map_err(|_| "it is not a file of NAME=VALUE lines".to_owned())?;
        let options = sections.into_iter().flat_map(|section| section.options);
        let mut refused = 0;
        for option in options.filter(|option| option.name != "include") {
            match self.variables.define(&option.name, &option.value) {
                Err(why) if why.contains("does not hold") => return Err("an assertion in it does not hold".into()),
                defined => refused += usize::from(defined.is_err()),
            }
        }
        if refused == 0 { Ok(()) } else { Err(format!("{refused} of its lines define no variable")) }
    }

    fn unit(&self, unit: &ProfileUnit, taken: &mut HashSet<(String, String)>, profile: &mut Profile) {
        let all = |why: &str| {
            unit.options.options.iter().map(|option| note(&unit.name, option, why.into())).collect::<Vec<_>>()
        };
        match self.holds(unit) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return profile.notes.extend(all(&why)),
        }
        let rule = self.variables.expand(&unit.devices).unwrap_or_default();
        // Each device belongs to the first unit that selects it.
        let mut devices = devices::matching(self.machine, &unit.kind, &rule);
        devices.retain(|device| taken.insert((unit.kind.clone(), device.clone())));
        let scripts = unit.scripts.iter().flatten().map(|script| ConfigOption {
            name: "script".into(),
            value: script.clone(),
            comment: String::new(),
        });
        profile.notes.extend(scripts.map(|script| note(&unit.name, &script, "a script is not run".into())));
        for option in &unit.options.options {
            match self.requests(unit, &devices, option) {
                Ok(requests) => profile.requests.extend(requests),
                Err(why) => profile.notes.push(note(&unit.name, option, why)),
            }
        }
    }

    fn requests(
        &self,
        unit: &ProfileUnit,
        devices: &[String],
        option: &ConfigOption,
    ) -> Result<Vec<ChangeRequest>, String> {
        let value = self.variables.expand(&option.value)?;
        if let Some((_, rest)) = value.split_once("${") {
            let name = rest.split('}').next().unwrap_or_default();
            return Err(format!("'${{{name}}}' is not known"));
        }
        let name = self.variables.expand(&option.name)?;
        if name.chars().chain(value.chars()).any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err("it holds control characters".into());
        }
        let option = ConfigOption { name, value, comment: option.comment.clone() };
        ProfileOption { machine: self.machine, kind: &unit.kind, devices, option: &option }.requests()
    }

    /// Whether a unit applies to this machine.
    fn holds(&self, unit: &ProfileUnit) -> Result<bool, String> {
        if unit.devices_udev_regex.is_some() {
            return Err(
                "devices are selected by udev properties, which is not supported: name them with devices=".into()
            );
        }
        let root = self.machine.root();
        let uname = ["ostype", "hostname", "osrelease", "version"]
            .map(|name| root.word(&format!("proc/sys/kernel/{name}")).unwrap_or_default());
        let uname = format!("{} {}", uname.join(" "), std::env::consts::ARCH);
        let cpuinfo = root.maybe("proc/cpuinfo").unwrap_or_default();
        let mut holds = unit.enabled;
        for (pattern, text) in [(&unit.cpuinfo_regex, &cpuinfo), (&unit.uname_regex, &uname)] {
            if let Some(pattern) = pattern {
                let pattern = self.variables.expand(pattern)?;
                holds &= functions::matches(&pattern, text)
                    .ok_or_else(|| format!("the pattern '{pattern}' is not understood"))?;
            }
        }
        Ok(holds)
    }
}

fn note(unit: &str, option: &ConfigOption, why: String) -> ProfileNote {
    ProfileNote { unit: unit.to_owned(), option: option.name.clone(), value: option.value.clone(), why }
}

/// Formats a request as a line of a profile: a sysctl, or a file.
fn flat_line(request: &ChangeRequest, of_sysctl: bool) -> Option<String> {
    let (path, is_sysctl) = Catalogue::built_in().tuned_option(&request.target)?;
    let value = request.wanted.in_profile()?;
    let reason = if request.reason.is_empty() { String::new() } else { format!("# {}\n", one_line(&request.reason)) };
    (is_sysctl == of_sysctl).then(|| format!("{reason}{}={}\n", one_line(&path), one_line(&value)))
}

/// Converts text for a single line of a file that is also displayed: without control characters and those that change the text
/// direction.
fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\t' | '\r' => ' ',
        c if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
        {
            char::REPLACEMENT_CHARACTER
        }
        c => c,
    };
    text.chars().map(plain).collect()
}
