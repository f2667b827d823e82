//! `whyslow mcp`: provides the program's commands as tools for agents.

use crate::output::Failure;
use std::process::ExitCode;

/// Serves on standard input and output until the client closes them.
///
/// # Errors
/// Fails if the client does not speak the protocol.
pub fn run() -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::usage(format!("cannot find this program: {e}")))?;
    whyslow_mcp::serve(program).map_err(|e| Failure::usage(format!("MCP on standard input: {e}")))?;
    Ok(ExitCode::SUCCESS)
}
