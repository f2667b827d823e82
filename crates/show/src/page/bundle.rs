//! Bundles the JavaScript modules of `web/` into one script. A file that is opened from disk cannot load modules, so each becomes
//! a function that returns its exports.
//!
//! It supports only the syntax that the modules use: `import { a, b as c } from "./module.js";` and `export` in front of a
//! `function`, `async function`, `class` or `const`. Tests check the modules for that.

use std::fmt::Write;

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        &[$(Module { name: $name, text: include_str!(concat!("../../../../web/", $name, ".js")) }),*]
    };
}

/// Each module follows those that it imports.
const MODULES: &[Module<'static>] = modules![
    "dom",
    "statistics",
    "format",
    "words",
    "data",
    "view",
    "theme",
    "colors",
    "gestures",
    "legend",
    "lines",
    "heat",
    "table",
    "chart",
    "finding",
    "curves",
    "answer",
    "timeline",
    "differences",
    "overlay",
    "ranking",
    "toolbar",
    "stack",
    "flame",
    "inspect",
    "growth",
    "loader",
    "placeholder",
    "report",
    "connection",
    "served",
    "hosts",
    "live",
    "period",
    "refinement",
    "site",
    "main",
    "cells",
    "markers",
    "heatmap",
    "causes",
    "rollouts",
    "overview",
    "fleetview",
    "fleet",
    "fleetmain",
];

/// The module that starts a report, or the page of a server of one machine or of recordings.
pub(super) const MAIN: &str = "main";
/// The module that starts the page of a fleet.
pub(super) const FLEET_MAIN: &str = "fleetmain";

/// A module's name and text.
struct Module<'a> {
    name: &'a str,
    text: &'a str,
}

/// Returns the module that starts a page, after those that it needs.
pub(super) fn bundle(main: &str) -> String {
    let mut needed = vec![main];
    for module in MODULES.iter().rev() {
        if needed.contains(&module.name) {
            needed.extend(module.imported());
        }
    }
    let mut script = String::from("\"use strict\";\n");
    for module in MODULES.iter().filter(|module| needed.contains(&module.name)) {
        module.write(&mut script);
    }
    script
}

impl<'a> Module<'a> {
    /// Lists the modules that it imports from.
    fn imported(&self) -> impl Iterator<Item = &'a str> {
        // Only imports end like this.
        let from = |line: &'a str| line.strip_suffix(".js\";")?.rsplit_once("from \"./").map(|(_, name)| name);
        self.text.lines().filter_map(from)
    }

    fn write(&self, script: &mut String) {
        let mut exports = Vec::new();
        writeln!(script, "const module_{} = (() => {{", self.name).expect("a String takes all");
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("import ") {
                let mut statement = line.to_owned();
                while !statement.ends_with(';')
                    && let Some(next) = lines.next()
                {
                    statement.push_str(next);
                }
                let (names, from) = import(&statement).expect("a test reads all imports");
                writeln!(script, "const {{{}}} = module_{from};", names.replace(" as ", ": "))
                    .expect("a String takes all");
            } else if let Some(declaration) = line.strip_prefix("export ") {
                exports.push(declared(declaration).expect("a test reads all exports"));
                writeln!(script, "{declaration}").expect("a String takes all");
            } else {
                writeln!(script, "{line}").expect("a String takes all");
            }
        }
        writeln!(script, "return {{ {} }};\n}})();", exports.join(", ")).expect("a String takes all");
    }
}

/// Returns the names in an import statement, and the module.
fn import(statement: &str) -> Option<(&str, &str)> {
    let (names, from) = statement.strip_prefix("import {")?.split_once('}')?;
    Some((names, from.trim().strip_prefix("from \"./")?.strip_suffix(".js\";")?))
}

/// Returns the name that a declaration introduces.
fn declared(declaration: &str) -> Option<&str> {
    let keywords = ["async function ", "function ", "class ", "const "];
    let name = keywords.iter().find_map(|keyword| declaration.strip_prefix(keyword))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')?;
    Some(&name[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn imports(text: &str) -> Vec<(String, String)> {
        let statements = text.split(';').filter_map(|part| part.find("import {").map(|at| format!("{};", &part[at..])));
        let read = |statement: String| {
            let (names, from) = import(&statement).expect("an import this module understands");
            (names.to_owned(), from.to_owned())
        };
        statements.map(read).collect()
    }

    fn exports(text: &str) -> BTreeSet<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("export "));
        lines.map(|line| declared(line).expect("an export this module understands")).collect()
    }

    #[test]
    fn a_module_becomes_a_function_of_its_exports() {
        let mut script = String::new();
        let text = "// Why.\nimport {\n  a, b as c,\n} from \"./other.js\";\n\nexport const d = a;\nexport function e() {\n  return c;\n}\n";
        Module { name: "this", text }.write(&mut script);
        assert_eq!(
            script,
            "const module_this = (() => {\n// Why.\nconst {  a, b: c,} = module_other;\n\nconst d = a;\nfunction e() {\n  return c;\n}\nreturn { d, e };\n})();\n"
        );
    }

    #[test]
    fn names_are_declared_in_the_ways_the_modules_use() {
        let names = [
            "function a(b) {",
            "async function load() {",
            "class View extends",
            "const x_1 = 3;",
            "default a;",
            "let y",
        ]
        .map(declared);
        assert_eq!(names, [Some("a"), Some("load"), Some("View"), Some("x_1"), None, None]);
    }

    #[test]
    fn every_module_of_the_page_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = entries.filter_map(|name| name.strip_suffix(".js").map(str::to_owned)).collect();
        assert_eq!(MODULES.iter().map(|module| module.name.to_owned()).collect::<BTreeSet<_>>(), files);
    }

    #[test]
    fn modules_import_what_earlier_ones_export() {
        for (i, module) in MODULES.iter().enumerate() {
            for (names, from) in imports(module.text) {
                assert!(module.imported().any(|name| name == from), "{} imports {from}", module.name);
                let earlier = MODULES[..i].iter().find(|earlier| earlier.name == from);
                let exported = exports(earlier.unwrap_or_else(|| panic!("{} imports {from}", module.name)).text);
                for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    let name = name.split(" as ").next().unwrap_or_default();
                    assert!(exported.contains(name), "{} imports {name} from {from}", module.name);
                }
            }
        }
    }

    #[test]
    fn nothing_in_the_script_ends_its_element() {
        let script = bundle(MAIN) + &bundle(FLEET_MAIN);
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(!script.contains("innerHTML") && !script.contains("insertAdjacentHTML") && !script.contains("eval("));
        // Every import and export was translated.
        assert!(!script.lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
    }
}
