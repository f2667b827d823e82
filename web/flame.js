// A flame graph: the callers are above, and a frame is as wide as its share of the samples, or of the time waited. Choosing a frame
// makes it as wide as the graph.

import { announce, button, element, fill } from "./dom.js";
import { quantity, share } from "./format.js";
import { capital } from "./words.js";

// Pixels of a row, and the narrowest frame that is drawn.
const row = 20;
const narrowest = 1;
// Functions in the table.
const listed = 30;

const fileName = (path) => path.split("/").at(-1);

// The label of a frame, as crates/show/src/flame has it: its function; if that is unknown, its file in brackets.
export function frameName({ function: name, module, space }) {
  if (name) return name;
  if (module) return module.startsWith("[") ? module : `[${fileName(module)}]`;
  return space === "kernel" ? "[kernel]" : "[unknown]";
}

function family({ function: name, space, inlined }) {
  if (space === "kernel") return "kernel";
  if (!name) return "nameless";
  return inlined ? "inlined" : "program";
}

// Stacks as a tree; processes with the same name are merged. Each node begins where those before it on its row end.
export function callTree({ frames, stacks }) {
  const root = { label: "all", kind: "process", origin: "", total: 0, own: 0, depth: 0, parent: null, children: [], byKey: new Map() };
  const below = (parent, key, more) => {
    let node = parent.byKey.get(key);
    if (!node) {
      node = { total: 0, own: 0, depth: parent.depth + 1, parent, children: [], byKey: new Map(), frame: null, origin: "", ...more };
      parent.byKey.set(key, node);
      parent.children.push(node);
    }
    return node;
  };
  for (const { process, frames: path, weight } of stacks) {
    let node = below(root, `process ${process.name}`, { label: process.name, kind: "process" });
    root.total += weight;
    node.total += weight;
    for (const index of path) {
      const frame = frames[index];
      if (!frame) continue;
      const origin = frame.module ? fileName(frame.module) : frame.space === "kernel" ? "kernel" : "";
      node = below(node, index, { label: frameName(frame), kind: family(frame), origin, frame: index });
      node.total += weight;
    }
    node.own += weight;
  }
  const place = (node, start) => {
    node.start = start;
    node.children.sort((a, b) => b.total - a.total || (a.label < b.label ? -1 : 1));
    let next = start;
    for (const child of node.children) {
      place(child, next);
      next += child.total;
    }
  };
  place(root, 0);
  return root;
}

// The functions with the most weight of their own; of a stack in which one occurs several times it counts once.
export function heaviest({ frames, stacks }, count = listed) {
  const found = new Map();
  const of = (index) => {
    const frame = frames[index];
    const key = `${frame.space} ${frameName(frame)} ${frame.module ?? ""}`;
    if (!found.has(key)) found.set(key, { name: frameName(frame), origin: frame.module ? fileName(frame.module) : frame.space === "kernel" ? "kernel" : "", own: 0, total: 0 });
    return found.get(key);
  };
  for (const { frames: path, weight } of stacks) {
    const known = path.filter((index) => frames[index]);
    for (const one of new Set(known.map(of))) one.total += weight;
    if (known.length > 0) of(known.at(-1)).own += weight;
  }
  return [...found.values()].sort((a, b) => b.own - a.own || b.total - a.total).slice(0, count);
}

export class FlameGraph {
  constructor(profile) {
    this.profile = profile;
    this.root = callTree(profile);
    this.zoomed = this.root;
    this.current = this.root;
    this.wanted = "";
    this.graph = element("div", { className: "flame-graph", tabIndex: 0, attributes: { role: "application", "aria-roledescription": "flame graph", "aria-label": this.#title() },
      on: { click: (event) => this.#click(event), keydown: (event) => this.#key(event) } });
    this.said = element("p", { className: "summary" });
    this.reset = button("Show all", { disabled: true }, () => this.#zoom(this.root));
    const search = element("input", { type: "search", placeholder: "Highlight functions", attributes: { "aria-label": "Highlight functions" },
      on: { input: () => this.#search(search.value.trim()) } });
    this.result = element("span", { className: "note", attributes: { role: "status" } });
    const notes = [`${this.#amount(this.root.total)} in ${profile.stacks.length} stacks`, ...(profile.blind_spots ?? []).map(({ what, why }) => `Not seen: ${what}: ${why}`)];
    this.element = element("div", { className: "flame" },
      element("h3", {}, capital(this.#title())), notes.map((note) => element("p", { className: "note" }, note)), legend(),
      element("div", { className: "flame-tools" }, this.reset, search, this.result), this.graph, this.said, this.#table());
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(this.graph);
    this.#draw();
  }

  #title() {
    const { kind, process, seconds, hz } = this.profile;
    const whose = process ? `${process.name} (pid ${process.pid})` : "the machine";
    return `${kind === "off_cpu" ? "off-CPU" : "on-CPU"} profile of ${whose}, ${quantity(Math.round(seconds * 10) / 10, "s")}${hz ? ` at ${hz}\u00a0Hz` : ""}`;
  }

  // Samples, or time.
  #amount(weight) {
    if (this.profile.kind === "off_cpu") return quantity(weight / 1e6, "s");
    return weight === 1 ? "1 sample" : `${weight} samples`;
  }

  #inWords(node) {
    const part = share(this.root.total > 0 ? node.total / this.root.total : 0);
    const own = node.own > 0 && node.own < node.total ? `, ${this.#amount(node.own)} of its own` : "";
    return `${node.label}${node.origin ? ` (${node.origin})` : ""}: ${this.#amount(node.total)}, ${part}${own}`;
  }

  // The zoomed frame is as wide as the graph; its callers are above it.
  #draw() {
    const { zoomed } = this;
    const width = this.graph.clientWidth;
    if (width === 0) return;
    const drawn = [];
    let depth = zoomed.depth;
    const add = (node, left, wide) => {
      depth = Math.max(depth, node.depth);
      const isHit = this.wanted !== "" && node.label.toLowerCase().includes(this.wanted);
      const classes = ["flame-frame", node.kind, isHit ? "hit" : "", node.depth < zoomed.depth ? "caller" : "", node === this.current ? "current" : ""];
      const made = element("div", { className: classes.filter(Boolean).join(" "), title: this.#inWords(node),
        style: { left: `${left}px`, width: `${wide}px`, top: `${node.depth * row}px` } }, wide > 24 ? node.label : null);
      made.node = node;
      drawn.push(made);
    };
    for (let caller = zoomed.parent; caller; caller = caller.parent) add(caller, 0, width);
    const scale = width / Math.max(1, zoomed.total);
    const within = (node) => {
      const wide = node.total * scale;
      if (wide < narrowest) return;
      add(node, (node.start - zoomed.start) * scale, wide);
      node.children.forEach(within);
    };
    within(zoomed);
    this.graph.style.setProperty("height", `${(depth + 1) * row}px`);
    this.graph.replaceChildren(...drawn);
    fill(this.said, this.#inWords(this.current));
  }

  #zoom(node) {
    this.zoomed = node;
    this.current = node;
    this.reset.disabled = node === this.root;
    this.#draw();
    announce(`${this.#inWords(node)}, ${node === this.root ? "everything is shown" : "zoomed"}`);
  }

  #click(event) {
    const { node } = event.target.closest(".flame-frame") ?? {};
    if (node) this.#zoom(node);
  }

  // Down to the heaviest callee, up to the caller, to the sides among those with the same caller.
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { current } = this;
    const siblings = current.parent?.children ?? [current];
    const at = siblings.indexOf(current);
    const goals = {
      ArrowDown: current.children[0], ArrowUp: current.parent, ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1], Home: this.zoomed,
    };
    if (Object.hasOwn(goals, event.key)) {
      event.preventDefault();
      if (goals[event.key]) this.#go(goals[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#zoom(current);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.#zoom(this.root);
    }
  }

  #go(node) {
    this.current = node;
    // Out of what is shown.
    const isInSight = node.start >= this.zoomed.start && node.start + node.total <= this.zoomed.start + this.zoomed.total;
    if (!isInSight) this.zoomed = node.parent ?? this.root;
    this.reset.disabled = this.zoomed === this.root;
    this.#draw();
    announce(this.#inWords(node));
  }

  #search(text) {
    this.wanted = text.toLowerCase();
    // A frame below one that was found is part of it.
    const found = (node) => (node.label.toLowerCase().includes(this.wanted) ? node.total : node.children.reduce((sum, child) => sum + found(child), 0));
    const sum = this.wanted === "" || this.root.total === 0 ? 0 : this.root.children.reduce((all, child) => all + found(child), 0);
    fill(this.result, this.wanted === "" ? "" : sum === 0 ? "Not found" : `Found in ${share(sum / this.root.total)}`);
    this.#draw();
  }

  #table() {
    const total = Math.max(1, this.root.total);
    const rows = heaviest(this.profile).map(({ name, origin, own, total: all }) => element("tr", {}, element("th", { scope: "row" }, name),
      element("td", {}, origin), element("td", { className: "number" }, share(own / total)), element("td", { className: "number" }, share(all / total))));
    const label = "Functions with the most of their own";
    return element("details", {}, element("summary", {}, `${label} (${rows.length})`), element("div", { className: "scroller", tabIndex: 0,
      attributes: { role: "group", "aria-label": label } }, element("table", {}, element("thead", {}, element("tr", {},
      ["Function", "Of", "Own", "With callees"].map((text, i) => element("th", { scope: "col", className: i > 1 ? "number" : "" }, text)))), element("tbody", {}, rows))));
  }
}

function legend() {
  const kinds = [["process", "process"], ["program", "program"], ["inlined", "inlined"], ["nameless", "unknown"], ["kernel", "kernel"]];
  return element("p", { className: "flame-legend note" }, kinds.map(([kind, word]) => element("span", {}, element("span", { className: `swatch ${kind}` }), ` ${word}`)));
}
