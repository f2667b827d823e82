//! Destinations of deliveries: a folder, or a bucket of an S3-compatible store.

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{Error as StoreError, ObjectStoreExt, RetryConfig};
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use whyslow_model::human;
use whyslow_rollup::{AddressError, BucketAddress, StoreAddress, in_one_line};

/// Suffix of an incomplete file, which readers ignore.
const PART: &str = ".part";
/// Interval at which a request to the store checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit of a request: beyond it, the store does not answer or is much too slow.
const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// Reason why a delivery failed.
#[derive(Debug)]
pub struct ShipError(String);

impl ShipError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for ShipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ShipError {}

impl From<String> for ShipError {
    fn from(what: String) -> Self {
        Self(what)
    }
}

impl From<AddressError> for ShipError {
    fn from(error: AddressError) -> Self {
        Self(error.to_string())
    }
}

/// The folder or bucket that files are delivered to.
pub struct Destination {
    address: String,
    kind: Kind,
}

enum Kind {
    Folder(PathBuf),
    Bucket(Box<Bucket>),
}

struct Bucket {
    store: PrefixStore<AmazonS3>,
    runtime: Runtime,
}

impl Destination {
    /// Opens an existing folder, or `s3://BUCKET/PREFIX`. Credentials, region and endpoint of a bucket come from the environment,
    /// or from the machine's role.
    ///
    /// # Errors
    /// Fails if there is no such folder, or if the address or the settings are invalid.
    pub fn open(address: &str) -> Result<Self, ShipError> {
        Self::open_with(address, AmazonS3Builder::from_env())
    }

    /// Opens a destination with these settings for a bucket.
    pub(crate) fn open_with(address: &str, settings: AmazonS3Builder) -> Result<Self, ShipError> {
        let kind = match StoreAddress::parse(address)? {
            StoreAddress::Bucket(bucket) => Kind::Bucket(Box::new(Bucket::open(&bucket, settings)?)),
            // Creating it here would hide a missing mount.
            StoreAddress::Folder(folder) if !folder.is_dir() => {
                return Err(ShipError::new(format!(
                    "{address}: no such folder; create it, or mount what should be there"
                )));
            }
            StoreAddress::Folder(folder) => Kind::Folder(folder),
        };
        Ok(Self { address: address.to_owned(), kind })
    }

    /// Returns the address as given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Delivers a file and replaces an existing one, atomically. Raising `stop` ends an upload.
    ///
    /// # Errors
    /// Fails if the file was not delivered.
    pub fn put(&self, path: &str, bytes: Vec<u8>, stop: &AtomicBool) -> Result<(), ShipError> {
        match &self.kind {
            Kind::Folder(folder) => put_in_folder(folder, path, &bytes),
            Kind::Bucket(bucket) => bucket.put(path, bytes, stop),
        }
    }

    /// Reads the file at a path; returns `None` if there is none, or none that may be read: a bucket that forbids listing does
    /// not distinguish these. Raising `stop` ends it.
    ///
    /// # Errors
    /// Fails if the content cannot be read, is not a file, or is longer than `most` bytes.
    pub(crate) fn get(&self, path: &str, most: u64, stop: &AtomicBool) -> Result<Option<Vec<u8>>, ShipError> {
        match &self.kind {
            Kind::Folder(folder) => get_from_folder(&folder.join(path), most),
            Kind::Bucket(bucket) => bucket.get(path, most, stop),
        }
    }
}

impl Bucket {
    fn open(address: &BucketAddress, settings: AmazonS3Builder) -> Result<Self, ShipError> {
        // No retries here: the caller retries, with the newest data by then.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store = address.open(settings.with_retry(retry))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ShipError::new(format!("cannot start to upload: {error}")))?;
        Ok(Self { store, runtime })
    }

    fn put(&self, path: &str, bytes: Vec<u8>, stop: &AtomicBool) -> Result<(), ShipError> {
        let location = location(path)?;
        self.run(path, stop, async {
            self.store.put(&location, bytes.into()).await.map_err(|error| in_one_line(&error))
        })?;
        Ok(())
    }

    fn get(&self, path: &str, most: u64, stop: &AtomicBool) -> Result<Option<Vec<u8>>, ShipError> {
        let location = location(path)?;
        let download = async {
            let found = match self.store.get(&location).await {
                Err(StoreError::NotFound { .. } | StoreError::PermissionDenied { .. }) => return Ok(None),
                found => found.map_err(|error| in_one_line(&error))?,
            };
            if found.meta.size > most {
                return Err(too_long(most));
            }
            found.bytes().await.map(|bytes| Some(bytes.to_vec())).map_err(|error| in_one_line(&error))
        };
        self.run(path, stop, download)
    }

    /// Runs a request to the store. Fails if it takes too long or is stopped.
    fn run<T>(
        &self,
        path: &str,
        stop: &AtomicBool,
        request: impl Future<Output = Result<T, String>>,
    ) -> Result<T, ShipError> {
        // Names are resolved in a thread, and the runtime panics if none can be started.
        can_start_threads().map_err(|why| ShipError::new(format!("{path}: {why}")))?;
        let begun = Instant::now();
        let result = async {
            let mut request = pin!(request);
            loop {
                match tokio::time::timeout(LOOK, request.as_mut()).await {
                    Ok(result) => return result,
                    Err(_) if stop.load(Ordering::Relaxed) => return Err("interrupted".to_owned()),
                    Err(_) if begun.elapsed() > LONGEST_REQUEST => {
                        return Err(format!("no answer for {} s", LONGEST_REQUEST.as_secs()));
                    }
                    Err(_) => {}
                }
            }
        };
        self.runtime.block_on(result).map_err(|error| ShipError::new(format!("{path}: {error}")))
    }
}

fn can_start_threads() -> Result<(), String> {
    let started = std::thread::Builder::new().name("probe".into()).spawn(|| {});
    started.map(|thread| drop(thread.join())).map_err(|e| human::no_thread(&e))
}

/// Converts a path unchanged: `from` would encode its percent signs again.
fn location(path: &str) -> Result<ObjectPath, ShipError> {
    ObjectPath::parse(path).map_err(|error| ShipError::new(in_one_line(&error)))
}

fn too_long(most: u64) -> String {
    format!("longer than {most} bytes")
}

/// Reads a regular file, but not a link or pipe: opening a pipe would wait for a writer.
fn get_from_folder(path: &Path, most: u64) -> Result<Option<Vec<u8>>, ShipError> {
    let failed = |what: &dyn fmt::Display| ShipError::new(format!("cannot read {}: {what}", path.display()));
    let mut options = File::options();
    let file = match options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(&error))?,
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(failed(&"not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > most { Err(failed(&too_long(most))) } else { Ok(Some(bytes)) }
}

/// Writes a file under a temporary name and renames it once it is on the disk: readers see all of it or nothing, even after a
/// power cut.
fn put_in_folder(store: &Path, path: &str, bytes: &[u8]) -> Result<(), ShipError> {
    let target = store.join(path);
    let folder = target.parent().unwrap_or(store);
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| ShipError::new(format!("cannot write {path}: {error}"))
    };
    let is_new = !folder.is_dir();
    if is_new {
        if !store.is_dir() {
            return Err(ShipError::new(format!("{}: the folder is gone", store.display())));
        }
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    let mut part = target.clone().into_os_string();
    part.push(PART);
    let part = PathBuf::from(part);
    let written = write_through(&part, bytes).and_then(|()| fs::rename(&part, &target));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map_err(failed(&target))?;
    // A name survives a power cut only after its folder was flushed; new folders are names in their parent folders.
    let above = folder.ancestors().take_while(|above| above.starts_with(store));
    let flushed = if is_new { usize::MAX } else { 1 };
    above.take(flushed).try_for_each(|folder| sync_folder(folder).map_err(failed(folder)))
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_file_in_a_folder_is_replaced_as_a_whole() {
        let folder = whyslow_testing::folder();
        let store = Destination::open(folder.path().to_str().unwrap()).unwrap();
        for content in ["longer at first", "new"] {
            store.put("v1/incoming/t/x.parquet", content.into(), &NEVER).unwrap();
            let target = folder.path().join("v1/incoming/t");
            assert_eq!(fs::read_to_string(target.join("x.parquet")).unwrap(), content);
            assert_eq!(fs::read_dir(target).unwrap().count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn only_short_regular_files_are_read() {
        let folder = whyslow_testing::folder();
        let store = Destination::open(folder.path().to_str().unwrap()).unwrap();
        let get = |name: &str| store.get(name, 4, &NEVER).map_err(|error| error.to_string());
        fs::write(folder.path().join("four"), "four").unwrap();
        fs::write(folder.path().join("longer"), "longer").unwrap();
        std::os::unix::fs::symlink("four", folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!((get("four"), get("none")), (Ok(Some(b"four".to_vec())), Ok(None)));
        for (name, why) in [("longer", "longer than 4 bytes"), ("folder", "not a regular file"), ("link", "link")] {
            let error = get(name).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_made() {
        let folder = whyslow_testing::folder();
        let missing = folder.path().join("mount");
        let address = missing.to_str().unwrap();
        let error = Destination::open(address).map(drop).unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
        fs::create_dir(&missing).unwrap();
        let store = Destination::open(address).unwrap();
        fs::remove_dir(&missing).unwrap();
        let error = store.put("v1/x", b"x".to_vec(), &NEVER).unwrap_err().to_string();
        assert!(error.ends_with("the folder is gone"), "{error}");
        assert!(!missing.exists());
    }
}
