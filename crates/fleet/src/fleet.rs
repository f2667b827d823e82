//! A store over a time span, and queries on it.

mod embedded;
mod rows;

pub use rows::QueryRows;

use crate::failure::OrFailure;
use crate::left_out::{LeftOut, LeftOutLog};
use crate::trino::Trino;
use crate::{Failure, Span, Store};
use embedded::Embedded;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use whyslow_model::human;
use whyslow_rollup::Hour;

/// Default memory limit of a query, in bytes.
pub const MEMORY: u64 = 1 << 30;

/// A store over a time span.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
    span: Span,
    left_out: Arc<LeftOutLog>,
}

struct Shared {
    runtime: Runtime,
    engine: Engine,
}

/// Engine that runs the SQL.
#[derive(Debug)]
enum Engine {
    Embedded(Embedded),
    Trino(Box<Trino>),
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("engine", &self.shared.engine).field("span", &self.span).finish()
    }
}

impl Fleet {
    /// Opens a store by its name: a folder, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// Fails if it cannot be opened.
    pub fn open(store: &str, span: Span) -> Result<Self, Failure> {
        Self::embedded(Store::open(store)?, span, MEMORY)
    }

    /// Creates a fleet on a store; `memory` limits a query, in bytes.
    ///
    /// # Errors
    /// Fails if the engine cannot be started.
    pub fn embedded(store: Store, span: Span, memory: u64) -> Result<Self, Failure> {
        let engine = Engine::Embedded(Embedded::new(store, memory).or_failure()?);
        Ok(Self::new(Shared { runtime: runtime()?, engine }, span))
    }

    /// Creates a fleet on the tables of a Trino cluster. These do not contain hours that are not compacted yet, so the
    /// span ends before them.
    ///
    /// # Errors
    /// Fails if Trino does not answer or does not have the tables.
    pub(crate) fn of_trino(trino: Trino, span: Span) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let span = runtime.block_on(trino.compacted(span))?;
        Ok(Self::new(Shared { runtime, engine: Engine::Trino(Box::new(trino)) }, span))
    }

    fn new(shared: Shared, span: Span) -> Self {
        Self { shared: Arc::new(shared), span, left_out: Arc::default() }
    }

    /// Returns the same store over another span, for the same question.
    pub fn with_span(&self, span: Span) -> Self {
        Self { shared: Arc::clone(&self.shared), span, left_out: Arc::clone(&self.left_out) }
    }

    /// Returns the same store over another span, for a new question with an empty log of left-out rows.
    pub fn for_question(&self, span: Span) -> Self {
        Self { left_out: Arc::default(), ..self.with_span(span) }
    }

    /// Returns the time span of its rows.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns all rows of the answer to an SQL query.
    ///
    /// # Errors
    /// Fails if the query is not allowed or not valid, or if the store cannot be read.
    pub fn query(&self, sql: &str) -> Result<QueryRows, Failure> {
        self.query_some(sql, usize::MAX)
    }

    /// Returns the first `most` rows of the answer.
    ///
    /// # Errors
    /// Fails as [`query`](Self::query) does.
    pub fn query_some(&self, sql: &str, most: usize) -> Result<QueryRows, Failure> {
        self.shared.runtime.block_on(async {
            match &self.shared.engine {
                Engine::Embedded(engine) => engine.answer(sql, self.span, most, &self.left_out).await,
                Engine::Trino(engine) => engine.answer(sql, self.span, most, &self.left_out).await,
            }
        })
    }

    /// Returns the hosts that shipped data in a span, each with the last hour for which it did.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn hosts(&self, span: Span) -> Result<BTreeMap<String, Hour>, Failure> {
        self.shared.runtime.block_on(async {
            match &self.shared.engine {
                Engine::Embedded(engine) => engine.hosts(span).await.or_failure(),
                Engine::Trino(engine) => engine.hosts(span, &self.left_out).await,
            }
        })
    }

    /// Returns the data that queries of this question left out so far because they are not valid or not compacted yet.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.all()
    }
}

/// Creates the runtime for store requests and queries.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    // Probe first: the runtime panics if it cannot start its threads.
    let started = std::thread::Builder::new().name("probe".into()).spawn(|| {});
    let started = started.map(|thread| drop(thread.join()));
    let runtime = started.and_then(|()| Builder::new_multi_thread().enable_all().build());
    runtime.map_err(|e| Failure::usage(human::no_thread(&e)))
}
