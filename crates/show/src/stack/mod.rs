//! Storage and network stacks as a picture; as a tree, see [`crate::text::stack`].

mod boxes;
mod svg;
pub(crate) mod words;

pub use svg::svg;
