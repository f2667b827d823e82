//! `whyslow stack`: shows what requests and packets pass through on this machine, and their limits.

use crate::atomic_file::write_whole;
use crate::complete;
use crate::options::OutputOptions;
use crate::output::{self, Failure, by_ending, print};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use whyslow_command::ColorChoice;
use whyslow_documents::io_stack::{IoStack, NodeKind};
use whyslow_model::suggest::did_you_mean;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};
use whyslow_show::text::TextStyle;
use whyslow_show::{chart, json, stack, text};

/// Time that shell completion waits for a source that hangs.
const COMPLETION_PATIENCE: Duration = Duration::from_millis(200);

/// What to show.
#[derive(Debug, Args)]
pub struct StackArgs {
    /// Only what is above and below this device, mount point, interface or guest: sda, /srv, eth0, web1; a file stands for its mount
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(complete::stack_nodes))]
    names: Vec<String>,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format [default: by the extension of FILE, otherwise text]
    #[arg(long, conflicts_with = "json")]
    format: Option<StackFormat>,
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StackFormat {
    // No doc comments here: clap would show each as a paragraph of the help.
    Text,
    Svg,
    Png,
    Json,
}

/// File name extensions and their formats.
const ENDINGS: &[(&str, StackFormat)] =
    &[("txt", StackFormat::Text), ("svg", StackFormat::Svg), ("png", StackFormat::Png), ("json", StackFormat::Json)];

/// Shows the stacks.
///
/// # Errors
/// Fails if a name is unknown on this machine or a file cannot be written.
pub fn run(args: &StackArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let format = args.format(look)?;
    if args.pseudonyms.is_given() && !args.names.is_empty() {
        return Err(Failure::usage("--pseudonymise shows the whole stack: NAME is one of the names that it replaces"));
    }
    let names = args.pseudonyms.begin()?;
    let stack = live(&names);
    names.finish()?;
    let stack = part(stack, &args.names)?;
    let style = output::style(look);
    match &args.output {
        Some(path) => {
            let style = TextStyle { colour: look.display.color == ColorChoice::Always, ..style };
            write_whole(path, &drawn(&stack, format, &style)?)?;
        }
        None => print(drawn(&stack, format, &style)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl StackArgs {
    fn format(&self, look: &OutputOptions) -> Result<StackFormat, Failure> {
        let format = match (self.format, &self.output) {
            _ if look.display.json => StackFormat::Json,
            (Some(format), _) => format,
            (None, None) => StackFormat::Text,
            (None, Some(path)) => by_ending(path, ENDINGS, StackFormat::Text)?,
        };
        if format == StackFormat::Png && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Failure::usage("a picture needs a file: -o FILE"));
        }
        Ok(format)
    }
}

fn drawn(found: &IoStack, format: StackFormat, style: &TextStyle) -> Result<Vec<u8>, Failure> {
    Ok(match format {
        StackFormat::Text => text::stack(found, style).into_bytes(),
        StackFormat::Json => json::pretty(found).into_bytes(),
        StackFormat::Svg => stack::svg(found, style.all).into_bytes(),
        StackFormat::Png => chart::png(&stack::svg(found, style.all))
            .map_err(|e| Failure::usage(format!("cannot draw the picture: {e}")))?,
    })
}

/// Returns the valid names.
pub fn names() -> Vec<String> {
    let stack = io_stack(Sampler::of_stacks(Root::live()).patience(COMPLETION_PATIENCE));
    let mut names: Vec<String> = known(&stack).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the current stacks of this machine.
pub fn live(names: &PseudonymSession) -> IoStack {
    IoStack::from_window(&names.window(sampled(Sampler::of_stacks(Root::live()))))
}

/// Returns what is above and below these names; without names, the whole stack.
///
/// # Errors
/// Fails if a name is unknown on this machine.
pub fn part(stack: IoStack, names: &[String]) -> Result<IoStack, Failure> {
    if names.is_empty() {
        return Ok(stack);
    }
    let ids: Result<Vec<_>, _> = names.iter().map(|name| named(&stack, name)).collect();
    Ok(stack.around(&ids?.concat()))
}

fn io_stack(sampler: Sampler) -> IoStack {
    IoStack::from_window(&sampled(sampler))
}

fn sampled(mut sampler: Sampler) -> Window {
    Window::new(vec![sampler.sample()])
}

fn known(stack: &IoStack) -> impl Iterator<Item = String> {
    let nodes = stack.nodes.iter();
    nodes.flat_map(|node| {
        let name = match node.kind {
            NodeKind::Interface => node.id.strip_prefix("interface:").unwrap_or(&node.name).to_owned(),
            _ => node.name.clone(),
        };
        std::iter::once(name).chain(node.mount_points.iter().cloned())
    })
}

/// Returns the ids of the nodes with this name; for a file, that of the file system that contains it.
fn named<'s>(stack: &'s IoStack, name: &str) -> Result<Vec<&'s str>, Failure> {
    let found = stack.named(name);
    if !found.is_empty() {
        return Ok(found);
    }
    // A link may lead to a device, such as /dev/disk/by-id/..., or to a folder on another file system.
    let path = fs::canonicalize(name).ok().filter(|_| name.contains('/'));
    path.and_then(|path| on_path(stack, &path)).ok_or_else(|| {
        let close = did_you_mean(name, known(stack));
        Failure::usage(format!(
            "no device, mount point, interface or guest '{name}'; 'whyslow stack -v' shows them{close}"
        ))
    })
}

/// Returns the nodes named by this path, or the file system that contains it.
fn on_path<'s>(stack: &'s IoStack, path: &Path) -> Option<Vec<&'s str>> {
    let named = |path: &Path| Some(stack.named(path.to_str()?)).filter(|found| !found.is_empty());
    if let Some(found) = named(path) {
        return Some(found);
    }
    let (holder, found) = path.ancestors().skip(1).find_map(|holder| Some((holder, named(holder)?)))?;
    // Mounts without files, such as /proc, are not in the stack. In btrfs, each subvolume has its own device number.
    let number = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    let is_btrfs = || found.iter().any(|id| stack.node(id).is_some_and(|node| node.words("type") == Some("btrfs")));
    (number(path) == number(holder) || is_btrfs()).then_some(found)
}
