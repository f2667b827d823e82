//! Address of a fleet's store: a folder, or a bucket of a store that speaks S3. Writers and readers open it by the same address,
//! and report the same errors.

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Prefix of the address of a bucket.
const S3: &str = "s3://";
/// Maximum length of an error, in bytes.
const LONGEST_ERROR: usize = 500;

/// Address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// A folder, which may be missing.
    Folder(PathBuf),
    /// A bucket.
    Bucket(BucketAddress),
}

/// `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    name: String,
    prefix: Path,
}

/// An invalid address, or a bucket that cannot be opened, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AddressError {}

impl StoreAddress {
    /// Parses a folder or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// Fails if the address is neither.
    pub fn parse(address: &str) -> Result<Self, AddressError> {
        let Some(bucket) = address.strip_prefix(S3) else {
            return if address.contains("://") {
                Err(AddressError(format!("{address}: not a folder, and not s3://BUCKET/PREFIX")))
            } else {
                Ok(Self::Folder(address.into()))
            };
        };
        let (name, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
        match Path::parse(prefix.trim_end_matches('/')) {
            Ok(prefix) if !name.is_empty() => Ok(Self::Bucket(BucketAddress { name: name.to_owned(), prefix })),
            _ => Err(AddressError(format!("{address}: not s3://BUCKET/PREFIX"))),
        }
    }
}

impl BucketAddress {
    /// Opens the objects below the prefix. `settings` come from the environment (`AmazonS3Builder::from_env`): credentials,
    /// region and endpoint are never part of an address, which other users can see.
    ///
    /// # Errors
    /// Fails if the settings are invalid.
    pub fn open(&self, settings: AmazonS3Builder) -> Result<PrefixStore<AmazonS3>, AddressError> {
        let store = settings.with_bucket_name(&self.name).build();
        let store = store.map_err(|error| AddressError(format!("{self}: {}", in_one_line(&error))))?;
        Ok(PrefixStore::new(store, self.prefix.clone()))
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{S3}{}/{}", self.name, self.prefix)
    }
}

/// Formats an error of a store with its causes, without repetitions.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source());
    let mut text = error.to_string();
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    shortened(&text)
}

/// Shortens an error to one line. A server's answer repeats the whole request and its sender; its code is enough.
fn shortened(text: &str) -> String {
    let (before, answer) = text.split_once("<?xml").unwrap_or((text, ""));
    let code = answer.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let line = format!("{before}{}", code.map_or("", |(code, _)| code));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    line[..line.floor_char_boundary(LONGEST_ERROR)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_folder_or_a_bucket() {
        assert_eq!(StoreAddress::parse("/mnt/fleet"), Ok(StoreAddress::Folder("/mnt/fleet".into())));
        for (address, written) in [("s3://bucket", "s3://bucket/"), ("s3://bucket/a/b/", "s3://bucket/a/b")] {
            let Ok(StoreAddress::Bucket(bucket)) = StoreAddress::parse(address) else { panic!("{address}") };
            assert_eq!(bucket.to_string(), written);
        }
        for wrong in ["http://example.com/x", "gs://bucket", "s3://", "s3:///x", "s3://bucket/a//b", "s3://bucket/../b"]
        {
            let error = StoreAddress::parse(wrong).unwrap_err().to_string();
            assert!(error.starts_with(wrong) && error.contains("s3://BUCKET/PREFIX"), "{error}");
        }
    }

    #[test]
    fn of_a_servers_answer_the_code_is_told() {
        let answer =
            "PUT failed: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Id>key</Id></Error>";
        assert_eq!(shortened(answer), "PUT failed: 403 Forbidden: AccessDenied");
        assert_eq!(shortened("a\n  b"), "a b");
        assert_eq!(shortened(&"é".repeat(400)).len(), 500);
    }
}
