//! Checks JSON documents against their schemas, `docs/schema/NAME.json`. Fields may be added to a schema, but not removed.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the schema of what the program writes, which may have fewer fields than it accepts.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    serde_json::to_value(SchemaGenerator::new(settings).into_root_schema_for::<T>()).unwrap()
}

/// Guarantees of a schema to consumers at a path, such as `findings[].id`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    types: BTreeSet<String>,
    /// True if the field is present whenever its object is.
    is_required: bool,
}

type Shapes = BTreeMap<String, Shape>;

/// Flattens a schema to a list of paths. Follows a recursive reference once.
fn shapes(schema: &Value) -> Shapes {
    let mut shapes = Shapes::new();
    add_shapes(schema, schema, "", true, &mut Vec::new(), &mut shapes);
    shapes
}

fn add_shapes<'a>(
    root: &'a Value,
    schema: &'a Value,
    path: &str,
    is_required: bool,
    above: &mut Vec<&'a str>,
    shapes: &mut Shapes,
) {
    let shape = shapes.entry(path.to_owned()).or_insert_with(|| Shape { is_required, ..Shape::default() });
    shape.is_required &= is_required;
    if schema == &Value::Bool(true) || schema.as_object().is_some_and(|schema| schema.is_empty()) {
        shape.types.insert("any".to_owned());
        return;
    }
    match &schema["type"] {
        Value::String(name) => drop(shape.types.insert(name.clone())),
        Value::Array(names) => shape.types.extend(names.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => {}
    }
    if let Some(value) = schema.get("const") {
        shape.types.insert(type_of(value).to_owned());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let recursion = above.iter().filter(|known| **known == reference).count();
        if recursion < 2 {
            let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).expect("a definition");
            above.push(reference);
            add_shapes(root, target, path, is_required, above, shapes);
            above.pop();
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        add_shapes(root, part, path, is_required, above, shapes);
    }
    for variants in ["anyOf", "oneOf"] {
        let each = schema[variants].as_array().into_iter().flatten().map(|variant| {
            let mut shapes = Shapes::new();
            add_shapes(root, variant, path, is_required, above, &mut shapes);
            shapes
        });
        add_variants(&each.collect::<Vec<_>>(), shapes);
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        add_shapes(root, field, &format!("{path}.{name}"), required.contains(&name.as_str()), above, shapes);
    }
    let mut below = |part: &'a Value, suffix: &str| {
        if !part.is_null() && part != &Value::Bool(false) {
            add_shapes(root, part, &format!("{path}{suffix}"), false, above, shapes);
        }
    };
    below(&schema["items"], "[]");
    below(&schema["additionalProperties"], ".*");
    for item in schema["prefixItems"].as_array().into_iter().flatten() {
        below(item, "[]");
    }
}

/// Adds the fields of all variants. A field is required only if it is in every variant that has its object.
fn add_variants(each: &[Shapes], shapes: &mut Shapes) {
    for (path, variant) in each.iter().flatten() {
        let object = path.rsplit_once('.').map(|(object, _)| object);
        let has_object = |variant: &&Shapes| {
            object.is_some_and(|object| variant.get(object).is_some_and(|shape| shape.types.contains("object")))
        };
        let is_everywhere =
            each.iter().filter(has_object).all(|variant| variant.get(path).is_some_and(|shape| shape.is_required));
        let is_required = variant.is_required && is_everywhere;
        let shape = shapes.entry(path.clone()).or_insert_with(|| Shape { is_required, ..Shape::default() });
        shape.is_required &= is_required;
        shape.types.extend(variant.types.iter().cloned());
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Lists what a consumer of the old document would miss in the new one: paths, types, and required fields.
fn broken(old: &Shapes, new: &Shapes) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, before) in old {
        let Some(now) = new.get(path) else {
            broken.push(format!("{path} is gone"));
            continue;
        };
        let added: Vec<&String> = now.types.iter().filter(|name| !is_allowed(name, &before.types)).collect();
        if !added.is_empty() {
            broken.push(format!("{path} may be {added:?}, which it never was"));
        }
        if before.is_required && !now.is_required {
            broken.push(format!("{path} was always there and may be missing"));
        }
    }
    broken
}

/// Returns true if the type is allowed. An integer is also a number.
fn is_allowed(name: &str, types: &BTreeSet<String>) -> bool {
    types.contains(name) || types.contains("any") || (name == "integer" && types.contains("number"))
}

/// Finds where a document differs from the list of paths.
fn violations(value: &Value, path: &str, shapes: &Shapes, found: &mut Vec<String>) {
    let Some(shape) = shapes.get(path) else {
        found.push(format!("{path} is not in the schema"));
        return;
    };
    if shape.types.contains("any") {
        return;
    }
    if !is_allowed(type_of(value), &shape.types) {
        found.push(format!("{path} is {}, not {:?}", type_of(value), shape.types));
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| violations(item, &format!("{path}[]"), shapes, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                let named = format!("{path}.{name}");
                let path = if shapes.contains_key(&named) { named } else { format!("{path}.*") };
                violations(field, &path, shapes, found);
            }
            let is_missing = |(below, shape): &(&String, &Shape)| {
                let name = below.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'));
                shape.is_required && name.is_some_and(|name| !name.contains(['.', '[']) && !fields.contains_key(name))
            };
            found.extend(shapes.iter().filter(is_missing).map(|(path, _)| format!("{path} is missing")));
        }
        _ => {}
    }
}

/// Returns the file name in `docs/schema`: `diagnosis-1.json` for `whyslow.diagnosis/1`, `fleet/sick-1.json` for
/// `whyslow.fleet.sick/1`.
pub fn file_name(id: &str) -> String {
    let name = id.strip_prefix("whyslow.").expect("a document of whyslow").replace('/', "-").replace('.', "/");
    format!("{name}.json")
}

fn file_of(id: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(file_name(id))
}

/// Compares the schema of a document with the stored one. With WHYSLOW_UPDATE_DOCS, writes it.
///
/// Before a release, a field may still be removed: delete the file and write it again. After the release, that needs a new schema
/// number.
pub fn assert_kept(id: &str, schema: &Value) {
    let file = file_of(id);
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    let kept = std::fs::read_to_string(&file).ok();
    if let Some(kept) = &kept {
        let broken = broken(&shapes(&serde_json::from_str(kept).unwrap()), &shapes(schema));
        assert!(broken.is_empty(), "{id} breaks its consumers:\n{}", broken.join("\n"));
    }
    if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
        std::fs::write(&file, &text).unwrap();
        return;
    }
    assert!(
        kept.as_ref() == Some(&text),
        "{}: not up to date: run the test with WHYSLOW_UPDATE_DOCS=1",
        file.display()
    );
}

/// Checks a document against the schema that it names.
pub fn assert_valid(what: &str, json: &[u8]) {
    let document: Value = serde_json::from_slice(json).unwrap_or_else(|e| panic!("{what}: {e}"));
    let id = document["schema"].as_str().unwrap_or_else(|| panic!("{what} has no schema"));
    assert_value(id, what, &document);
}

/// Checks a document that does not name its schema against this one.
pub fn assert_valid_as(id: &str, what: &str, json: &[u8]) {
    let document: Value = serde_json::from_slice(json).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_value(id, what, &document);
}

fn assert_value(id: &str, what: &str, document: &Value) {
    let schema = std::fs::read(file_of(id)).unwrap_or_else(|e| panic!("{what}: {id}: {e}"));
    let mut found = Vec::new();
    violations(document, "", &shapes(&serde_json::from_slice(&schema).unwrap()), &mut found);
    found.dedup();
    assert!(found.is_empty(), "{what} is not as {id} says:\n{}", found.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_vanishes_or_changes_its_type_is_noticed() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is of interest")]
        struct Before {
            name: String,
            size: u64,
            parts: Vec<Part>,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is of interest")]
        struct Part {
            share: f64,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is of interest")]
        struct After {
            name: Option<String>,
            size: u64,
            parts: Vec<OtherPart>,
            more: bool,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is of interest")]
        struct OtherPart {
            ratio: f64,
        }
        let (before, after) = (shapes(&schema::<Before>()), shapes(&schema::<After>()));
        assert_eq!(broken(&before, &before), <[&str; 0]>::default());
        let expected = [".name may be [\"null\"], which it never was", ".parts[].share is gone"];
        assert_eq!(broken(&before, &after), expected);
        let mut found = Vec::new();
        violations(&serde_json::json!({ "name": 1, "parts": [{ "share": 1 }], "x": 1 }), "", &before, &mut found);
        found.sort();
        assert_eq!(found, [".* is not in the schema", ".name is integer, not {\"string\"}", ".size is missing"]);
    }

    #[test]
    fn a_field_of_one_variant_is_not_always_there() {
        #[derive(JsonSchema)]
        #[schemars(tag = "what", rename_all = "snake_case")]
        #[allow(dead_code, reason = "only its schema is of interest")]
        enum Event {
            Change { name: String },
            Gap { seconds: f64 },
        }
        let shapes = shapes(&schema::<Vec<Event>>());
        let required = |path: &str| shapes[path].is_required;
        assert_eq!([".what", ".name", ".seconds"].map(|field| required(&format!("[]{field}"))), [true, false, false]);
        let mut found = Vec::new();
        violations(&serde_json::json!([{ "what": "gap", "seconds": 1.5 }, { "what": "gap" }]), "", &shapes, &mut found);
        assert!(found.is_empty(), "{found:?}");
        violations(&serde_json::json!([{ "seconds": 1.5 }]), "", &shapes, &mut found);
        assert_eq!(found, ["[].what is missing"]);
    }
}
