//! Asks a host about a span of its own recording through the store: the host opens no port, but looks in the store for
//! requests signed with a known key.

use super::HostArgs;
use super::raw::{question, shown};
use crate::failure::{OrFailure, complain};
use crate::fleet::runtime;
use crate::{DisplayOptions, Failure, Span, Store};
use jiff::Timestamp;
use object_store::path::Path as ObjectPath;
use object_store::{Error as StoreError, ObjectStoreExt};
use signal_hook::consts::SIGINT;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_command::print;
use whyslow_rollup::{LONGEST_ANSWER, RecordingAnswer, RecordingRequest, SigningKey, answer_path, request_path};
use whyslow_store::unpack;

/// Intervals for polling for the answer, and for reporting that there is none yet.
const LOOK: Duration = Duration::from_secs(2);
const SAY: Duration = Duration::from_secs(30);

/// Sends the request, waits for the answer, and explains or saves it.
pub(super) fn run(args: &HostArgs, span: Span, key: &Path, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let question = question(span, args.export.as_deref())?;
    let key = signing_key(key)?;
    if let Some(folder) = &args.save {
        make_empty(folder)?;
    }
    let valid_ms = i64::try_from(args.wait.as_millis()).unwrap_or(i64::MAX);
    let asked_ms = Timestamp::now().as_millisecond();
    let request = RecordingRequest::new(&args.host, (span.from_ms, span.to_ms), asked_ms, valid_ms).map_err(usage)?;
    let extract = runtime()?.block_on(ask(&args.store.store.open()?, &request, &key, args.wait))?;
    match &args.save {
        Some(folder) => {
            unpack(&extract, folder).map_err(usage)?;
            print(format!("{}\n", shown(&command(&question, folder))))?;
            Ok(ExitCode::SUCCESS)
        }
        None => explain(&extract, &question, options.json),
    }
}

fn usage(error: impl Display) -> Failure {
    Failure::usage(error.to_string())
}

/// Reads the private key; refuses a key that others can read.
fn signing_key(path: &Path) -> Result<SigningKey, Failure> {
    let failed = |what: &dyn Display| Failure::usage(format!("{}: {what}", path.display()));
    if fs::metadata(path).map_err(|e| failed(&e))?.mode() & 0o077 != 0 {
        return Err(failed(&"others may read this private key: chmod 600"));
    }
    SigningKey::parse(&fs::read(path).map_err(|e| failed(&e))?).map_err(|e| failed(&e))
}

fn make_empty(folder: &Path) -> Result<(), Failure> {
    let failed = |what: &dyn Display| Failure::usage(format!("{}: {what}", folder.display()));
    fs::create_dir_all(folder).map_err(|e| failed(&e))?;
    let is_empty = fs::read_dir(folder).map_err(|e| failed(&e))?.next().is_none();
    if is_empty { Ok(()) } else { Err(failed(&"the folder is not empty")) }
}

/// Sends the request and returns the host's answer. Then deletes the answer if the store allows it; otherwise the
/// compactor deletes it.
async fn ask(store: &Store, request: &RecordingRequest, key: &SigningKey, wait: Duration) -> Result<Vec<u8>, Failure> {
    let host = &request.host;
    let place = |path: Result<String, _>| ObjectPath::parse(path.map_err(usage)?).map_err(usage);
    let (asked, answered) = (place(request_path(host, &key.public))?, place(answer_path(request))?);
    store.objects().put(&asked, request.signed(key).into()).await.map_err(|error| {
        Failure::usage(format!(
            "cannot ask {host}, which takes the right to write {asked}: {}",
            whyslow_rollup::in_one_line(&error)
        ))
    })?;
    complain(&format!("asked {host}, which looks once a minute if it was started with --raw-key"));
    let file = answer(store, &answered, wait).await?.ok_or_else(|| {
        Failure::nothing(format!(
            "{host} has not answered: its 'whyslow ship' does not run, has no --raw-key with this key or no right to read {asked}, \
             or a later request with this key has taken its place"
        ))
    })?;
    let _ = store.objects().delete(&answered).await;
    match RecordingAnswer::parse(&file, request).map_err(|error| Failure::usage(format!("{answered}: {error}")))? {
        RecordingAnswer::Extract(extract) => Ok(extract),
        RecordingAnswer::Refused(why) => Err(Failure::nothing(format!("{host} answers: {why}"))),
    }
}

/// Waits for an object at a path. Returns `None` if there is none after `wait`.
async fn answer(store: &Store, path: &ObjectPath, wait: Duration) -> Result<Option<Vec<u8>>, Failure> {
    let begun = Instant::now();
    let mut said = SAY;
    loop {
        match store.objects().get(path).await {
            Ok(found) if found.meta.size > LONGEST_ANSWER => {
                return Err(Failure::usage(format!("{path}: longer than any answer")));
            }
            Ok(found) => return Ok(Some(found.bytes().await.or_failure()?.to_vec())),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error).or_failure(),
        }
        if begun.elapsed() >= wait {
            return Ok(None);
        }
        if begun.elapsed() >= said {
            complain(&format!("no answer for {} s", begun.elapsed().as_secs()));
            said += SAY;
        }
        tokio::time::sleep(LOOK.min(wait)).await;
    }
}

/// Returns the command that asks the question about the recording in a folder.
fn command(question: &[String], folder: &Path) -> Vec<String> {
    let program = ["whyslow".to_owned()].into_iter();
    program.chain(question.iter().cloned()).chain(["--dir".to_owned(), folder.display().to_string()]).collect()
}

/// Runs the question on the recording that the host sent.
fn explain(extract: &[u8], question: &[String], json: bool) -> Result<ExitCode, Failure> {
    // Ctrl-C ends the child process; this process then removes the folder.
    signal_hook::flag::register(SIGINT, Arc::default()).map_err(usage)?;
    let folder = tempfile::Builder::new().prefix("whyslow-fleet-").tempdir().map_err(usage)?;
    unpack(extract, folder.path()).map_err(usage)?;
    let words = command(question, folder.path());
    let status = Command::new(whyslow()).args(&words[1..]).args(json.then_some("--json")).stdin(Stdio::null()).status();
    let status = status.map_err(|e| {
        Failure::usage(format!("cannot run whyslow, which explains it: {e}; --save DIR keeps it for another machine"))
    })?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the `whyslow` program beside this one, or else its name for a lookup in `PATH`.
fn whyslow() -> OsString {
    let beside = std::env::current_exe().map(|own| own.with_file_name("whyslow")).ok().filter(|path| path.exists());
    beside.map_or_else(|| "whyslow".into(), PathBuf::into_os_string)
}
