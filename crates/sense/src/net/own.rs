//! Sockets that the kernel is asked by.

use crate::source::Miss;
use whyslow_model::value::Name;

/// A socket of the observer's own namespace, which stays open from sample to sample: to open and close one costs more than to
/// ask by it. In another namespace it would keep that alive, so there it is opened anew each time.
pub(crate) struct Own<S>(Option<S>);

impl<S> Default for Own<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<S> Own<S> {
    /// Has `ask` use a socket of the thread's namespace, which is called `namespace`. One with which something went wrong is
    /// not kept.
    ///
    /// # Errors
    /// Those of `open` and `ask`.
    pub fn with<R>(
        &mut self,
        namespace: &Name,
        open: impl FnOnce() -> Result<S, Miss>,
        ask: impl FnOnce(&mut S) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        let kept = if namespace.is_empty() { self.0.take() } else { None };
        let mut socket = kept.map_or_else(open, Ok)?;
        let answer = ask(&mut socket)?;
        if namespace.is_empty() {
            self.0 = Some(socket);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_the_own_one_is_kept_and_only_while_it_answers() {
        let opened = Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            Ok(opened.get())
        };
        let mut own = Own::default();
        let mut socket = |namespace: &str, fails: bool| {
            let refusal = Miss::Failed("refused".into());
            own.with(&namespace.into(), open, |socket| if fails { Err(refusal) } else { Ok(*socket) })
        };
        assert_eq!(socket("", false), Ok(1));
        assert_eq!(socket("", false), Ok(1));
        assert_eq!(socket("other", false), Ok(2));
        assert_eq!(socket("other", false), Ok(3));
        assert!(socket("", true).is_err());
        assert_eq!(socket("", false), Ok(4));
    }
}
