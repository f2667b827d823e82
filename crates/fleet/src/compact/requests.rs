//! Deletes old requests to hosts and their answers ([`whyslow_rollup::RecordingRequest`]), since the parties may not be allowed to
//! delete them.

use super::Compactor;
use crate::span::DAY_MS;
use futures::stream::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use whyslow_rollup::{ANSWERS, REQUESTS, VERSION};

impl Compactor {
    /// Deletes everything older than a day, because no request is valid for longer. Returns the number of deleted
    /// objects.
    pub(super) async fn delete_requests(&self, now_ms: i64) -> object_store::Result<u64> {
        let mut old = Vec::new();
        for area in [REQUESTS, ANSWERS] {
            let mut all = self.store.objects().list(Some(&Path::from_iter([VERSION, area])));
            while let Some(file) = all.try_next().await? {
                if now_ms.saturating_sub(file.last_modified.timestamp_millis()) > DAY_MS {
                    old.push(file.location);
                }
            }
        }
        self.delete_all(old).await
    }
}
