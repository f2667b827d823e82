// The storage and network stack as a diagram: a box for each node, in the columns of the document, and lines to what each lies on.
// Boxes are ordinary elements, so that the browser lays them out and screen readers read them; the lines are drawn behind them.

import { element, fill, oncePerFrame, svg } from "./dom.js";
import { quantity, share } from "./format.js";
import { capital } from "./words.js";

// Facts that a box shows, by their values alone; the others unfold.
const brief = ["made by", "type", "level", "transport", "medium", "size", "model", "scheduler", "cache", "driver", "addresses", "file"];
// How many of those that are alike are named.
const mostNames = 4;
// In a column of more boxes, those that nothing is to be said about are one line that unfolds.
const mostBoxes = 8;

const inWords = (id) => id.replaceAll("_", " ");
const nameOf = (node) => (node.netns === undefined ? node.name : `${node.name} in ${node.netns}`);

// The diagram of a document of `whyslow stack`. Nodes that have a `load` show how busy they were.
export class StackDiagram {
  constructor() {
    this.element = element("div", { className: "stack" });
    this.boxes = new Map();
    this.redraw = oncePerFrame(() => this.#drawLines());
    new ResizeObserver(this.redraw).observe(this.element);
    this.element.addEventListener("toggle", this.redraw, true);
  }

  show(stack) {
    const nodes = new Map(stack.nodes.map((node) => [node.id, node]));
    const anchors = new Map(stack.nodes.map((node, i) => [node.id, `stack-node-${i + 1}`]));
    const unfolded = new Set([...this.boxes].filter(([, box]) => box.querySelector("details")?.open).map(([id]) => id));
    this.stack = stack;
    this.boxes.clear();
    const above = new Map();
    for (const node of stack.nodes) for (const { id } of node.below ?? []) above.set(id, [...(above.get(id) ?? []), node]);
    const box = (id, isMany) => {
      const made = nodeBox(nodes.get(id), { stack, nodes, anchors, above: above.get(id) ?? [], isOpen: unfolded.has(id), isMany });
      this.boxes.set(id, made);
      return made;
    };
    const groups = (stack.diagram ?? []).map(({ stack: kind, columns }) => {
      const lines = svg("svg", { class: "stack-lines", "aria-hidden": "true" });
      const made = element("div", { className: "stack-group" },
        columns.map((ids) => element("ul", { className: "stack-column" },
          ids.filter((id) => nodes.has(id)).map((id) => box(id, ids.length > mostBoxes)))));
      made.prepend(lines);
      return { kind, columns, made, lines };
    });
    this.groups = groups;
    const part = (kind, title) => {
      const own = groups.filter((group) => group.kind === kind);
      return own.length === 0 ? null : [element("h3", {}, title), element("div", { className: "scroller", tabIndex: 0,
        attributes: { role: "group", "aria-label": `Diagram: ${title}` } }, own.map(({ made }) => made))];
    };
    fill(this.element, part("storage", "Storage"), part("network", "Network"), notes(stack));
    this.redraw();
  }

  // Lines from the right edge of each box to the left edge of what it lies on.
  #drawLines() {
    const nodes = new Map(this.stack?.nodes.map((node) => [node.id, node]));
    for (const { columns, made, lines } of this.groups ?? []) {
      const frame = made.getBoundingClientRect();
      if (frame.width === 0) continue;
      const paths = [];
      for (const id of columns.flat()) {
        for (const below of nodes.get(id)?.below ?? []) {
          const [upper, lower] = [id, below.id].map((one) => this.boxes.get(one)?.getBoundingClientRect());
          if (!upper || !lower) continue;
          const [from, to] = [upper.right - frame.left, lower.left - frame.left];
          const [y, end] = [upper, lower].map((one) => one.top + one.height / 2 - frame.top);
          const bend = Math.min(28, (to - from) / 2);
          const isHot = this.boxes.get(id).classList.contains("hot") && this.boxes.get(below.id).classList.contains("hot");
          paths.push(svg("path", { class: isHot ? "hot" : "", d: `M${from} ${y}C${from + bend} ${y} ${to - bend} ${end} ${to} ${end}` }));
        }
      }
      lines.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
      lines.replaceChildren(...paths);
    }
  }
}

function nodeBox(node, { stack, nodes, anchors, above, isOpen, isMany }) {
  const facts = node.facts.filter(({ name }) => brief.includes(name)).sort((a, b) => brief.indexOf(a.name) - brief.indexOf(b.name));
  const alike = stack.paths.filter(({ like }) => like === node.id).map(({ top }) => nodes.get(top)).filter((other) => other && !other.minor);
  const below = (node.below ?? []).filter(({ id }) => nodes.has(id));
  const tone = node.load ? toneOf(node.load) : null;
  const problems = node.problems ?? [];
  const isShort = isMany && tone === null && problems.length === 0 && alike.length === 0;
  const details = [
    facts.length === 0 ? null : element("p", { className: "note" }, facts.map((fact) => factInWords(node, fact)).join(", ")),
    limits(node),
    problems.map((problem) => element("p", { className: "problem" }, problem)),
    alike.length === 0 ? null : element("p", { className: "note" }, `${alike.length} more like it: ${names(alike.map(nameOf))}`),
    load(node, above),
    isShort ? null : settings(node, isOpen),
    // Lines show it, but not what each is for.
    below.length === 0 ? null : element("p", { className: below.some(({ role }) => role !== undefined) ? "note" : "unseen" },
      `Lies on ${names(below.map(({ id, role }) => (role === undefined ? nodes.get(id).name : `${nodes.get(id).name} (${role})`)))}`),
  ];
  const name = [element("strong", {}, node.name), node.netns === undefined ? null : ` in ${node.netns}`];
  const kind = inWords(node.kind);
  const content = isShort
    ? element("details", { open: isOpen }, element("summary", {}, name, element("span", {}, loadInShort(node) ?? kind)), details)
    : [element("p", { className: "stack-name" }, name, element("span", {}, kind)), details];
  return element("li", { className: ["stack-node", isShort ? "short" : "", tone ? `hot ${tone}` : ""].filter(Boolean).join(" "), id: anchors.get(node.id) }, content);
}

// How busy a node is and how long its requests take.
function loadInShort({ load: now }) {
  const words = [isNumber(now?.busy) ? `busy ${share(now.busy)}` : null, isNumber(now?.latency) ? `${quantity(now.latency, "s")} each` : null].filter(Boolean);
  return words.length === 0 ? null : words.join(", ");
}

// Some names, and how many more there are.
function names(all) {
  const more = all.length - mostNames;
  // Instead of '1 more', the name.
  return more <= 1 ? all.join(", ") : `${all.slice(0, mostNames).join(", ")} and ${more} more`;
}

function factInWords(node, { value, unit }) {
  if (typeof value !== "number") return value;
  return node.kind === "interface" && unit === "bytes" ? `${value} B` : quantity(value, unit);
}

const limitInWords = ({ kind, value, unit }) => (kind === "packet_size" ? `${value} B` : quantity(value, unit));

// A line for each kind of limit; the smallest on the way is marked.
function limits({ limits: all = [] }) {
  const byKind = new Map();
  for (const limit of all) byKind.set(limit.kind, [...(byKind.get(limit.kind) ?? []), limit]);
  return [...byKind].map(([kind, own]) => element("p", { className: "limit" }, `${inWords(kind)} `, own.map((limit, i) => {
    const text = limitInWords(limit);
    const isSmallest = (limit.smallest_for ?? []).length > 0;
    return [i > 0 ? ", " : "", isSmallest ? element("mark", { title: "The smallest limit of its kind on the way down" }, `${text}*`) : text];
  })));
}

// Every setting, folded.
function settings(node, isOpen) {
  const entries = [
    ...(node.mount_points ?? []).map((point) => ["also on", point]),
    ...node.facts.map((fact) => [fact.name, factInWords(node, fact)]),
    ...(node.limits ?? []).map((limit) => [limit.setting, `${inWords(limit.kind)} ${limitInWords(limit)}${limit.how ? `: ${limit.how}` : ""}`]),
    ...(node.interrupts ?? []).map(({ line, name, cpus }) => [`interrupt ${line}`, [name, cpus === undefined ? null : `on CPU ${cpus}`].filter(Boolean).join(" ")]),
  ];
  if (entries.length === 0) return null;
  return element("details", { open: isOpen }, element("summary", {}, "Settings", element("span", { className: "unseen" }, ` of ${node.name}`)),
    element("dl", { className: "facts" }, entries.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// Bytes per second: of a device in both directions, of an interface, which has its speed in each, in the fuller one; null if unknown.
function flow({ kind, load }) {
  const known = [load?.read, load?.write].filter(isNumber);
  if (known.length === 0) return null;
  return kind === "interface" ? Math.max(...known) : known.reduce((sum, one) => sum + one, 0);
}

// How bad it is: by the share of time in which somebody waited, not by how busy it is.
export function toneOf({ waiting }) {
  if (!isNumber(waiting) || waiting < 0.05) return null;
  return waiting >= 0.5 ? "critical" : waiting >= 0.2 ? "serious" : "warning";
}

// The parts of a device's load that come through each of what lies on it, and the whole they are parts of: its ceiling, in bytes or
// in requests, whichever it is nearer to; where none is known, what it did.
export function partsOf(node, above) {
  const measures = [
    { of: flow, ceiling: node.load.ceiling, isBytes: true },
    { of: ({ load }) => (isNumber(load?.requests) ? load.requests : null), ceiling: node.load.request_ceiling, isBytes: false },
  ].map((measure) => ({ ...measure, sum: measure.of(node) })).filter(({ sum }) => sum > 0);
  const limited = measures.filter(({ ceiling }) => isNumber(ceiling) && ceiling > 0);
  const nearest = limited.sort((a, b) => b.sum / b.ceiling - a.sum / a.ceiling)[0];
  const chosen = nearest ?? measures.find(({ isBytes }) => isBytes);
  if (!chosen) return null;
  const parts = above.map((upper) => ({ node: upper, amount: chosen.of(upper) })).filter(({ amount }) => amount > 0);
  // A single part says nothing that the whole does not.
  if (parts.length === 0 || (parts.length === 1 && !nearest)) return null;
  const sum = parts.reduce((all, { amount }) => all + amount, 0);
  parts.sort((a, b) => b.amount - a.amount);
  return { parts, sum, whole: Math.max(nearest?.ceiling ?? 0, chosen.sum, sum), isCeiling: nearest !== undefined, isBytes: chosen.isBytes };
}

function load(node, above) {
  const { load: now } = node;
  if (!now) return null;
  const isNetwork = node.kind === "interface";
  const perSecond = (value) => (isNetwork ? quantity(value * 8, "bit/s") : quantity(value, "By/s"));
  const ceilings = [isNumber(now.ceiling) ? perSecond(now.ceiling) : null, isNumber(now.request_ceiling) ? quantity(now.request_ceiling, "1/s") : null].filter(Boolean);
  const words = [
    isNumber(now.read) ? `${perSecond(now.read)} ${isNetwork ? "received" : "read"}` : null,
    isNumber(now.write) ? `${perSecond(now.write)} ${isNetwork ? "sent" : "written"}` : null,
    isNumber(now.latency) ? `${quantity(now.latency, "s")} each` : null,
    isNumber(now.queue) ? `${quantity(now.queue, "count")} in flight` : null,
    ceilings.length > 0 ? `at most ${ceilings.join(" or ")}` : null,
  ].filter(Boolean);
  const state = [
    isNumber(now.waiting) ? `tasks waited ${share(now.waiting)} of the time` : null,
    isNumber(now.busy) ? `busy ${share(now.busy)}` : null,
  ].filter(Boolean);
  return element("div", { className: "stack-load" },
    isNumber(now.busy) ? element("span", { className: "meter", attributes: { "aria-hidden": "true" } },
      element("span", { style: { width: `${Math.min(1, Math.max(0, now.busy)) * 100}%` } })) : null,
    state.length === 0 ? null : element("span", { className: "stack-state" }, capital(state.join(", "))),
    words.length === 0 ? null : element("p", {}, words.join(", ")),
    division(node, above, perSecond));
}

// Who uses it: a bar with a part for each of what lies on it.
function division(node, above, perSecond) {
  const found = partsOf(node, above);
  if (found === null) return null;
  const { parts, sum, whole, isCeiling, isBytes } = found;
  const inWords = (part) => `${nameOf(part.node)} ${isBytes ? perSecond(part.amount) : quantity(part.amount, "1/s")}`;
  return [
    element("div", { className: "stack-parts", attributes: { "aria-hidden": "true" } }, parts.map((part, i) => element("span", {
      title: inWords(part), style: { width: `${(part.amount / whole) * 100}%`, background: `var(--series-${(i % 8) + 1})` } }))),
    element("p", { className: "note" }, `${parts.map(inWords).join(", ")}${isCeiling ? `: together ${share(sum / whole)} of what it can do` : ""}`),
  ];
}

function notes(stack) {
  const isMarked = stack.nodes.some((node) => (node.limits ?? []).some((limit) => (limit.smallest_for ?? []).length > 0));
  const unseen = (stack.blind_spots ?? []).map(({ what }) => what);
  return [
    isMarked ? element("p", { className: "note" }, "* the smallest limit of its kind on the way down") : null,
    unseen.length === 0 ? null : element("p", { className: "note" }, `Not seen: ${unseen.join("; ")}`),
  ];
}
