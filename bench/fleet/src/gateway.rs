//! An S3 server that can be killed: versitygw over a folder.

use crate::bound_program::BoundProgram;
use rand::RngExt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

/// Name of its bucket.
pub const BUCKET: &str = "metrics";
const USER: &str = "test";
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, killed when dropped.
pub struct Gateway {
    program: PathBuf,
    folder: PathBuf,
    /// Access log with a line per request.
    log: PathBuf,
    address: String,
    secret: String,
    running: Option<BoundProgram>,
}

impl Gateway {
    /// Starts versitygw with a bucket in a folder, on a free port.
    ///
    /// # Errors
    /// Fails if it does not exist or does not answer.
    pub fn start(program: &Path, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join(BUCKET))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let secret = format!("{:032x}", rand::rng().random::<u128>());
        let (program, log, folder) = (program.to_owned(), folder.with_extension("log"), folder.to_owned());
        let mut gateway = Self { program, folder, log, address, secret, running: None };
        gateway.restart()?;
        Ok(gateway)
    }

    /// Starts it again over the same files.
    ///
    /// # Errors
    /// Fails if it cannot be started or does not answer.
    pub fn restart(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.env("ROOT_ACCESS_KEY", USER).env("ROOT_SECRET_KEY", &self.secret);
        command
            .args(["--quiet", "--port", &self.address, "--access-log"])
            .arg(&self.log)
            .arg("posix")
            .arg(&self.folder);
        self.running = Some(BoundProgram::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?);
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(&self.address).is_err() {
            if Instant::now() > end {
                return Err(Failure::new(format!("{} does not answer on {}", self.program.display(), self.address)));
            }
            stop::pause(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Waits until an object below a path is uploaded, at most twenty seconds.
    ///
    /// # Errors
    /// Fails if its log cannot be read or a signal arrives.
    pub fn wait_for_upload(&self, path: &str) -> Result<()> {
        let mut log = File::open(&self.log)?;
        log.seek(SeekFrom::End(0))?;
        let (mut new, end) = (String::new(), Instant::now() + PATIENCE);
        while !new.lines().any(|line| line.contains("PutObject") && line.contains(path)) && Instant::now() < end {
            stop::pause(Duration::from_millis(5))?;
            log.read_to_string(&mut new)?;
        }
        Ok(())
    }

    /// Kills it (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Returns the environment that programs need to use it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", USER.into()),
            ("AWS_SECRET_ACCESS_KEY", self.secret.clone()),
        ]
    }
}
