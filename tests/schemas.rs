//! The JSON documents keep to their schemas, `docs/schema/NAME.json`, to which fields are added and from which none is removed.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use whyslow_model::{
    baseline, bench, chart, comparison, diagnosis, expectation, explanation, io_stack, overview, profile,
};

mod recorded;

/// Every document with a number of its own, and the type that it is written from.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        (baseline::SCHEMA, schema::<baseline::Baseline>()),
        (bench::SCHEMA, schema::<bench::BenchReport>()),
        (bench::DroppedCaches::SCHEMA, schema::<bench::DroppedCaches>()),
        (comparison::SCHEMA, schema::<comparison::Comparison>()),
        (diagnosis::SCHEMA, schema::<diagnosis::Diagnosis>()),
        (expectation::SCHEMA, schema::<expectation::Expectations>()),
        (explanation::SCHEMA, schema::<explanation::Explanation>()),
        (io_stack::SCHEMA, schema::<io_stack::IoStack>()),
        (overview::SCHEMA, schema::<overview::Overview>()),
        (profile::SCHEMA, schema::<profile::StackProfile>()),
        (chart::SCHEMA, schema::<chart::PageData>()),
    ]
}

/// What the program writes, which may have fewer fields than it accepts.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    serde_json::to_value(SchemaGenerator::new(settings).into_root_schema_for::<T>()).unwrap()
}

/// What a consumer of a document may rely on at a path, such as `findings[].id`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    types: BTreeSet<String>,
    /// Whether the field is there whenever the object is that it is in.
    is_required: bool,
}

type Shapes = BTreeMap<String, Shape>;

/// A schema as a list of paths; what contains itself is followed once.
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
    for variants in ["anyOf", "oneOf", "allOf"] {
        for variant in schema[variants].as_array().into_iter().flatten() {
            add_shapes(root, variant, path, is_required, above, shapes);
        }
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

/// What a consumer of the old document would miss in the new one: paths, types, and fields that were always there.
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

/// A whole number is a number.
fn is_allowed(name: &str, types: &BTreeSet<String>) -> bool {
    types.contains(name) || types.contains("any") || (name == "integer" && types.contains("number"))
}

/// Where a document differs from the list of paths.
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// `docs/schema/diagnosis-1.json` of `whyslow.diagnosis/1`.
fn file_of(id: &str) -> PathBuf {
    let name = id.strip_prefix("whyslow.").expect("a document of whyslow").replace('/', "-");
    root().join(format!("docs/schema/{name}.json"))
}

/// Before a release a field may still be removed: delete the file, and write it anew. Afterwards that needs a new number.
#[test]
fn fields_are_added_to_documents_and_none_is_removed() {
    for (id, schema) in documents() {
        let file = file_of(id);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let kept = std::fs::read_to_string(&file).ok();
        if let Some(kept) = &kept {
            let broken = broken(&shapes(&serde_json::from_str(kept).unwrap()), &shapes(&schema));
            assert!(broken.is_empty(), "{id} breaks its consumers:\n{}", broken.join("\n"));
        }
        if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
            std::fs::write(&file, &text).unwrap();
            continue;
        }
        assert!(
            kept.as_ref() == Some(&text),
            "{}: not up to date: WHYSLOW_UPDATE_DOCS=1 cargo test --test schemas",
            file.display()
        );
    }
}

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

fn assert_valid(what: &str, json: &[u8]) {
    let document: Value = serde_json::from_slice(json).unwrap_or_else(|e| panic!("{what}: {e}"));
    let id = document["schema"].as_str().unwrap_or_else(|| panic!("{what} has no schema"));
    let schema = std::fs::read(file_of(id)).unwrap_or_else(|e| panic!("{what}: {id}: {e}"));
    let mut found = Vec::new();
    violations(&document, "", &shapes(&serde_json::from_slice(&schema).unwrap()), &mut found);
    found.dedup();
    assert!(found.is_empty(), "{what} is not as {id} says:\n{}", found.join("\n"));
}

fn written(args: &[&str]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(args).output().expect("whyslow runs");
    assert!(!out.stdout.is_empty(), "whyslow {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn diagnoses_of_captures_are_as_their_schema_says() {
    let folder = std::fs::read_dir(root().join("crates/import/tests/fixtures")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    let mut count = 0;
    // All of them take a minute.
    for file in files.iter().step_by(4) {
        let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["read", "--json"]).arg(file).output().unwrap();
        if out.status.success() {
            assert_valid(&file.display().to_string(), &out.stdout);
            count += 1;
        }
    }
    assert!(count > 30, "only {count} captures were diagnosed");
}

#[test]
fn documents_of_this_machine_are_as_their_schemas_say() {
    for args in [
        &["--json", "--for", "1s", "--no-bpf"][..],
        &["stack", "--json"],
        &["expect", "--json", "--for", "1s"],
        &["bench", "cpu", "--json", "--for", "10ms"],
    ] {
        assert_valid(&args.join(" "), &written(args));
    }
}

/// When the recording begins, seconds since 1970.
const START: i64 = 1_795_279_400;

#[test]
fn documents_of_a_recording_are_as_their_schemas_say() {
    let dir = recorded::folder();
    recorded::record(dir.path(), 121, |t| {
        let at = START + i64::try_from(t).unwrap();
        recorded::two_cpus(t, at * 1_000_000_000, t.saturating_sub(60))
    });
    let dir = dir.path().to_str().unwrap();
    for args in [
        &["explain", "--json", "--dir", dir][..],
        &["report", "--format", "json", "--dir", dir],
        &["compare", "--json", dir, dir],
    ] {
        assert_valid(&args.join(" "), &written(args));
    }
}
