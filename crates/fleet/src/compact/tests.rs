//! Tests with a compactor that dies at each of its writes and deletions in turn.

use super::*;
use crate::fleet::{MEMORY, runtime};
use crate::validity::tests::{HOUR, minute};
use crate::{Fleet, Span};
use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutPayload,
    PutResult, Result as StoreResult,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use whyslow_rollup::{Row, parquet, table};

/// A store that accepts a limited number of writes and deletions, as from a process that was then killed.
#[derive(Clone, Debug)]
struct MortalStore {
    objects: Arc<InMemory>,
    left: Arc<AtomicI64>,
}

impl fmt::Display for MortalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store in memory")
    }
}

fn spend(left: &AtomicI64) -> StoreResult<()> {
    if left.fetch_sub(1, Ordering::Relaxed) > 0 {
        return Ok(());
    }
    Err(object_store::Error::Generic { store: "test", source: "the compactor was killed".into() })
}

#[async_trait]
impl ObjectStore for MortalStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        spend(&self.left)?;
        self.objects.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        unimplemented!("compacted files are written in one step")
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.objects.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        let left = Arc::clone(&self.left);
        let paths = paths.map(move |path| path.and_then(|path| spend(&left).map(|()| path)));
        self.objects.delete_stream(paths.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> StoreResult<()> {
        unimplemented!("nothing is copied")
    }
}

/// Ships the first minutes of an hour from a host, marked complete or not.
async fn ship(objects: &InMemory, host: &str, minutes: i64, complete: bool) {
    let rows: Vec<Row> = (0..minutes).map(|at| minute(host, at * 60_000, minutes as f64)).collect();
    let bytes = parquet(table("minute").unwrap(), &rows, &[("whyslow.complete", complete.to_string())]).unwrap();
    let path = Path::parse(Place::incoming("minute", HOUR, host).unwrap().path()).unwrap();
    objects.put(&path, bytes.into()).await.unwrap();
}

fn rows(store: Store) -> Vec<Vec<whyslow_rollup::Cell>> {
    let span = Span { from_ms: HOUR.start(), to_ms: HOUR.end() };
    let fleet = Fleet::embedded(store, span, MEMORY).unwrap();
    fleet.query("SELECT host, at, lost_s FROM minute ORDER BY host, at").unwrap().rows
}

#[test]
fn wherever_a_compactor_ends_no_row_is_lost_or_doubled() {
    let runtime = runtime().unwrap();
    // Soon after the hour: incomplete files may still be rewritten.
    let now_ms = HOUR.end() + SETTLE_MS;
    let compact = |store: Store| {
        let compactor = Compactor::new(store, None, Duration::ZERO);
        // The in-memory store uses the current time.
        let passes = async {
            let mut failed = 0;
            for now_ms in [now_ms, now_ms, now_ms + 100 * 365 * DAY_MS] {
                failed += compactor.pass(now_ms, &AtomicBool::new(false)).await.map_or(1, |report| report.failed.len());
            }
            failed
        };
        runtime.block_on(passes)
    };
    for writes in 0.. {
        let objects = Arc::new(InMemory::new());
        let mortal = MortalStore { objects: Arc::clone(&objects), left: Arc::new(AtomicI64::new(writes)) };
        let whole = Store::from_objects(Arc::clone(&objects) as Arc<dyn ObjectStore>);
        runtime.block_on(async {
            ship(&objects, "db", 2, true).await;
            ship(&objects, "web", 3, false).await;
            ship(&objects, "app", 1, true).await;
        });
        let first = rows(whole.clone());
        assert_eq!(first.len(), 6);
        let failed = compact(Store::from_objects(Arc::new(mortal.clone())));
        assert_eq!(rows(whole.clone()), first, "after {writes} writes");
        // A host that had not finished writes more, and another compactor continues.
        runtime.block_on(ship(&objects, "web", 5, true));
        let second = rows(whole.clone());
        assert_eq!(second.len(), 8, "after {writes} writes");
        assert_eq!(compact(whole.clone()), 0);
        assert_eq!(rows(whole), second, "after {writes} writes");
        if failed == 0 {
            // One write for the hour, and the deletion of its three source files.
            assert_eq!(writes, 4);
            break;
        }
    }
}
