//! `whyslow tune`: shows settings, changes them and rolls them back.

mod args;
mod profile;
mod transactions;
mod trial;

pub use args::TuneArgs;
pub use trial::{TryArgs, run as try_out};

use crate::interrupt::ending_signals;
use crate::options::OutputOptions;
use crate::output::{self, Failure, complain, print};
use args::{How, TuneCommand};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use whyslow_documents::tune::{HistoryEntry, Risk, SettingChange};
use whyslow_show::clock::ZonedClock;
use whyslow_show::json;
use whyslow_show::text::TextStyle;
use whyslow_show::text::tune as text;
use whyslow_tune::{ChangeRequest, ChangeTarget, Error, Machine, Plan, Session, Terms, TuneFolder};

/// Time to wait for another run.
const WAIT: Duration = Duration::from_secs(10);
/// Time until an unconfirmed change that could cut off or stall its author is rolled back.
const CONFIRM_WITHIN: Duration = Duration::from_secs(300);
/// Exit status if something was left unchanged, or differs from what was set.
const NOT_ALL: u8 = 1;

/// Runs one `whyslow tune` action.
pub fn run(args: &TuneArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let tune = Tune { machine: Machine::live(), store: TuneFolder::standard(), look };
    if !matches!(args.action, Some(TuneCommand::Guard { .. })) {
        tune.mention_unread();
    }
    let Some(action) = &args.action else { return tune.overview() };
    match action {
        TuneCommand::List { word } => tune.list(word.as_deref()),
        TuneCommand::Show { name } => tune.show(name),
        TuneCommand::Get { names } => tune.get(names),
        TuneCommand::Set { changes, how } => tune.set(changes, how),
        TuneCommand::Apply { profiles, read, how } => tune.apply_profile(profiles, read, how),
        TuneCommand::Profiles => tune.profiles(),
        TuneCommand::Recommend => tune.recommend(),
        TuneCommand::Import { profiles, save, read } => tune.import(profiles, save.as_deref(), read),
        TuneCommand::Diff { profiles, read } if !profiles.is_empty() => tune.diff_profile(profiles, read),
        TuneCommand::Diff { .. } => tune.check().map(|_| ExitCode::SUCCESS),
        TuneCommand::Verify { profiles, read } if !profiles.is_empty() => tune.verify_profile(profiles, read),
        TuneCommand::Verify { .. } => tune.check().map(status),
        TuneCommand::Undo { id, all, dry_run } => tune.undo(*id, *all, *dry_run),
        TuneCommand::History { id } => tune.history(*id),
        TuneCommand::Trials => trial::list(&tune),
        TuneCommand::Persist { id, how } => tune.persist(*id, how),
        TuneCommand::Confirm { id, dry_run } => tune.confirm(*id, *dry_run),
        TuneCommand::Recover { dry_run } => tune.recover(*dry_run),
        TuneCommand::Guard { id } => tune.guard(*id),
    }
}

fn status(all: bool) -> ExitCode {
    if all { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL) }
}

struct Tune<'a> {
    machine: Machine,
    store: TuneFolder,
    look: &'a OutputOptions,
}

impl Tune<'_> {
    /// Prints a document as JSON or as text.
    fn tell<T: Serialize>(&self, document: &T, drawn: impl FnOnce(&TextStyle) -> String) -> Result<(), Failure> {
        output::tell(document, self.look, |_, style| drawn(style))
    }

    fn list(&self, word: Option<&str>) -> Result<ExitCode, Failure> {
        self.mention_unfinished();
        let list = whyslow_tune::tunables(&self.machine, word);
        if list.is_empty() {
            return Err(Failure::nothing(format!("no tunable mentions '{}'", word.unwrap_or_default())));
        }
        self.tell(&list, |style| text::tunables(&list, style))?;
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, name: &str) -> Result<ExitCode, Failure> {
        let entry = whyslow_tune::tunable(&self.machine, &target(name)?).map_err(failure)?;
        self.tell(&entry, |style| text::tunable(&entry, style))?;
        Ok(ExitCode::SUCCESS)
    }

    fn get(&self, names: &[String]) -> Result<ExitCode, Failure> {
        let read = |name: &str| whyslow_tune::get(&self.machine, &target(name)?).map_err(failure);
        let read = names.iter().map(|name| Ok((name.as_str(), read(name)?)));
        let values: Vec<(&str, String)> = read.collect::<Result<_, Failure>>()?;
        if self.look.display.json {
            let object: std::collections::BTreeMap<_, _> = values.into_iter().collect();
            print(json::pretty(&object))?;
        } else {
            let lines = values.iter().map(|(name, value)| match names {
                [_] => format!("{}\n", whyslow_show::escape::terminal(value)),
                _ => format!("{}={}\n", whyslow_show::escape::terminal(name), whyslow_show::escape::terminal(value)),
            });
            print(lines.collect::<String>())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn set(&self, changes: &[String], how: &How) -> Result<ExitCode, Failure> {
        let requests: Vec<ChangeRequest> = changes
            .iter()
            .map(|change| whyslow_tune::parse_change(change))
            .collect::<Result<_, _>>()
            .map_err(failure)?;
        let why = how.why.clone().unwrap_or_else(|| format!("set {}", changes.join(" ")));
        let plan = Plan::new(&self.machine, &why, &requests);
        plan.all_possible().map_err(failure)?;
        if self.is_rehearsal(&plan, how) {
            return self.rehearse(&plan, how);
        }
        let mut session = self.session()?;
        // Plan again, now that no other run can change settings.
        let plan = Plan::new(&self.machine, &why, &requests);
        plan.all_possible().map_err(failure)?;
        self.apply(&mut session, &plan, how, None)
    }

    /// Returns whether to only show what would be done: with --dry-run, and for risky changes without --yes.
    fn is_rehearsal(&self, plan: &Plan, how: &How) -> bool {
        how.dry_run || (plan.risk() > Risk::Low && !how.yes)
    }

    fn rehearse(&self, plan: &Plan, how: &How) -> Result<ExitCode, Failure> {
        let document = plan.document();
        let files: String = document.files.iter().map(|file| format!("would write {file}\n")).collect();
        self.tell(&document, |style| text::plan(&document, style) + &files)?;
        if how.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        complain("nothing was changed, because it is risky; re-run with --yes to apply");
        Ok(ExitCode::from(NOT_ALL))
    }

    fn apply(&self, session: &mut Session, plan: &Plan, how: &How, persists: Option<u64>) -> Result<ExitCode, Failure> {
        let document = plan.document();
        if !plan.changes_anything() {
            self.tell(&document, |style| text::plan(&document, style))?;
            return Ok(ExitCode::SUCCESS);
        }
        let within =
            how.confirm_within.or_else(|| (plan.needs_confirmation() && !how.no_confirm).then_some(CONFIRM_WITHIN));
        let stop = stop_on_signals()?;
        let terms = Terms {
            confirm: within.map(|within| (within, &whyslow_tune::start_guard as whyslow_tune::Guard)),
            persists,
            stop: Some(&stop),
            ..Terms::default()
        };
        let entry = session.apply(plan, &terms).map_err(failure)?;
        let files: String = document.files.iter().map(|file| format!("wrote {file}\n")).collect();
        self.tell(&entry, |style| text::plan(&document, style) + &files + &self.made(&entry))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the next steps after a change.
    fn made(&self, entry: &HistoryEntry) -> String {
        let id = entry.transaction.id;
        let rounded: String = entry.transaction.changes.iter().enumerate().filter_map(rounded(entry)).collect();
        rounded
            + &match &entry.transaction.confirm {
                Some(confirm) => {
                    let by = ZonedClock::local().moment(&confirm.by);
                    format!("change {id}: rolled back at {by} unless confirmed with 'whyslow tune confirm'\n")
                }
                None => format!("change {id}: 'whyslow tune undo {id}' rolls it back\n"),
            }
            + &match entry.transaction.persists {
                Some(_) => String::new(),
                None => format!("a reboot undoes it; 'whyslow tune persist {id}' keeps it\n"),
            }
    }

    fn check(&self) -> Result<bool, Failure> {
        let lines = whyslow_tune::check(&self.machine, &whyslow_tune::history(&self.store).map_err(failure)?);
        self.tell(&lines, |style| text::checks(&lines, style))?;
        Ok(lines.iter().all(|line| line.holds))
    }

    /// Shows which of whyslow's changes are in effect, and the next steps.
    fn overview(&self) -> Result<ExitCode, Failure> {
        self.mention_unfinished();
        let history = whyslow_tune::history(&self.store).map_err(failure)?;
        let lines = whyslow_tune::check(&self.machine, &history);
        let waiting = !whyslow_tune::awaiting_confirmation(&history, None).is_empty();
        let last = lines.iter().filter_map(|line| line.id).max();
        let mut next: Vec<(String, &str)> = Vec::new();
        if let Some(last) = last {
            if waiting {
                next.push(("whyslow tune confirm".into(), "confirm it, or it is rolled back"));
            }
            next.push((format!("whyslow tune undo {last}"), "undo the last change; --all undoes all of them"));
            next.push((format!("whyslow tune persist {last}"), "make it survive a reboot"));
            next.push(("whyslow tune history".into(), "what was changed, by whom and why"));
        } else {
            next.push(("whyslow tune recommend".into(), "which profile fits this machine"));
            next.push(("whyslow tune list WORD".into(), "settings with their current values"));
            next.push(("whyslow try --auto".into(), "try what the diagnosis recommends; keep what helps"));
        }
        next.push(("whyslow tune --help".into(), "everything else"));
        let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        let next: String = next.iter().map(|(command, what)| format!("  {command:width$}  {what}\n")).collect();
        self.tell(&lines, |style| text::checks(&lines, style) + "\n" + &next)?;
        Ok(ExitCode::SUCCESS)
    }

    fn history(&self, id: Option<u64>) -> Result<ExitCode, Failure> {
        self.mention_unfinished();
        let mut history = whyslow_tune::history(&self.store).map_err(failure)?;
        if let Some(id) = id {
            history.retain(|entry| entry.transaction.id == id);
            if history.is_empty() {
                return Err(no_change(id));
            }
        }
        self.tell(&history, |style| text::history(&history, style))?;
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self) -> Result<Session, Failure> {
        Session::open(&self.machine, &self.store, &whyslow_tune::who(), Some(WAIT)).map_err(failure)
    }

    /// Opens a session that may change settings. Reports what it rolled back from an unfinished earlier one.
    fn session(&self) -> Result<Session, Failure> {
        let session = self.open()?;
        for (reason, undoing) in session.recovered() {
            complain(&format!("rolled back ({}): {}", reason.words(), undoing.target));
        }
        Ok(session)
    }

    /// Reports lines of the journal that cannot be read: this version does not undo their changes.
    fn mention_unread(&self) {
        // If the journal itself cannot be read, the code that needs it reports that.
        let lines = whyslow_tune::unread(&self.store).unwrap_or_default();
        let Some(first) = lines.first() else { return };
        let what = match (&first.kind, first.id) {
            (Some(kind), Some(id)) => format!("a record '{kind}' of change {id}, which this version does not know"),
            (Some(kind), None) => format!("a record '{kind}', which this version does not know"),
            (None, _) => "no record".to_owned(),
        };
        let more = if lines.len() > 1 { format!(", and {} more like it", lines.len() - 1) } else { String::new() };
        complain(&format!(
            "the journal {}: line {} is {what}{more}; it is kept but ignored",
            self.store.folder().join("journal.jsonl").display(),
            first.line
        ));
    }

    /// Mentions changes that await a rollback, with the command for it.
    fn mention_unfinished(&self) {
        if whyslow_tune::unfinished(&self.machine, &self.store).is_ok_and(|left| !left.is_empty()) {
            complain("a change was left unfinished or unconfirmed; 'whyslow tune recover' rolls it back");
        }
    }
}

/// Returns a line for a change for which the kernel set another value than requested.
fn rounded(entry: &HistoryEntry) -> impl FnMut((usize, &SettingChange)) -> Option<String> {
    |(at, change)| {
        let held = entry.held_value(at).filter(|held| *held != change.intended)?;
        let [target, held, asked] = [&change.target, held, &change.intended].map(whyslow_show::escape::terminal);
        Some(format!("{target}: the kernel set {held} (requested: {asked})\n"))
    }
}

fn no_change(id: u64) -> Failure {
    Failure::usage(format!("there is no change {id}; 'whyslow tune history' lists them"))
}

fn target(name: &str) -> Result<ChangeTarget, Failure> {
    name.parse().map_err(Failure::usage)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::RolledBack { .. } => Failure::nothing(error.to_string()),
        Error::Interrupted => Failure::interrupted(error.to_string()),
        other => Failure::usage(other.to_string()),
    }
}

/// Returns a flag that is set by the signals that end a program, so that changes are rolled back first.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::usage(format!("cannot listen for signals: {e}")))?;
    }
    Ok(stop)
}
