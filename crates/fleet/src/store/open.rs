//! Opens a store by its name.

use super::Store;
use crate::Failure;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use std::path::Path;
use std::sync::Arc;
use whyslow_rollup::{AddressError, BucketAddress, StoreAddress};

/// Timeout of a request: a compacted file of a large fleet is written in one request.
const TIMEOUT: &str = "10 minutes";

impl Store {
    /// Opens a folder, or `s3://BUCKET/PREFIX`. Credentials, region and endpoint of a bucket come from the environment
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …), a web identity or the instance's metadata, never from arguments.
    ///
    /// # Errors
    /// Fails if the folder does not exist, or if the bucket name or the environment is not valid.
    pub fn open(address: &str) -> Result<Self, Failure> {
        match StoreAddress::parse(address).map_err(unusable)? {
            StoreAddress::Folder(folder) => Self::folder(&folder),
            StoreAddress::Bucket(bucket) => Self::bucket(&bucket),
        }
    }

    fn folder(path: &Path) -> Result<Self, Failure> {
        // Expired hours must not leave empty folders.
        let folder = LocalFileSystem::new_with_prefix(path).map(|folder| folder.with_automatic_cleanup(true));
        let folder = folder.map_err(|e| match std::fs::metadata(path) {
            Ok(_) => Failure::usage(format!("cannot open the store {}: {e}", path.display())),
            Err(error) => Failure::usage(format!("cannot open the store {}: {error}", path.display())),
        })?;
        Ok(Self::from_objects(Arc::new(folder)))
    }

    fn bucket(address: &BucketAddress) -> Result<Self, Failure> {
        let mut settings = AmazonS3Builder::from_env();
        if std::env::var_os("AWS_TIMEOUT").is_none() {
            settings = settings.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT);
        }
        Ok(Self::from_objects(Arc::new(address.open(settings).map_err(unusable)?)))
    }
}

fn unusable(error: AddressError) -> Failure {
    Failure::usage(format!("cannot open the store {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_store_is_refused() {
        let refused = |place: &str| Store::open(place).unwrap_err().to_string();
        assert!(refused("/no/such/folder").contains("/no/such/folder"));
        assert!(refused("gs://bucket").contains("not a folder, and not s3://BUCKET/PREFIX"));
    }
}
