//! The JSON document: what lies on a device stands within it.

use super::Device;
use crate::json;
use crate::lines::Lines;
use crate::refusal::Refusal;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Document {
    blockdevices: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    children: Vec<Node>,
    #[serde(flatten)]
    columns: BTreeMap<String, Value>,
}

/// Takes the document that comes next.
///
/// # Errors
/// Where it is none that lsblk prints.
pub fn read(lines: &mut Lines<'_>) -> Result<Vec<Device>, Refusal> {
    let line = lines.number();
    let document: Document = json::take(lines, "the document that lsblk -J prints")?;
    let mut devices = Vec::new();
    for node in document.blockdevices {
        collect(node, None, line, &mut devices);
    }
    Ok(devices)
}

/// A device, then what lies on it. serde_json lets documents be nested 128 deep at most.
fn collect(node: Node, parent: Option<String>, line: u32, devices: &mut Vec<Device>) {
    let columns = node.columns.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), text(&value))).collect();
    let device = Device { line, parent, columns };
    let name = device.name().to_owned();
    devices.push(device);
    for child in node.children {
        collect(child, Some(name.clone()), line, devices);
    }
}

/// A value as the tree would show it: `1` for true, lists one a line.
fn text(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::Bool(yes) => u8::from(*yes).to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join("\n"),
    }
}
