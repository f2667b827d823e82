//! Runs the program itself.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// Maximum number of stderr lines of a command that are repeated.
const MOST_NOTES: usize = 20;

/// The answer of a command.
#[derive(Debug)]
pub struct ToolAnswer {
    /// The document printed to stdout.
    pub document: Value,
    /// The notes printed to stderr.
    pub notes: Vec<String>,
}

/// Runs a command (without words: observes) with `--json`, with `input` on its standard input. The command is terminated if the
/// client cancels the call.
///
/// # Errors
/// Returns the command's own error message, or that it was cancelled.
pub async fn run(
    program: &Path,
    command: &[&str],
    arguments: &[OsString],
    input: Option<String>,
    cancelled: &CancellationToken,
) -> Result<ToolAnswer, String> {
    let unusable = |e: std::io::Error| format!("cannot run {}: {e}", program.display());
    let child = Command::new(program)
        .args(command)
        .arg("--json")
        .args(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unusable)?;
    let ended = cancelled.run_until_cancelled(Running(child).finish(input)).await;
    let output = ended.ok_or("the call was cancelled")?.map_err(unusable)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let notes: Vec<String> = said.lines().take(MOST_NOTES).map(str::to_owned).collect();
    serde_json::from_slice(&output.stdout).map(|document| ToolAnswer { document, notes: notes.clone() }).map_err(|_| {
        let why = notes.join("\n");
        if why.is_empty() { format!("the command printed no document ({})", output.status) } else { why }
    })
}

/// A command that is terminated when its caller stops waiting. The command then removes its temporary data.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // There is no PID once it has ended and was reaped.
        if let Some(pid) = self.0.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
}

impl Running {
    /// Writes its input and waits for its end.
    async fn finish(mut self, input: Option<String>) -> std::io::Result<Output> {
        let stdin = self.0.stdin.take();
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let write = async {
            if let Some((mut stdin, input)) = stdin.zip(input) {
                // A command that refuses its input does not read all of it, and gives the reason on stderr.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ((), stdout, stderr) = tokio::join!(write, all(out), all(err));
        Ok(Output { status: self.0.wait().await?, stdout: stdout?, stderr: stderr? })
    }
}

async fn all(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes).await?;
    }
    Ok(bytes)
}
