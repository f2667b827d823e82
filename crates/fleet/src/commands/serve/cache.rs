//! Cache that repeats an answer for a minute: pages about the same time ask the same questions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer stays valid.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum number of cached answers, and their maximum total size in bytes.
const MOST: usize = 64;
const MOST_BYTES: usize = 64 << 20;

/// Cached answers by question.
#[derive(Debug, Default)]
pub struct AnswerCache(Mutex<HashMap<String, Arc<CachedAnswer>>>);

#[derive(Debug)]
struct CachedAnswer {
    asked: Instant,
    document: Mutex<Option<Arc<str>>>,
}

impl AnswerCache {
    /// Returns the answer to a question. While one thread computes it, other threads with the same question wait.
    /// Errors are not cached.
    ///
    /// # Errors
    /// Returns the error of the computation.
    pub fn get<E>(&self, question: &str, compute: impl FnOnce() -> Result<String, E>) -> Result<Arc<str>, E> {
        let entry = self.entry(question);
        let mut document = entry.document.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = &*document {
            return Ok(Arc::clone(document));
        }
        match compute() {
            Ok(computed) => Ok(Arc::clone(document.insert(computed.into()))),
            Err(error) => {
                self.entries().retain(|_, other| !Arc::ptr_eq(other, &entry));
                Err(error)
            }
        }
    }

    fn entry(&self, question: &str) -> Arc<CachedAnswer> {
        let mut entries = self.entries();
        entries.retain(|_, entry| entry.asked.elapsed() < FRESH);
        if !entries.contains_key(question) {
            make_room(&mut entries);
            let entry = CachedAnswer { asked: Instant::now(), document: Mutex::new(None) };
            entries.insert(question.to_owned(), Arc::new(entry));
        }
        Arc::clone(&entries[question])
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Arc<CachedAnswer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedAnswer {
    /// Returns the length in bytes, or 0 while the answer is being computed.
    fn bytes(&self) -> usize {
        self.document.try_lock().ok().and_then(|document| document.as_ref().map(|text| text.len())).unwrap_or(0)
    }
}

/// Drops the oldest answers until there is room for another one.
fn make_room(entries: &mut HashMap<String, Arc<CachedAnswer>>) {
    let bytes =
        |entries: &HashMap<String, Arc<CachedAnswer>>| entries.values().map(|entry| entry.bytes()).sum::<usize>();
    while entries.len() >= MOST || bytes(entries) > MOST_BYTES {
        let oldest = entries.iter().min_by_key(|(_, entry)| entry.asked).map(|(question, _)| question.clone());
        let Some(oldest) = oldest else { return };
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_computed_once_and_an_error_again() {
        let cache = AnswerCache::default();
        let failed: Result<Arc<str>, &str> = cache.get("a", || Err("not now"));
        assert_eq!(failed, Err("not now"));
        let first: Result<Arc<str>, &str> = cache.get("a", || Ok("1".into()));
        let again: Result<Arc<str>, &str> = cache.get("a", || Ok("2".into()));
        assert_eq!((first.as_deref(), again.as_deref()), (Ok("1"), Ok("1")));
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let cache = AnswerCache::default();
        for number in 0..200 {
            let large = "x".repeat(1 << 20);
            assert!(cache.get::<()>(&number.to_string(), || Ok(large)).is_ok());
        }
        let kept = cache.entries().len();
        assert!((MOST_BYTES >> 20).abs_diff(kept) <= 1, "{kept}");
        assert!(cache.entries().contains_key("199"));
    }
}
