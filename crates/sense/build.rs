//! Compiles each BPF program in bpf/*.bpf.c with clang into an object in OUT_DIR.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Names under which Debian installs clang, the newest unversioned one first. `BPF_CLANG` overrides them.
const CLANGS: [&str; 5] = ["clang", "clang-19", "clang-16", "clang-15", "clang-14"];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = clang();
    for source in programs() {
        let name = source.file_stem().expect("a program has a name");
        compile(&clang, &source, &out.join(name).with_extension("bpf.o"));
    }
}

/// Lists the C files, one per concern.
fn programs() -> Vec<PathBuf> {
    let folder = fs::read_dir("bpf").unwrap_or_else(|e| fail(&format!("crates/sense/bpf: {e}")));
    let mut files: Vec<PathBuf> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    files.sort();
    files
}

/// The compiler, and the strip program of the same version.
struct Clang {
    clang: String,
    strip: String,
}

fn clang() -> Clang {
    let named = env::var("BPF_CLANG").ok();
    let candidates = named.iter().map(String::as_str).chain(CLANGS);
    let found = candidates.into_iter().find(|clang| runs(clang));
    let Some(clang) = found else {
        fail(
            "the BPF programs are compiled by clang, and there is none here.\n  On Debian: apt-get install clang-14 llvm-14",
        );
    };
    let own_strip = clang.replace("clang", "llvm-strip");
    let strips = [own_strip.as_str(), "llvm-strip", "llvm-strip-14"];
    let Some(strip) = strips.into_iter().find(|strip| runs(strip)) else {
        fail(
            "the BPF programs are stripped by llvm-strip, and there is none here.\n  On Debian: apt-get install llvm-14",
        );
    };
    Clang { clang: clang.to_owned(), strip: strip.to_owned() }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn compile(tools: &Clang, source: &Path, object: &Path) {
    let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"];
    // A program may not use all helpers and constants of kernel.h.
    let lenient = ["-Wno-unused-variable", "-Wno-unused-const-variable", "-Wno-unused-function"];
    // Reproducible, independent of the tree's location.
    let reproducible = ["-ffile-prefix-map=./=", "-fdebug-compilation-dir=."];
    let target = [OsStr::new("-c"), source.as_os_str(), OsStr::new("-o"), object.as_os_str()];
    let all = flags.into_iter().chain(lenient).chain(reproducible).map(OsStr::new).chain(target);
    run(Command::new(&tools.clang).args(all));
    // Only the type information (.BTF, .BTF.ext) in the output of -g is needed.
    run(Command::new(&tools.strip).arg("-g").arg(object));
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(e) => fail(&format!("{command:?}: {e}")),
    }
}

fn fail(why: &str) -> ! {
    for line in why.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}
