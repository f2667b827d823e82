// A fleet as a heat map: a row for each host, a column for each piece of time. The more time was lost, the darker and the higher a
// cell is. It is drawn on a canvas as high as what is in sight, so that ten thousand hosts scroll as well as ten.

import { classes, classOf, pieceSpan } from "./cells.js";
import { color, faded, ramp } from "./colors.js";
import { announce, element, fill, oncePerFrame, visible } from "./dom.js";
import { share } from "./format.js";
import { idInWords } from "./words.js";

// As much of a row's height as a cell of each class takes.
const heights = [0.3, 0.45, 0.62, 0.8, 1];
// Room for the names of hosts, pixels; of so many names the longest is looked for.
const widestNames = 190;
const narrowestNames = 64;
const mostMeasured = 2000;
// A drag of fewer pixels is a click.
const shortestDrag = 5;
const help = "Arrow keys move from cell to cell, Page Up and Page Down by a screen, Home and End to the first and last time. With Shift, left and right mark a time, and Z shows it. Enter opens the host, or folds the group.";

export class HeatMap {
  // `clock` shows times. `on` has `cursor`, which gets the cell that is looked at or null, `open` (a host), `fold` (a group), and
  // `zoom` (a span).
  constructor(clock, on) {
    Object.assign(this, { clock, on, map: null, rows: [], names: widestNames, cursor: null, mark: null, finding: null, emphasis: null, drag: null });
    this.canvas = element("canvas", { attributes: { "aria-hidden": "true" } });
    this.room = element("div", { className: "heat-room" });
    this.keys = element("p", { className: "unseen", id: "heat-help" }, help);
    this.scroller = element("div", { className: "heat-scroller", tabIndex: 0, attributes: {
      role: "application", "aria-roledescription": "heat map", "aria-label": "Time lost by host and time", "aria-describedby": "heat-help",
    } }, this.canvas, this.room);
    this.ticks = element("div", { className: "heat-ticks", attributes: { "aria-hidden": "true" } });
    this.marks = element("div", { className: "heat-marks" });
    this.axis = element("div", { className: "heat-axis" }, this.ticks, this.marks);
    this.element = element("div", { className: "heat" }, this.axis, this.scroller, this.keys);
    this.render = oncePerFrame(() => this.#render());
    this.#listen();
  }

  // Shows these rows of a map.
  show(map, rows, { finding = null } = {}) {
    const { row: former, piece } = this.cursor ?? {};
    const time = former ? pieceSpan(this.map, piece).from : null;
    Object.assign(this, { map, rows, finding, names: rows.some(({ group }) => group) ? widestNames : this.#widest(rows) });
    // The cell that is looked at stays, if it is still there.
    const at = former ? rows.findIndex((row) => nameOf(row) === nameOf(former) && Boolean(row.group) === Boolean(former.group)) : -1;
    const same = time === null ? -1 : Math.floor((time - map.from) / map.step);
    this.cursor = at >= 0 && same >= 0 && same < map.pieces ? { index: at, row: rows[at], piece: same } : null;
    this.on.cursor(this.cursor);
    this.resize();
  }

  // A span of time that stands out, or null.
  emphasize(span) {
    this.emphasis = span;
    this.render();
  }

  recolor() {
    this.render();
  }

  dispose() {
    this.observer.disconnect();
  }

  get #rowHeight() {
    return Number.parseFloat(getComputedStyle(this.scroller).getPropertyValue("--heat-row")) || 16;
  }

  // How wide the names of these rows are.
  #widest(rows) {
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.font = `12px ${getComputedStyle(this.scroller).fontFamily}`;
    const widths = rows.slice(0, mostMeasured).map((row) => ctx.measureText(visible(nameOf(row))).width);
    return Math.min(widestNames, Math.max(narrowestNames, Math.ceil(Math.max(0, ...widths)) + 16));
  }

  // Pixels of the names, and of the cells.
  get #columns() {
    const width = this.scroller.clientWidth;
    const gutter = Math.min(this.names, Math.round(width * 0.3));
    return { gutter, width: Math.max(1, width - gutter) };
  }

  resize() {
    if (!this.map) return;
    const height = this.#rowHeight;
    const most = Number.parseFloat(getComputedStyle(this.scroller).getPropertyValue("--heat-most")) || 560;
    this.scroller.style.setProperty("height", `${Math.max(height, Math.min(this.rows.length * height, most))}px`);
    this.room.style.setProperty("height", `${Math.max(0, this.rows.length * height - this.scroller.clientHeight)}px`);
    const { gutter, width } = this.#columns;
    this.axis.style.setProperty("margin-left", `${gutter}px`);
    this.axis.style.setProperty("width", `${width}px`);
    this.#drawTicks(width);
    this.render();
  }

  #drawTicks(width) {
    const { from, to } = this.map;
    const steps = [300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
    const step = steps.find((one) => ((to - from) / one) * 64 <= width) ?? steps.at(-1);
    const zone = this.clock.zone === "UTC" ? 0 : new Date(from * 1000).getTimezoneOffset() * -60;
    const moments = [];
    for (let at = Math.ceil((from + zone) / step) * step - zone; at < to; at += step) moments.push(at);
    const labels = this.clock.axis(moments, step);
    const place = (at) => ((at - from) / (to - from)) * 100;
    fill(this.ticks, moments.map((at, i) => element("span", { className: "tick", style: { left: `${place(at)}%` } },
      place(at) < 100 - 4800 / width ? labels[i] : "")));
  }

  #render() {
    const { map, rows, scroller } = this;
    if (!map || !scroller.isConnected) return;
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    const scale = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.setProperty("height", `${height}px`);
    }
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const row = this.#rowHeight;
    const first = Math.floor(scroller.scrollTop / row);
    const last = Math.min(rows.length, Math.ceil((scroller.scrollTop + height) / row));
    const look = this.#look(ctx);
    for (let i = first; i < last; i += 1) this.#drawRow(ctx, rows[i], i * row - scroller.scrollTop, look, i === this.cursor?.index);
    this.#drawSpans(ctx, height, look);
    this.#drawCursor(ctx, look);
    this.#moveSight(first, last);
  }

  // Colours and measures, looked up once for all rows.
  #look(ctx) {
    const { gutter, width } = this.#columns;
    return {
      gutter, width, row: this.#rowHeight, cell: width / this.map.pieces, colors: ramp(["heat-1", "heat-2", "heat-3"], classes.length),
      ink: color("ink"), soft: color("soft"), muted: color("muted"), grid: color("grid"), sunken: color("sunken"), accent: color("accent"),
      hatch: hatched(ctx, color("edge")), font: getComputedStyle(this.scroller).fontFamily,
    };
  }

  #drawRow(ctx, row, top, look, isCurrent) {
    const { gutter, width, row: height, cell } = look;
    if (row.group || isCurrent) {
      ctx.fillStyle = isCurrent ? faded("accent", 0.16) : look.sunken;
      ctx.fillRect(0, top, gutter + width, height);
    }
    this.#drawName(ctx, row, top, look);
    const { shares } = row.group ?? row.host;
    // Where nothing is known, a piece is hatched; whole runs at once.
    ctx.fillStyle = look.hatch;
    for (let i = 0; i < shares.length; i += 1) {
      if (shares[i] !== null) continue;
      const begin = i;
      while (i + 1 < shares.length && shares[i + 1] === null) i += 1;
      ctx.fillRect(gutter + begin * cell, top + 1, (i + 1 - begin) * cell, height - 2);
    }
    const gap = cell >= 5 ? 1 : 0;
    for (let i = 0; i < shares.length; i += 1) {
      const kind = classOf(shares[i]);
      if (kind === null || kind < 0) continue;
      const left = gutter + i * cell;
      const high = Math.max(2, Math.round((height - 2) * heights[kind]));
      ctx.globalAlpha = this.#isWanted(row, i) ? 1 : 0.3;
      ctx.fillStyle = look.colors[kind];
      ctx.fillRect(left, top + height - 1 - high, Math.max(1, cell - gap), high);
    }
    ctx.globalAlpha = 1;
    ctx.fillStyle = look.grid;
    ctx.fillRect(gutter, top + height - 1, width, 1);
  }

  // Whether a piece is of the finding that is asked about.
  #isWanted(row, piece) {
    if (this.finding === null || !row.host) return true;
    const cause = row.host.causes.get(piece);
    return cause !== undefined && this.map.findings[cause] === this.finding;
  }

  #drawName(ctx, { host, group }, top, look) {
    const isFolded = group && this.on.isFolded(group.value);
    const count = group ? ` ${group.sick} of ${group.hosts.length} sick` : "";
    const size = Math.min(12, look.row - 4);
    ctx.font = `${group ? "600 " : ""}${size}px ${look.font}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = host?.missing === "not_reporting" ? look.muted : look.ink;
    const lead = group ? (isFolded ? "▸ " : "▾ ") : "";
    const room = look.gutter - 10;
    const counted = group && look.gutter > 120 ? ctx.measureText(count).width : 0;
    const name = fitted(ctx, lead + visible(group ? group.value : host.name), room - counted);
    ctx.fillText(name, 4, top + look.row / 2);
    if (counted > 0) {
      const end = 4 + ctx.measureText(name).width;
      ctx.font = `${size}px ${look.font}`;
      ctx.fillStyle = look.muted;
      ctx.fillText(count, end + 3, top + look.row / 2, Math.max(10, look.gutter - end - 6));
    }
  }

  #drawSpans(ctx, height, look) {
    const band = (span, style) => {
      if (!span) return;
      const { from, to } = this.map;
      const [left, right] = [span.from, span.to].map((at) => look.gutter + Math.min(1, Math.max(0, (at - from) / (to - from))) * look.width);
      ctx.fillStyle = style;
      ctx.fillRect(left, 0, Math.max(2, right - left), height);
    };
    band(this.emphasis, faded("series-8", 0.18));
    band(this.drag?.span ?? this.mark, faded("accent", 0.22));
  }

  #drawCursor(ctx, look) {
    if (!this.cursor) return;
    const { index, piece } = this.cursor;
    ctx.strokeStyle = look.ink;
    ctx.lineWidth = 1.5;
    const top = index * look.row - this.scroller.scrollTop;
    ctx.strokeRect(look.gutter + piece * look.cell + 0.5, top + 0.5, Math.max(3, look.cell - 1), look.row - 1.5);
  }

  // What is in sight, for tests and scripts.
  #moveSight(first, last) {
    Object.assign(this.scroller.dataset, { first: String(first), last: String(last), rows: String(this.rows.length) });
  }

  // The cell at a place within the scroller.
  #cellAt(event) {
    const box = this.scroller.getBoundingClientRect();
    const { gutter, width } = this.#columns;
    const [x, y] = [event.clientX - box.left - this.scroller.clientLeft, event.clientY - box.top - this.scroller.clientTop];
    const index = Math.floor((y + this.scroller.scrollTop) / this.#rowHeight);
    if (!this.map || index < 0 || index >= this.rows.length || x > gutter + width) return null;
    const piece = Math.min(this.map.pieces - 1, Math.max(0, Math.floor(((x - gutter) / width) * this.map.pieces)));
    return { index, row: this.rows[index], piece, isName: x < gutter };
  }

  #point(cell) {
    this.cursor = cell;
    this.on.cursor(cell);
    this.render();
  }

  #listen() {
    const { scroller } = this;
    scroller.addEventListener("scroll", this.render, { passive: true });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    scroller.addEventListener("pointermove", (event) => {
      const cell = this.#cellAt(event);
      scroller.classList.toggle("on-name", Boolean(cell?.isName));
      if (this.drag) this.#drag(event, cell);
      else if (event.pointerType === "mouse") this.#point(cell);
    });
    scroller.addEventListener("pointerdown", (event) => {
      const cell = this.#cellAt(event);
      // A finger scrolls, and its click chooses a cell.
      if (event.button !== 0 || event.pointerType === "touch" || !cell || cell.isName) return;
      this.drag = { x: event.clientX, piece: cell.piece, span: null };
      scroller.setPointerCapture(event.pointerId);
    });
    scroller.addEventListener("pointerup", () => {
      const { span } = this.drag ?? {};
      this.drag = null;
      if (span) this.on.zoom(span);
      this.dragged = Boolean(span);
    });
    scroller.addEventListener("pointercancel", () => {
      this.drag = null;
      this.render();
    });
    scroller.addEventListener("click", (event) => {
      if (this.dragged) {
        this.dragged = false;
        return;
      }
      const cell = this.#cellAt(event);
      if (!cell) return;
      this.#point(cell);
      if (cell.row.group) this.on.fold(cell.row.group.value);
      else if (cell.isName) this.on.open(cell.row.host);
    });
    scroller.addEventListener("dblclick", (event) => {
      const cell = this.#cellAt(event);
      if (cell?.row.host && !cell.isName) this.on.open(cell.row.host);
    });
    scroller.addEventListener("keydown", (event) => this.#key(event));
  }

  #drag(event, cell) {
    if (!cell || (this.drag.span === null && Math.abs(event.clientX - this.drag.x) < shortestDrag)) return;
    const [a, b] = [this.drag.piece, cell.piece].sort((one, other) => one - other);
    this.drag.span = { from: pieceSpan(this.map, a).from, to: pieceSpan(this.map, b).to };
    this.#point(cell);
  }

  #key(event) {
    if (event.altKey || event.metaKey || !this.map || this.rows.length === 0) return;
    const { index = 0, piece = this.map.pieces - 1 } = this.cursor ?? {};
    const screen = Math.max(1, Math.floor(this.scroller.clientHeight / this.#rowHeight) - 1);
    const [lastRow, lastPiece] = [this.rows.length - 1, this.map.pieces - 1];
    const moves = {
      ArrowUp: [index - 1, piece], ArrowDown: [index + 1, piece], ArrowLeft: [index, piece - 1], ArrowRight: [index, piece + 1],
      PageUp: [index - screen, piece], PageDown: [index + screen, piece],
      Home: event.ctrlKey ? [0, piece] : [index, 0], End: event.ctrlKey ? [lastRow, piece] : [index, lastPiece],
    };
    const does = {
      Enter: () => this.#enter(), " ": () => this.#enter(), z: () => this.mark && this.on.zoom(this.mark),
      Escape: () => {
        this.mark = null;
        this.anchor = null;
        this.#point(null);
      },
    };
    if (Object.hasOwn(moves, event.key)) {
      event.preventDefault();
      const clamp = (at, most) => Math.min(Math.max(at, 0), most);
      // The first key only shows where the cursor is.
      const [row, at] = this.cursor ? moves[event.key] : [index, piece];
      this.#move(clamp(row, lastRow), clamp(at, lastPiece), event.shiftKey && event.key.startsWith("Arrow"));
    } else if (Object.hasOwn(does, event.key) && !event.ctrlKey) {
      event.preventDefault();
      does[event.key]();
    }
  }

  #move(index, piece, isMarking) {
    if (isMarking) this.anchor ??= this.cursor?.piece ?? piece;
    else this.anchor = null;
    const [a, b] = [this.anchor ?? piece, piece].sort((one, other) => one - other);
    this.mark = isMarking ? { from: pieceSpan(this.map, a).from, to: pieceSpan(this.map, b).to } : null;
    const row = this.#rowHeight;
    const { scroller } = this;
    if (index * row < scroller.scrollTop) scroller.scrollTop = index * row;
    else if ((index + 1) * row > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (index + 1) * row - scroller.clientHeight;
    this.#point({ index, row: this.rows[index], piece });
    const marked = this.mark ? ` Marked ${this.clock.span(this.mark.from, this.mark.to)}.` : "";
    announce(`${inWords(this.map, this.cursor, this.clock)}${marked}`);
  }

  #enter() {
    const { row } = this.cursor ?? {};
    if (row?.group) this.on.fold(row.group.value);
    else if (row) this.on.open(row.host);
  }
}

const nameOf = ({ host, group }) => host?.name ?? group.value;

// What a cell says.
export function inWords(map, { row, piece }, clock) {
  const { from, to } = pieceSpan(map, piece);
  const name = row.group ? `${row.group.value}, ${row.group.hosts.length} hosts` : row.host.name;
  return `${name}, ${clock.span(from, to)}: ${lossInWords(map, row, piece)}.`;
}

export function lossInWords(map, row, piece) {
  const lost = (row.group ?? row.host).shares[piece];
  if (lost === null) return "no data";
  if (!(lost > 0)) return "no time lost";
  const cause = row.host?.causes.get(piece);
  const mostly = cause === undefined ? "" : `, mostly to ${idInWords(map.findings[cause])}`;
  return `${share(lost)} of the time lost${row.group ? " on average" : ""}${mostly}`;
}

// The legend: what the height and the colour of a cell mean.
export function legend() {
  const colors = ramp(["heat-1", "heat-2", "heat-3"], classes.length);
  const cell = (style) => element("span", { className: "heat-cell" }, element("span", { style }));
  return element("ul", { className: "heat-legend", attributes: { "aria-label": "Time lost" } },
    element("li", {}, element("span", { className: "heat-cell hatched" }), "no data"),
    element("li", {}, cell({ height: "0" }), "none lost"),
    classes.map(({ label }, i) => element("li", {}, cell({ height: `${heights[i] * 100}%`, background: colors[i] }), label)));
}

// The longest beginning of a name that is no wider.
function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const letters = [...text];
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (ctx.measureText(`${letters.slice(0, middle).join("")}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

function hatched(ctx, stroke) {
  const tile = document.createElement("canvas");
  [tile.width, tile.height] = [6, 6];
  const of = tile.getContext("2d");
  of.strokeStyle = stroke;
  of.lineWidth = 1;
  of.beginPath();
  for (const at of [-3, 3, 9]) {
    of.moveTo(at - 3, 9);
    of.lineTo(at + 9, -3);
  }
  of.stroke();
  return ctx.createPattern(tile, "repeat");
}
