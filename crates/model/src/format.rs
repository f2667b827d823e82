//! The description of a format that `whyslow read` recognizes, as `whyslow formats` prints it.

use serde::Serialize;

/// A format's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FormatInfo {
    /// The tool, or the file under /proc.
    pub name: &'static str,
    /// The supported versions and variants.
    pub versions: &'static str,
    /// What it shows on its own.
    #[serde(rename = "tells")]
    pub shows: &'static str,
    /// What it does not show.
    pub lacks: &'static str,
    /// The metrics that the columns of its tables become.
    pub metrics: Vec<String>,
}
