// Findings in words, as crates/show/src/text/words.rs has them for the terminal.

import { quantity, share } from "./format.js";

const capitals = ["cpu", "oom", "irq", "nfs", "udp", "arp", "numa", "raid", "ksm", "thp"];
const spelled = {
  mem: "memory", net: "network", fs: "file system", db: "database", io: "I/O", nic: "network card", virt: "virtualization",
};
const states = ["saturated", "throttled", "blocked", "full", "slow", "misaligned", "degraded", "limited", "failing"];

const word = (part) => (capitals.includes(part) ? part.toUpperCase() : Object.hasOwn(spelled, part) ? spelled[part] : part);

export function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

// An id in words: `disk.depth_one` is 'Disk depth one'.
export function idInWords(id) {
  return capital(id.split(/[._]/).map(word).join(" "));
}

// An id that is only suspected: `net.link_saturated` is 'Network link possibly saturated'.
function suspected(id) {
  const words = id.split(/[._]/).map(word);
  const last = words.at(-1);
  if (last === "bound") words.splice(1, 0, "possibly");
  else if (states.includes(last)) words.splice(-1, 0, "possibly");
  else words.unshift("possible");
  return capital(words.join(" "));
}

// The key of a finding: `id@name`, with the task behind it.
export function keyOf({ id, subject }) {
  const { name, pid, tid, capture } = subject;
  const task = pid === undefined ? "" : tid === undefined ? `[${pid}]` : `[${pid}/${tid}]`;
  return `${id}@${name}${task}${capture === undefined ? "" : ` in ${capture}`}`;
}

export function subjectInWords({ kind, name, pid, tid, netns, capture }) {
  const parts = [`${kind} ${name}`];
  if (pid !== undefined) parts.push(`pid ${pid}`);
  if (tid !== undefined) parts.push(`thread ${tid}`);
  if (netns !== undefined) parts.push(`in network namespace ${netns}`);
  if (capture !== undefined) parts.push(`in ${capture}`);
  return parts.join(", ");
}

// Of several machines, each finding says which one it is on.
const onHost = ({ host }, text) => (host ? `${host}: ${text}` : text);

export function headline(finding) {
  const cause = finding.confidence === "low" ? suspected(finding.id) : idInWords(finding.id);
  return onHost(finding, finding.subject.kind === "host" ? cause : `${cause} (${subjectInWords(finding.subject)})`);
}

// The first sentence of a finding, which is its answer.
export function sentence(finding) {
  const said = firstSentence(finding.summary);
  return said ? onHost(finding, said) : headline(finding);
}

export function firstSentence(text) {
  const end = /\. (?=\p{Lu})/u.exec(text);
  return end ? text.slice(0, end.index + 1) : text;
}

export function waited({ id, subject }) {
  if (subject.kind === "device") return "requests waited";
  const family = id.split(".")[0];
  const what = { cpu: "a CPU", disk: "I/O", fs: "I/O", mem: "memory", net: "the network" };
  if (!Object.hasOwn(what, family)) return "at least one task was delayed";
  return `at least one task waited for ${what[family]}`;
}

// The time lost by a finding, as far as it is known.
export function timeLost(finding) {
  if (finding.impact_is === "not_measured") return "lost time not measured";
  if (finding.how_bad) return finding.how_bad;
  const { impact } = finding;
  const all = impact >= 0.995;
  const atLeast = finding.impact_is === "at_least" && !all ? "at least " : "";
  const isLittle = impact < 0.01 && atLeast === "";
  return `${waited(finding)} ${atLeast}${all ? "all" : isLittle ? "less than 1\u00a0%" : share(impact)} of the time`;
}

// How long it has lasted at the end of the window.
export function since(finding, clock) {
  if (!finding.since) return null;
  const { start, seconds, average, source } = finding.since;
  const long = quantity(Math.max(1, Math.round(seconds)), "s");
  if (start) return `since ${clock.time(Date.parse(start) / 1000)}`;
  if (average) return `also over ${long} (${average === "load" ? "load average" : `PSI avg${seconds.toFixed(0)}`})`;
  return `for at least ${long}${source ? ` (${source})` : ""}`;
}

// A culprit by name, with the number of its processes, their unit or container, and their control groups if there are several.
export function culpritInWords({ kind, name, pid, pids = [], unit, container, cgroups = [] }) {
  if (pid === undefined) return `${kind} ${name}`;
  const details = pids.length > 1 ? [] : [`pid ${pid}`];
  if (container) details.push(`container ${container}`);
  // The scope of a virtual machine only repeats its name.
  else if (unit && !unit.startsWith("machine-qemu")) details.push(`unit ${unit}`);
  if (cgroups.length > 1) details.push(`${cgroups.length} control groups`);
  const counted = pids.length > 1 ? `${name} ×${pids.length}` : name;
  return details.length > 0 ? `${counted} (${details.join(", ")})` : counted;
}

export function unattributed({ share: part, of, why, remedy }) {
  const known = part === null || part === undefined ? "" : `${share(part)} of `;
  return `${known}${of}: ${why}${remedy ? `; ${remedy}` : ""}`;
}

export function groupInWords({ kind, name, unit, container, guest }) {
  if (guest) return `guest ${guest}`;
  if (kind === "kernel") return "the kernel's threads";
  if (container) return `container ${container}`;
  if (unit) return unit;
  return name === "/" ? "processes outside of any control group" : name;
}

export function interferenceInWords({ victim, culprit, resource, on, seconds, observed }) {
  const long = quantity(seconds, "s");
  const within = quantity(Math.max(1, Math.round(observed)), "s");
  const what = { cpu: "a CPU", disk: `disk ${on ?? ""}`.trim(), network: "the network", memory: "memory" };
  const waitedFor = resource === "memory" && on && on !== "/" ? `memory of ${on}` : what[resource] ?? resource;
  return `${groupInWords(victim)} waited ${long} in ${within} for ${waitedFor} behind ${groupInWords(culprit)}`;
}

// What is expected of a number: a bound is called normal; other text explains the number.
export function normal(expected) {
  const isBound = /^(\d|below |above |under |over |near |at least |at most |about |well |far |no more |none)/.test(expected);
  return isBound ? `normal: ${expected}` : expected;
}

// What makes the answer to a finding: the first action that changes something, otherwise the first one.
export function recommended(finding) {
  return finding.actions.find((action) => action.kind !== "diagnostic") ?? finding.actions[0] ?? null;
}

// How long the change of a command of whyslow lasts, and how it is undone.
export function duration(command) {
  if (command.startsWith("whyslow try ")) {
    const isInTwoParts = command.includes(" --before ");
    const rolledBack = "A trial: rolled back unless you add --keep.";
    return isInTwoParts ? "A trial, to be ended with whyslow try --after." : rolledBack;
  }
  const set = "whyslow tune set ";
  if (!command.startsWith(set)) return null;
  const settings = command.slice(set.length).split(/\s+/);
  const until = settings.every((setting) => setting.startsWith("process.")) ? "the process ends" : "reboot";
  return `Until ${until}; undo: whyslow tune undo.`;
}

// How bad a finding is, for its colour.
export function severity({ impact, impact_is: basis, confidence }) {
  if (confidence === "low") return "suspicion";
  if (basis === "not_measured") return "event";
  return impact >= 0.5 ? "critical" : impact >= 0.2 ? "serious" : "warning";
}

const kinds = [
  ["kernel", "Kernel, firmware or boot", /^machine [^:]*: (release|boot|firmware|microcode) |^(kernel|firmware|driver) |^machine (bios|cpus?|memory|microcode|model|vendor|virtualisation)\b|^\d+ (properties|versions|drivers) /],
  ["package", "Package", /^(package|\d+ packages) /],
  ["unit", "Unit restarted", /^(unit|\d+ units) /],
  ["tuning", "Changed by whyslow", /^(tuning|\d+ tunings) /],
  ["setting", "Setting", /^(setting|queue of|machine|sysctl|limit) |^disk .+ (was (?!removed$)|(added|removed): )|^\d+ (sysctls|limits|settings) /],
  ["device", "Device or mount", /^(mount|disk|interface) /],
  ["process", "Process", /^process /],
  ["recording", "The recording itself", /^/],
];

// What kind of change an event is, and its name.
export function changeKind(what) {
  const [kind, label] = kinds.find(([, , pattern]) => pattern.test(what));
  return { kind, label };
}

// The id of a change, `kernel:release=6.8`, as events of a timeline begin: `kernel release: 6.8`.
export function changeInWords(id) {
  const [, kind, name, , value] = /^([^:]*):([^=]*)(=(.*))?$/s.exec(id) ?? [null, "", id];
  return `${kind} ${name}${value === undefined ? "" : `: ${value}`}`;
}

// A word for a shell.
export function quoted(word) {
  return /^[\w.:=+/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
