//! Reads, shows, applies and imports profiles.

use super::args::{How, ReadOptions};
use super::{NOT_ALL, Tune, failure, status};
use crate::output::{Failure, complain, print, style};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use whyslow_documents::tune::{ImportedProfile, PlanStep, ProfilePlan, Unavailable};
use whyslow_show::json;
use whyslow_show::text::tune as text;
use whyslow_tune::profile::{self, Profile};
use whyslow_tune::{Error, Plan};

/// Folder of the machine's own profiles.
const OWN: &str = "/etc/whyslow/profiles";

impl Tune<'_> {
    pub(super) fn profiles(&self) -> Result<ExitCode, Failure> {
        let list = profile::list(&self.machine);
        self.tell(&list, |style| text::profiles(&list, style))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn recommend(&self) -> Result<ExitCode, Failure> {
        // A list of one: readers of the document take its first item.
        let list = [profile::recommend(&self.machine)];
        self.tell(&list, |style| {
            let name = &list[0].profile;
            text::recommendations(&list, style)
                + &format!("what it would change: whyslow tune diff {name}; to apply it: whyslow tune apply {name}\n")
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn load(&self, names: &[String], read: &ReadOptions) -> Result<Profile, Failure> {
        Profile::load(&self.machine, names, read.allow_commands).map_err(failure)
    }

    pub(super) fn diff_profile(&self, names: &[String], read: &ReadOptions) -> Result<ExitCode, Failure> {
        let profile = self.load(names, read)?;
        self.show_plan(&profile, &profile.plan(&self.machine))?;
        Ok(ExitCode::SUCCESS)
    }

    fn show_plan(&self, profile: &Profile, plan: &Plan) -> Result<(), Failure> {
        let document = ProfilePlan { plan: plan.document(), notes: profile.notes.clone() };
        self.tell(&document, |style| text::plan(&document.plan, style) + &text::notes(&document.notes, style))
    }

    /// Verifies a profile. Ignores settings that this machine does not have; all others must have the profile's values.
    pub(super) fn verify_profile(&self, names: &[String], read: &ReadOptions) -> Result<ExitCode, Failure> {
        let profile = self.load(names, read)?;
        let plan = profile.plan(&self.machine);
        self.show_plan(&profile, &plan)?;
        let holds = |step: &PlanStep| match step {
            PlanStep::Already | PlanStep::Keep { .. } => true,
            PlanStep::Cannot(why) => matches!(why, Unavailable::Unsupported(_) | Unavailable::Absent(_)),
            PlanStep::Change { .. } => false,
        };
        Ok(status(plan.document().lines.iter().all(|line| holds(&line.step))))
    }

    pub(super) fn apply_profile(&self, names: &[String], read: &ReadOptions, how: &How) -> Result<ExitCode, Failure> {
        let profile = self.load(names, read)?;
        let plan = profile.plan(&self.machine);
        plan.possible_here().map_err(failure)?;
        if self.is_rehearsal(&plan, how) {
            self.show_plan(&profile, &plan)?;
            if plan.changes_anything() && !self.look.display.json {
                print("a reboot undoes all of it, unless 'whyslow tune persist' keeps it afterwards\n")?;
            }
            if how.dry_run {
                return Ok(ExitCode::SUCCESS);
            }
            complain("nothing was changed, because some of it is risky; re-run with --yes to apply");
            return Ok(ExitCode::from(NOT_ALL));
        }
        let mut session = self.session()?;
        let plan = profile.plan(&self.machine);
        plan.possible_here().map_err(failure)?;
        let done = self.apply(&mut session, &plan, how, None)?;
        if !self.look.display.json {
            print(text::notes(&profile.notes, &style(self.look)))?;
        }
        Ok(done)
    }

    pub(super) fn import(&self, names: &[String], save: Option<&str>, read: &ReadOptions) -> Result<ExitCode, Failure> {
        let profile = self.load(names, read)?;
        let text = profile.flat();
        if let Some(name) = save {
            keep(name, &text).map_err(failure)?;
        }
        if self.look.display.json {
            let saved = save.map(str::to_owned);
            print(json::pretty(&ImportedProfile { text, notes: profile.notes, saved }))?;
            return Ok(ExitCode::SUCCESS);
        }
        for note in &profile.notes {
            complain(&format!("left out: [{}] {}={}: {}", note.unit, note.option, note.value, note.why));
        }
        if save.is_none() {
            print(text)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Saves a profile under a new name.
fn keep(name: &str, text: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(Error::Usage(format!("'{name}' is not a valid profile name")));
    }
    let folder = Path::new(OWN).join(name);
    let file = folder.join("tuned.conf");
    let failed = |e: std::io::Error| {
        let remedy = match e.kind() {
            ErrorKind::PermissionDenied => "; run as root",
            ErrorKind::AlreadyExists => "; choose another name",
            _ => "",
        };
        Error::Usage(format!("{}: {e}{remedy}", file.display()))
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    let mut new = fs::File::create_new(&file).map_err(failed)?;
    std::io::Write::write_all(&mut new, text.as_bytes()).map_err(failed)
}
