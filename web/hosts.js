// The hosts as a table that can be sorted and filtered. Only the rows in sight exist, so that ten thousand scroll as well as ten.

import { arrange, button, element, fill, oncePerFrame } from "./dom.js";
import { sparkline } from "./finding.js";
import { Clock, quantity, share } from "./format.js";

// Rows beyond the edges that exist already, for scrolling.
const overscan = 6;
// On paper, where nothing scrolls.
const mostOnPaper = 1000;
const labels = { bottleneck: "Bottleneck", undetermined: "Undetermined", healthy: "Healthy" };
const byVerdict = ["bottleneck", "undetermined", null, "healthy"];
const names = new Intl.Collator(undefined, { numeric: true });

const labelOf = ({ verdict }) => (Object.hasOwn(labels, verdict ?? "") ? labels[verdict] : null);
const rank = (host) => byVerdict.indexOf(labelOf(host) === null ? null : host.verdict);
// What is unknown is less than nothing.
const severityOf = ({ severity }) => severity ?? -1;

// Title, order, and whether the largest come first at the first click.
const columns = [
  { id: "name", title: "Host", compare: (a, b) => names.compare(a.name, b.name) },
  { id: "verdict", title: "Verdict", compare: (a, b) => rank(a) - rank(b) },
  { id: "finding", title: "Main finding", compare: (a, b) => names.compare(a.finding ?? "\uffff", b.finding ?? "\uffff") },
  { id: "severity", title: "Severity", compare: (a, b) => severityOf(a) - severityOf(b), isDescending: true },
  { id: "pressure", title: "Time lost", compare: (a, b) => meanOf(a.pressure) - meanOf(b.pressure), isDescending: true },
  { id: "period", title: "Data", compare: (a, b) => a.to - b.to, isDescending: true },
];

function meanOf(values) {
  const known = (values ?? []).filter((value) => value !== null);
  return known.length === 0 ? -1 : known.reduce((sum, value) => sum + value, 0) / known.length;
}

// The hosts that contain a text, in an order.
export function listed(hosts, text, { id, isDescending }) {
  const wanted = text.toLowerCase();
  const contain = (host) => [host.name, host.finding, host.error, labelOf(host), host.folder].some((one) => one?.toLowerCase().includes(wanted));
  const { compare } = columns.find((column) => column.id === id);
  const sign = isDescending ? -1 : 1;
  return hosts.filter(contain).sort((a, b) => sign * compare(a, b) || names.compare(a.name, b.name) || names.compare(a.id, b.id));
}

export class Hosts {
  #ended = new AbortController();

  // `address` gives the address of a host, and `open` opens it.
  constructor(address, open) {
    Object.assign(this, { address, open, hosts: [], shown: [], rows: new Map(), active: null, order: { id: "severity", isDescending: true } });
    this.clock = new Clock(undefined);
    this.search = element("input", { type: "search", placeholder: "Filter hosts and findings", attributes: { "aria-label": "Filter hosts and findings" },
      on: { input: () => this.#list() } });
    this.count = element("p", { className: "note", attributes: { role: "status" } });
    this.heads = columns.map((column) => this.#head(column));
    this.body = element("div", { className: "host-rows", attributes: { role: "rowgroup" }, on: { keydown: (event) => this.#key(event) } });
    this.table = element("div", { className: "host-table", attributes: { role: "table", "aria-label": "Hosts" } },
      element("div", { className: "host-head", attributes: { role: "rowgroup" } },
        element("div", { className: "host-row", attributes: { role: "row", "aria-rowindex": 1 } }, this.heads)), this.body);
    this.element = element("section", { id: "hosts", attributes: { "aria-labelledby": "hosts-heading" } },
      element("h2", { id: "hosts-heading" }, "Hosts"), element("div", { className: "host-tools" }, this.search, this.count), this.table);
    this.render = oncePerFrame(() => this.#render());
    this.scrolled = 0;
  }

  #head(column) {
    const { id, title } = column;
    return element("div", { className: `host-${id}`, attributes: { role: "columnheader" } }, button(title, { className: "quiet" }, () => {
      const isAgain = this.order.id === id;
      this.order = { id, isDescending: isAgain ? !this.order.isDescending : Boolean(column.isDescending) };
      this.#list();
    }));
  }

  // It comes into sight, with these hosts.
  enter(hosts) {
    this.#ended = new AbortController();
    const { signal } = this.#ended;
    addEventListener("scroll", this.render, { signal, passive: true });
    addEventListener("resize", this.render, { signal });
    addEventListener("beforeprint", () => this.#render(mostOnPaper), { signal });
    addEventListener("afterprint", this.render, { signal });
    this.hosts = hosts;
    this.#list();
    // Before it can be scrolled, it has to be as high as before.
    this.#render();
    scrollTo(0, this.scrolled);
    this.#render();
    const row = this.rows.get(this.active);
    if (this.hasOpened) row?.link.focus({ preventScroll: true });
  }

  leave() {
    this.#ended.abort();
    this.scrolled = scrollY;
  }

  // Newer values. While the reader is among the rows, these stay in their order.
  update(hosts) {
    this.hosts = hosts;
    const isReading = this.body.contains(document.activeElement) || this.body.getBoundingClientRect().top < 0;
    if (!isReading) {
      this.#list();
      return;
    }
    const byId = new Map(hosts.map((host) => [host.id, host]));
    this.shown = this.shown.map(({ id }) => byId.get(id)).filter(Boolean);
    this.#drawAnew();
  }

  #list() {
    this.shown = listed(this.hosts, this.search.value.trim(), this.order);
    columns.forEach(({ id }, i) => {
      const order = this.order.isDescending ? "descending" : "ascending";
      this.heads[i].setAttribute("aria-sort", id === this.order.id ? order : "none");
    });
    this.#drawAnew();
  }

  #drawAnew() {
    const { shown, hosts } = this;
    const bad = shown.filter(({ verdict }) => verdict === "bottleneck").length;
    const all = shown.length === hosts.length ? `${hosts.length} hosts` : `${shown.length} of ${hosts.length} hosts`;
    const said = `${all}, ${bad} with a bottleneck`;
    // Said again, it would be announced again.
    if (this.count.textContent !== said) fill(this.count, said);
    this.table.setAttribute("aria-rowcount", String(shown.length + 1));
    this.indexes = new Map(shown.map(({ id }, i) => [id, i]));
    if (!this.indexes.has(this.active)) this.active = shown[0]?.id ?? null;
    for (const [id, row] of this.rows) {
      const index = this.indexes.get(id);
      if (index !== undefined) row.update(shown[index], this.clock);
    }
    this.render();
  }

  // Brings the rows in sight into being.
  #render(least = 0) {
    const { shown, body } = this;
    const height = Number.parseFloat(getComputedStyle(body).getPropertyValue("--row-height"));
    body.style.setProperty("height", `${shown.length * height}px`);
    const { top } = body.getBoundingClientRect();
    const first = Math.max(0, Math.floor(-top / height) - overscan);
    const end = Math.min(shown.length, Math.max(least, Math.ceil((innerHeight - top) / height) + overscan));
    const wanted = new Set();
    for (let i = first; i < end; i += 1) wanted.add(i);
    // The row that the keyboard is on exists wherever it is.
    if (this.active !== null) wanted.add(this.indexes.get(this.active));
    const former = this.rows;
    this.rows = new Map();
    for (const i of [...wanted].sort((a, b) => a - b)) {
      const host = shown[i];
      const row = former.get(host.id) ?? new Row(host, this.clock, this.address(host), (event) => this.#open(event, host.id));
      row.place(i, height, host.id === this.active);
      this.rows.set(host.id, row);
    }
    arrange(body, [...this.rows.values()].map((row) => row.element));
  }

  #open(event, id) {
    this.active = id;
    this.hasOpened = true;
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.open(this.shown[this.indexes.get(id)]);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.indexes.has(this.active)) return;
    const at = this.indexes.get(this.active);
    const height = this.rows.get(this.active)?.element.offsetHeight || 1;
    const screen = Math.max(1, Math.floor(innerHeight / height) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + screen, PageUp: at - screen, Home: 0, End: this.shown.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.active = this.shown[Math.min(Math.max(to, 0), this.shown.length - 1)].id;
    this.#render();
    const row = this.rows.get(this.active);
    row.link.focus({ preventScroll: true });
    row.element.scrollIntoView({ block: "nearest" });
    this.#render();
  }
}

class Row {
  constructor(host, clock, address, onClick) {
    this.link = element("a", { href: address, on: { click: onClick } });
    const cell = (id, ...content) => element("div", { className: `host-${id}`, attributes: { role: "cell" } }, content);
    this.verdict = element("span", { className: "what" });
    this.cells = {
      name: cell("name", this.link), verdict: cell("verdict", this.verdict), finding: cell("finding"), severity: cell("severity"),
      pressure: cell("pressure"), period: cell("period"),
    };
    this.element = element("div", { className: "host-row", attributes: { role: "row" } }, Object.values(this.cells));
    this.update(host, clock);
  }

  update(host, clock) {
    // Rows are asked to show the same again at each refresh.
    const said = JSON.stringify(host);
    if (said === this.said) return;
    this.said = said;
    const { name, verdict, severity, pressure, kind, from, to, folder } = host;
    const finding = host.finding ?? host.error;
    fill(this.link, name || folder || "unknown host");
    this.verdict.className = `what ${tone(host)}`;
    fill(this.verdict, labelOf(host) ?? (host.error ? "Unreadable" : "Not known yet"));
    fill(this.cells.finding, finding ?? (verdict === "healthy" ? "No resource is saturated or failing" : "–"));
    this.cells.finding.title = finding ?? "";
    fill(this.cells.severity, severity === null || severity === undefined || verdict !== "bottleneck" ? "–"
      : [element("span", { className: "meter" }, element("span", { style: { width: `${severity * 100}%` } })), element("span", {}, share(severity))]);
    const values = pressure ?? [];
    const line = sparkline(values.map((_, i) => i), values, 1);
    const most = values.filter((value) => value !== null).reduce((a, b) => Math.max(a, b), 0);
    fill(this.cells.pressure, line ?? "–", line ? element("span", { className: "unseen" }, `up to ${share(most)}`) : null);
    const span = (to ?? null) === null ? "–" : `${quantity(Math.max(1, Math.round(to - from)), "s")} to ${clock.brief(to)}`;
    fill(this.cells.period, kind === "live" ? "Live" : span);
    this.cells.period.title = folder ?? "";
  }

  place(index, height, isActive) {
    this.element.setAttribute("aria-rowindex", String(index + 2));
    this.element.style.setProperty("transform", `translateY(${index * height}px)`);
    this.element.classList.toggle("odd", index % 2 === 1);
    this.link.tabIndex = isActive ? 0 : -1;
  }
}

function tone(host) {
  const { verdict, severity } = host;
  if (verdict !== "bottleneck") return labelOf(host) === null ? "event" : verdict;
  return severity >= 0.5 ? "critical" : severity >= 0.2 ? "serious" : "warning";
}
