//! A format of other tools' output as it is described to people: what `whyslow formats` lists.

use serde::Serialize;

/// A format's description. Reading it is the business of the room `import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FormatInfo {
    /// The tool, or the file under /proc.
    pub name: &'static str,
    /// The versions and variants that are read.
    pub versions: &'static str,
    /// What can be concluded from it alone.
    pub tells: &'static str,
}
