//! The commands of whyslow as tools for agents: a server of the Model Context Protocol (<https://modelcontextprotocol.io>) over
//! standard input and output.
//!
//! Each tool runs the program itself with `--json`. An answer is therefore what that command prints, a call that the client
//! cancels ends with its process, and nothing is written between the messages on standard output. The tools can run only commands
//! that change nothing; changes are shown as plans.
//!
//! A crate of its own, although it is small: it cannot call what changes a setting, because it does not depend on it.

mod command;
mod documents;
mod server;
mod summary;

use rmcp::ServiceExt;
use server::ToolServer;
use std::io;
use std::path::PathBuf;
use whyslow_model::human;

/// Answers until the client closes standard input. Runs `program` for each call.
///
/// # Errors
/// Fails if the client does not speak the protocol, or the runtime cannot be started.
pub fn serve(program: PathBuf) -> io::Result<()> {
    // Standard input is read in a thread, and the runtime panics if none can be started.
    let started = std::thread::Builder::new().name("probe".into()).spawn(|| {});
    started.map(|thread| drop(thread.join())).map_err(|e| io::Error::new(e.kind(), human::no_thread(&e)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let service = ToolServer::new(program).serve(rmcp::transport::stdio()).await.map_err(io::Error::other)?;
        service.waiting().await.map_err(io::Error::other)
    });
    // A thread may still be waiting for input that never comes.
    runtime.shutdown_background();
    served.map(drop)
}
