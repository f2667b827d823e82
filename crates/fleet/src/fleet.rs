//! A store over a span of time, and questions to it.

mod embedded;
mod rows;

pub use rows::Rows;

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

/// The memory a query may take, unless another amount is asked for.
pub const MEMORY: u64 = 1 << 30;

/// A store over a span of time.
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

/// What runs the SQL.
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
    /// A store by its name: a folder, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(store: &str, span: Span) -> Result<Self, Failure> {
        Self::of(Store::open(store)?, span, MEMORY)
    }

    /// A store, and how much memory a query may take.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub fn of(store: Store, span: Span, memory: u64) -> Result<Self, Failure> {
        let engine = Engine::Embedded(Embedded::new(store, memory)?);
        Ok(Self::new(Shared { runtime: runtime()?, engine }, span))
    }

    /// The tables of a Trino cluster. Hours that are not compacted yet are not in them: the span ends before these.
    ///
    /// # Errors
    /// Trino does not answer, or has no such tables.
    pub(crate) fn of_trino(trino: Trino, span: Span) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let span = runtime.block_on(trino.compacted(span))?;
        Ok(Self::new(Shared { runtime, engine: Engine::Trino(Box::new(trino)) }, span))
    }

    fn new(shared: Shared, span: Span) -> Self {
        Self { shared: Arc::new(shared), span, left_out: Arc::default() }
    }

    /// The same store over another span, for the same question.
    pub fn with_span(&self, span: Span) -> Self {
        Self { shared: Arc::clone(&self.shared), span, left_out: Arc::clone(&self.left_out) }
    }

    /// The same store over another span, for another question: nothing was left out yet.
    pub fn for_question(&self, span: Span) -> Self {
        Self { left_out: Arc::default(), ..self.with_span(span) }
    }

    /// The time of its rows.
    pub fn span(&self) -> Span {
        self.span
    }

    /// All rows of the answer to a question in SQL.
    ///
    /// # Errors
    /// It is no question, or not valid; the store cannot be read.
    pub fn query(&self, sql: &str) -> Result<Rows, Failure> {
        self.query_some(sql, usize::MAX)
    }

    /// The first rows of the answer.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn query_some(&self, sql: &str, most: usize) -> Result<Rows, Failure> {
        self.shared.runtime.block_on(async {
            match &self.shared.engine {
                Engine::Embedded(engine) => engine.answer(sql, self.span, most, &self.left_out).await,
                Engine::Trino(engine) => engine.answer(sql, self.span, most, &self.left_out).await,
            }
        })
    }

    /// The hosts that shipped anything in a span, each with the last hour of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn hosts(&self, span: Span) -> Result<BTreeMap<String, Hour>, Failure> {
        self.shared.runtime.block_on(async {
            match &self.shared.engine {
                Engine::Embedded(engine) => Ok(engine.hosts(span).await?),
                Engine::Trino(engine) => engine.hosts(span, &self.left_out).await,
            }
        })
    }

    /// What queries of this question left out so far because it is not valid, or not compacted yet.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.all()
    }
}

/// Where requests to the store and queries run.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    // The runtime panics if it cannot start its threads.
    let started = std::thread::Builder::new().name("probe".into()).spawn(|| {});
    let started = started.map(|thread| drop(thread.join()));
    let runtime = started.and_then(|()| Builder::new_multi_thread().enable_all().build());
    runtime.map_err(|e| Failure::usage(human::no_thread(&e)))
}
