// The verdict, the first finding with its one change, and all that supports them.

import { curves } from "./curves.js";
import { element } from "./dom.js";
import { action, command, details, evidenceTable, facts, folded, item, rest } from "./finding.js";
import { digits, quantity, share } from "./format.js";
import { idInWords, interferenceInWords, recommended, sentence, severity, subjectInWords } from "./words.js";

const notCaptured = "not covered by any capture";
const labels = { bottleneck: "Bottleneck", healthy: "Healthy", undetermined: "Undetermined" };

// `finding` is the answer, or null if there is none; `lead` says what it is the answer of.
export function answer({ diagnosis, finding, lead, clock, links }) {
  const verdict = finding ? "bottleneck" : diagnosis.verdict;
  const said = finding ? [rest(finding), facts(finding, diagnosis, clock)] : cleared(diagnosis);
  // The next capture is the better diagnostic.
  const isWanted = finding && !(diagnosis.next_capture && recommended(finding)?.kind === "diagnostic");
  const next = [isWanted ? action(finding, "h3", diagnosis.window.source) : null, nextCapture(diagnosis)];
  return [
    element("div", { className: `answer ${finding ? severity(finding) : verdict}` },
      element("p", { className: "verdict" }, labels[verdict] ?? verdict, lead ? element("span", {}, lead) : null),
      element("h2", { id: "answer-heading" }, finding ? sentence(finding) : verdictInWords(diagnosis)),
      element("div", { className: "said" }, said), element("div", { className: "next" }, next)),
    comparisons(diagnosis),
    element("div", { className: "folds" }, finding ? details(finding, links, true) : null, ruledOut(diagnosis), notCleared(diagnosis),
      outsideTheirRange(diagnosis), ...ledgers(diagnosis), ...flows(diagnosis),
      blindSpots(diagnosis), interference(diagnosis), virtualDisks(diagnosis), curves(diagnosis), figures(diagnosis, links)),
    others(diagnosis, finding, clock, links),
    overhead(diagnosis),
  ];
}

const isResource = ({ id }) => !id.includes(".");

function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

// The resources in which nothing was found.
function covered(diagnosis) {
  const names = { cpu: "the CPUs", disk: "the disks", memory: "memory" };
  const found = diagnosis.ruled_out.filter(isResource).map(({ id }) => names[id] ?? `the ${id}`);
  return listed([...new Set(found)].sort());
}

export function verdictInWords(diagnosis) {
  const { verdict, window, findings } = diagnosis;
  const missing = diagnosis.blind_spots.filter((spot) => spot.why === notCaptured).map((spot) => spot.what).join(", ");
  const unknown = missing ? ` Unknown, because not captured: ${missing}.` : "";
  const isCapture = window.source === "import";
  const clear = covered(diagnosis);
  if (verdict === "healthy") {
    if (!isCapture) return "No resource is saturated or failing.";
    return clear ? `No problem in ${clear}.${unknown}` : `No problem was found.${unknown}`;
  }
  const standsOut = diagnosis.not_cleared?.[0]?.because;
  if (isCapture && findings.length === 0 && clear) {
    return `${standsOut ? `${standsOut}. ` : ""}No known problem in ${clear}.${unknown}`;
  }
  if (standsOut) return `${findings.length === 0 ? "No cause was found" : "No cause is certain"}, but ${standsOut}.`;
  if (findings.length > 0) return "No cause is certain.";
  if (diagnosis.stands_out?.length) return "No cause is known of what stands out.";
  if (diagnosis.main_figures?.length) return "Nothing stands out in what was captured.";
  return "Too little was visible to say what is slow.";
}

// The resources that are not to blame.
function cleared(diagnosis) {
  const resources = diagnosis.ruled_out.filter(isResource);
  if (resources.length === 0) return null;
  return element("div", {}, element("h3", {}, "Ruled out"), element("dl", { className: "facts" },
    resources.map(({ id, because }) => [element("dt", {}, idInWords(id)), element("dd", {}, because)])));
}

function nextCapture({ next_capture: next }) {
  if (!next) return null;
  const outcomes = next.outcomes.map(({ if: condition, then }) => element("li", {}, `If ${condition}: ${then}`));
  return element("div", { className: "action" }, element("h3", {}, "To decide, on the captured host"), command(next.command),
    element("ul", {}, outcomes, element("li", {}, `Otherwise: ${next.otherwise}`)));
}

function comparisons({ comparisons: all = [] }) {
  if (all.length === 0) return null;
  return element("section", {}, element("h3", {}, "Compared"), all.map(({ a, b, conclusions }) => [
    element("h4", {}, a === b ? a : `${a} → ${b}`),
    element("ul", {}, conclusions.map((conclusion) => element("li", {}, conclusion))),
  ]));
}

const definitions = (entries) => element("dl", { className: "reasons" }, entries.map(([term, what]) => [
  element("dt", {}, term), element("dd", {}, what),
]));

function ruledOut({ ruled_out: all }) {
  if (all.length === 0) return null;
  // A whole resource says more than a single cause.
  const ordered = [...all.filter(isResource), ...all.filter((entry) => !isResource(entry))];
  return folded(`Ruled out (${all.length})`, definitions(ordered.map(({ id, because }) => [idInWords(id), because])));
}

function notCleared({ not_cleared: all = [] }) {
  if (all.length === 0) return null;
  return folded(`Stands out, without a known cause (${all.length})`,
    definitions(all.map(({ id, because }) => [idInWords(id), because])));
}

function outsideTheirRange({ stands_out: all = [] }) {
  if (all.length === 0) return null;
  const sentence = ({ meaning, number }) =>
    `${meaning}: ${quantity(number.value, number.unit)}; normal: ${number.expected} (${number.how})`;
  return folded(`Numbers outside their normal range (${all.length})`,
    definitions(all.map((one) => [subjectInWords(one.subject), sentence(one)])));
}

function ledgers({ memory, ledgers: others = [] }) {
  const ofMemory = memory && { whole: "memory", unit: "bytes", total: memory.total, subject: { kind: "host" },
    holders: memory.holders.map(({ bytes, ...one }) => ({ ...one, amount: bytes })) };
  return [ofMemory, ...others].filter(Boolean).map(ledger);
}

function ledger({ whole, unit, total, subject, holders }) {
  const part = ({ amount, share: part, how }) => `${quantity(amount, unit)}, ${share(part)} (${how})`;
  const of = subject.kind === "host" ? whole : `${whole} ${subject.name}`;
  const amount = `the ${quantity(total, unit)} of ${of}`;
  return folded(unit === "s" ? `Where ${amount} went` : `Who holds ${amount}`,
    definitions(holders.map((one) => [one.holder, part(one)])));
}

function flows({ flows: all = [] }) {
  const carries = ({ amount, of_above: ratio, how }, unit) =>
    `${quantity(amount, unit)}${ratio === null ? "" : `, ${digits(ratio)} times the layer above`} (${how})`;
  return all.map(({ flow, unit, layers }) => folded(`How much of the ${flow} each layer carries`,
    definitions(layers.map((one) => [one.layer, carries(one, unit)]))));
}

function blindSpots({ blind_spots: all }) {
  if (all.length === 0) return null;
  return folded(`Not seen (${all.length})`,
    definitions(all.map(({ what, why, remedy }) => [what, remedy ? `${why} → ${remedy}` : why])));
}

function interference({ interference: all = [] }) {
  if (all.length === 0) return null;
  return folded(`Interference (${all.length})`, element("ul", {}, all.map((pair) => element("li", {}, interferenceInWords(pair),
    element("span", { className: "note" },
      ` (${share(pair.share)} of its waiting, ${share(pair.loss)} of its time; confidence ${pair.confidence}; ${pair.how})`)))));
}

// Of captures of virtual machines and of their host.
function virtualDisks({ virtual_disks: all = [] }) {
  if (all.length === 0) return null;
  return folded(`Virtual disks (${all.length})`, element("ul", {}, all.map((disk) => element("li", {},
    `${placed(disk.disk)} is ${disk.name} of guest ${disk.guest} (${disk.known_by}), on ${placed(disk.device)}`,
    element("span", { className: "note" }, virtualDiskFigures(disk))))));
}

const placed = ({ name, capture }) => (capture ? `${name} in ${capture}` : name);

function virtualDiskFigures({ requests, device_requests: all, wait, device_wait: below }) {
  const made = requests === null || !all ? null : `${share(requests / all)} of its ${quantity(all, "1/s")}`;
  const took = wait === null || below === null ? null : `a request takes ${quantity(wait, "s")}, ${quantity(below, "s")} of them on the host`;
  const known = [made, took].filter((words) => words !== null);
  return known.length > 0 ? ` (${known.join("; ")})` : "";
}

function figures({ figures: all = [] }, links) {
  if (all.length === 0) return null;
  return folded(`Measurements (${all.length})`, all.map(({ subject, values }) => [
    element("h4", {}, subjectInWords(subject)), evidenceTable(values, subject, links, `Measurements of ${subjectInWords(subject)}`),
  ]));
}

function others({ findings, ...diagnosis }, first, clock, links) {
  const left = findings.filter((finding) => finding !== first);
  if (left.length === 0) return null;
  // Causes first, in the order of the document.
  const ordered = [...left.filter((one) => !one.explained_by), ...left.filter((one) => one.explained_by)];
  return element("section", { attributes: { "aria-labelledby": "others-heading" } },
    element("h3", { id: "others-heading" }, first ? `Also found (${left.length})` : `Found (${left.length})`),
    element("ul", { className: "findings" }, ordered.map((finding) => item(finding, diagnosis, clock, links))));
}

function overhead({ window, cost, cpu_explained: explained, closer_looks: looks = [] }) {
  // Reading captures has no overhead on the machine, and not everything says what it was.
  if (window.source === "import" || cost.cpu_seconds === 0) return null;
  const traced = looks.map(({ source, tells, seconds }) =>
    `${source.startsWith("bpf/") ? "Traced" : "Watched"} ${seconds > 0 ? `for ${quantity(seconds, "s")}` : "once"}: ${tells} (${source}).`);
  const attributed = explained === null || explained === undefined ? []
    : [`${share(explained)} of the CPU time used is attributed to processes.`];
  const spent = `Overhead: ${quantity(cost.cpu_seconds, "s")} CPU time (${quantity(cost.cpu_share, "ratio")} of the machine), ${
    quantity(cost.memory_bytes, "bytes")}.`;
  return element("p", { className: "note" }, [...traced, ...attributed, spent].join(" "));
}
