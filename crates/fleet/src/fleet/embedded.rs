//! Embedded DataFusion engine, which reads the files of the store itself.

use super::QueryRows;
use crate::failure::{OrFailure, is_gone};
use crate::left_out::LeftOutLog;
use crate::table::{CATALOG, FleetTables, SCHEMA, STORE_URL};
use crate::{Failure, Span, Store};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use whyslow_rollup::Hour;

/// Maximum number of bytes that a query may write to temporary files when it runs out of memory.
const MOST_SPILLED: u64 = 4 << 30;
/// Cache size for the footers of compacted files: enough for a day.
const FOOTERS: usize = 256 << 20;

#[derive(Debug)]
pub(super) struct Embedded {
    environment: Arc<RuntimeEnv>,
    store: Store,
}

impl Embedded {
    pub(super) fn new(store: Store, memory: u64) -> Result<Self> {
        let environment = RuntimeEnvBuilder::new()
            .with_memory_limit(usize::try_from(memory).unwrap_or(usize::MAX), 1.0)
            .with_max_temp_directory_size(MOST_SPILLED)
            .with_metadata_cache_limit(FOOTERS)
            .build_arc()?;
        let url = ObjectStoreUrl::parse(STORE_URL)?;
        environment.register_object_store(url.as_ref(), Arc::clone(store.objects()));
        Ok(Self { environment, store })
    }

    pub(super) async fn answer(
        &self,
        sql: &str,
        span: Span,
        most: usize,
        left_out: &Arc<LeftOutLog>,
    ) -> std::result::Result<QueryRows, Failure> {
        let answer = match self.try_answer(sql, span, most, left_out).await {
            // The compactor deletes files some time after it has replaced them: a new listing finds the replacements.
            Err(error) if is_gone(&error) => self.try_answer(sql, span, most, left_out).await,
            answer => answer,
        };
        answer.or_failure()
    }

    async fn try_answer(&self, sql: &str, span: Span, most: usize, left_out: &Arc<LeftOutLog>) -> Result<QueryRows> {
        let questions = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = self.context(span, left_out).sql_with_options(sql, questions).await?;
        let mut rows = QueryRows::with_schema(frame.schema().as_arrow());
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.next().await {
            if !rows.take(&batch?, most)? {
                break;
            }
        }
        Ok(rows)
    }

    fn context(&self, span: Span, left_out: &Arc<LeftOutLog>) -> SessionContext {
        let config = SessionConfig::new()
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA);
        let context = SessionContext::new_with_config_rt(config, Arc::clone(&self.environment));
        let tables = FleetTables { store: self.store.clone(), span, left_out: Arc::clone(left_out) };
        context.register_catalog(CATALOG, Arc::new(tables));
        context
    }

    pub(super) async fn hosts(&self, span: Span) -> Result<BTreeMap<String, Hour>> {
        self.store.hosts("minute", span).await
    }
}
