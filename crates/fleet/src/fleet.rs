//! A store over a span of time, and questions to it.

mod rows;

pub use rows::Rows;

use crate::failure::is_gone;
use crate::left_out::{LeftOut, LeftOutLog};
use crate::table::{CATALOG, FleetTables, SCHEMA, STORE_URL};
use crate::{Failure, Span, Store};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use whyslow_rollup::Hour;

/// The memory a query may take, unless another amount is asked for.
pub const MEMORY: u64 = 1 << 30;
/// What it may write to temporary files where that is not enough.
const MOST_SPILLED: u64 = 4 << 30;
/// Footers of compacted files that are kept: those of a day.
const FOOTERS: usize = 256 << 20;

/// A store over a span of time.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
    span: Span,
}

struct Shared {
    runtime: Runtime,
    environment: Arc<RuntimeEnv>,
    store: Store,
    left_out: Arc<LeftOutLog>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("store", &self.shared.store).field("span", &self.span).finish()
    }
}

impl Fleet {
    /// A store by its name: a folder, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(store: &str, span: Span) -> std::result::Result<Self, Failure> {
        Self::of(Store::open(store)?, span, MEMORY)
    }

    /// A store, and how much memory a query may take.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub fn of(store: Store, span: Span, memory: u64) -> std::result::Result<Self, Failure> {
        let environment = RuntimeEnvBuilder::new()
            .with_memory_limit(usize::try_from(memory).unwrap_or(usize::MAX), 1.0)
            .with_max_temp_directory_size(MOST_SPILLED)
            .with_metadata_cache_limit(FOOTERS)
            .build_arc()?;
        let url = ObjectStoreUrl::parse(STORE_URL)?;
        environment.register_object_store(url.as_ref(), Arc::clone(store.objects()));
        let shared = Shared { runtime: runtime()?, environment, store, left_out: Arc::default() };
        Ok(Self { shared: Arc::new(shared), span })
    }

    /// The same store over another span.
    pub fn with_span(&self, span: Span) -> Self {
        Self { shared: Arc::clone(&self.shared), span }
    }

    /// The time of its rows.
    pub fn span(&self) -> Span {
        self.span
    }

    /// All rows of the answer to a question in SQL.
    ///
    /// # Errors
    /// It is no question, or not valid; the store cannot be read.
    pub fn query(&self, sql: &str) -> std::result::Result<Rows, Failure> {
        self.query_some(sql, usize::MAX)
    }

    /// The first rows of the answer.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn query_some(&self, sql: &str, most: usize) -> std::result::Result<Rows, Failure> {
        let answer = self.shared.runtime.block_on(async {
            match self.answer(sql, most).await {
                // The compactor deletes files some time after it has replaced them: whoever lists them anew finds the others.
                Err(error) if is_gone(&error) => self.answer(sql, most).await,
                answer => answer,
            }
        });
        Ok(answer?)
    }

    async fn answer(&self, sql: &str, most: usize) -> Result<Rows> {
        let questions = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = self.context().sql_with_options(sql, questions).await?;
        let mut rows = Rows::of(frame.schema().as_arrow());
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.next().await {
            if !rows.take(&batch?, most)? {
                break;
            }
        }
        Ok(rows)
    }

    fn context(&self) -> SessionContext {
        let config = SessionConfig::new()
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA);
        let context = SessionContext::new_with_config_rt(config, Arc::clone(&self.shared.environment));
        let tables = FleetTables {
            store: self.shared.store.clone(),
            span: self.span,
            left_out: Arc::clone(&self.shared.left_out),
        };
        context.register_catalog(CATALOG, Arc::new(tables));
        context
    }

    /// The hosts that shipped anything in a span, each with the last hour of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn hosts(&self, span: Span) -> std::result::Result<BTreeMap<String, Hour>, Failure> {
        Ok(self.shared.runtime.block_on(self.shared.store.hosts("minute", span))?)
    }

    /// What queries left out so far because it is not valid.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.shared.left_out.all()
    }
}

/// Where requests to the store and queries run.
pub(crate) fn runtime() -> std::result::Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|e| Failure::usage(format!("cannot start threads: {e}")))
}
