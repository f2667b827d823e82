//! Opens a store by its name.

use super::Store;
use crate::Failure;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use std::sync::Arc;

/// A compacted file of a large fleet is written in one request.
const TIMEOUT: &str = "10 minutes";

impl Store {
    /// A folder, or `s3://BUCKET/PREFIX`. Credentials, region and endpoint of a bucket come from the environment (`AWS_ACCESS_KEY_ID`,
    /// `AWS_ENDPOINT_URL` …), a web identity or the instance's metadata, never from arguments.
    ///
    /// # Errors
    /// There is no such folder; the name of the bucket or the environment is not valid.
    pub fn open(place: &str) -> Result<Self, Failure> {
        match place.split_once("://") {
            Some(("s3", rest)) => Self::bucket(rest),
            Some((scheme, _)) => {
                Err(Failure::usage(format!("'{scheme}://' is no store: give a folder or s3://BUCKET/PREFIX")))
            }
            None => Self::folder(place),
        }
    }

    fn folder(path: &str) -> Result<Self, Failure> {
        // Hours that have expired leave no empty folders.
        let folder = LocalFileSystem::new_with_prefix(path).map(|folder| folder.with_automatic_cleanup(true));
        let folder = folder.map_err(|e| match std::fs::metadata(path) {
            Ok(_) => Failure::usage(format!("cannot open the store {path}: {e}")),
            Err(error) => Failure::usage(format!("cannot open the store {path}: {error}")),
        })?;
        Ok(Self::of(Arc::new(folder)))
    }

    fn bucket(rest: &str) -> Result<Self, Failure> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let unusable = |error: &dyn std::fmt::Display| Failure::usage(format!("cannot open s3://{rest}: {error}"));
        if bucket.is_empty() {
            return Err(unusable(&"the name of the bucket is missing"));
        }
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if std::env::var_os("AWS_TIMEOUT").is_none() {
            builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT);
        }
        let bucket = builder.build().map_err(|e| unusable(&e))?;
        let prefix = Path::parse(prefix).map_err(|e| unusable(&e))?;
        Ok(if prefix.as_ref().is_empty() {
            Self::of(Arc::new(bucket))
        } else {
            Self::of(Arc::new(PrefixStore::new(bucket, prefix)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_store_is_refused() {
        let refused = |place: &str| Store::open(place).unwrap_err().to_string();
        assert!(refused("/no/such/folder").contains("/no/such/folder"));
        assert!(refused("gs://bucket").contains("'gs://' is no store"));
        assert!(refused("s3://").contains("the name of the bucket is missing"));
    }
}
