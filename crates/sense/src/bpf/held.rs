//! An object that a source loads at its first reading and keeps.

use super::object::Object;
use crate::root::Root;
use crate::source::Miss;

/// An object, or why there is none: it is tried once, for what stands in the way does not go by itself.
#[derive(Debug)]
pub(crate) struct Held {
    name: &'static str,
    bytes: &'static [u8],
    loaded: Option<Result<Object, Miss>>,
}

impl Held {
    /// The object of this name and content, not yet loaded.
    pub(crate) fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, bytes, loaded: None }
    }

    /// The object, loaded at the first call.
    ///
    /// # Errors
    /// What [`Object::load`] said then.
    pub(crate) fn get(&mut self, root: &Root) -> Result<&Object, Miss> {
        let loaded = self.loaded.get_or_insert_with(|| Object::load(self.name, self.bytes, root));
        loaded.as_ref().map_err(Clone::clone)
    }
}
