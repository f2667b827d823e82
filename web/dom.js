// Builds elements. Names in the documents were chosen by others: all text goes through `visible` into text nodes, and nothing
// is ever parsed as HTML.

// Characters that move the cursor, reorder text or are invisible; the same as `is_deceptive` in crates/show/src/escape.rs.
const deceptive =
  /[\p{Cc}\u00ad\u061c\u180e\ufeff\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

// Text in which deceptive characters are written as `\n`, `\x1b` or `\u{202e}`.
export function visible(text) {
  return String(text).replace(deceptive, (c) => {
    const code = c.codePointAt(0);
    if (c in short) return short[c];
    return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

// The listeners of each element: `morph` replaces them.
const listeners = new WeakMap();

// An element with properties and children: strings become text, and null is left out. `on` holds listeners, `style` holds
// style properties, `attributes` holds attributes; everything else is a DOM property.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  const { on = {}, style = {}, attributes = {}, ...rest } = properties;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, visible(value));
  }
  for (const [name, value] of Object.entries(style)) made.style.setProperty(name, value);
  listeners.set(made, on);
  for (const name of Object.keys(on)) made.addEventListener(name, (event) => listeners.get(made)[name]?.(event));
  for (const [name, value] of Object.entries(rest)) made[name] = typeof value === "string" ? visible(value) : value;
  append(made, children);
  return made;
}

// A link within the page.
export function link(id, properties, ...children) {
  const made = element("a", properties, ...children);
  made.href = `#${encodeURIComponent(id)}`;
  return made;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

// Replaces what an element contains.
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

// Puts these elements into a parent, and moves only those that are elsewhere: one that is moved loses the focus.
export function arrange(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  let next = parent.firstChild;
  for (const one of elements) {
    if (one === next) next = next.nextSibling;
    else parent.insertBefore(one, next);
  }
}

// Makes an element's content what `fill` would make it, but keeps what is the same: what is unfolded, selected, focused or
// scrolled stays so.
export function morph(parent, ...children) {
  const made = document.createDocumentFragment();
  append(made, children);
  morphChildren(parent, made);
}

function morphChildren(shown, made) {
  const left = new Map();
  for (const child of shown.childNodes) {
    const key = keyOfNode(child);
    left.set(key, [...(left.get(key) ?? []), child]);
  }
  arrange(shown, [...made.childNodes].map((child) => {
    const same = left.get(keyOfNode(child))?.shift();
    if (same === undefined) return child;
    morphNode(same, child);
    return same;
  }));
}

function morphNode(shown, made) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== made.data) shown.data = made.data;
    return;
  }
  // Whether it is unfolded is up to the reader. A style attribute is what the content security policy forbids.
  const isOwn = (name) => name === "open" || name === "style";
  for (const { name } of [...shown.attributes]) if (!isOwn(name) && !made.hasAttribute(name)) shown.removeAttribute(name);
  for (const { name, value } of made.attributes) {
    if (!isOwn(name) && shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  if (shown.style.cssText !== made.style.cssText) shown.style.cssText = made.style.cssText;
  if (listeners.has(made)) listeners.set(shown, listeners.get(made));
  morphChildren(shown, made);
}

// Nodes with one key can take one another's place: an element's severity, its last class, may change.
function keyOfNode(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const [kind] = (node.getAttribute("class") ?? "").split(" ");
  const heard = listeners.has(node) ? Object.keys(listeners.get(node)).join() : "";
  return [node.nodeName, node.id, kind, heard, titleOf(node)].join(" ");
}

// The title of what unfolds, or of an item that does; without its numbers, which count something.
function titleOf(node) {
  const details = node.nodeName === "LI" ? node.firstElementChild : node;
  if (details?.nodeName !== "DETAILS") return "";
  const summary = details.firstElementChild;
  return (summary?.firstElementChild ?? summary)?.textContent.replace(/\d+/g, "") ?? "";
}

const SVG = "http://www.w3.org/2000/svg";

// An SVG element; attributes are numbers and names of ours, never text of the documents.
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Says something to screen readers.
export function announce(text) {
  document.getElementById("announcer").textContent = visible(text);
}

export function button(label, properties, onClick) {
  return element("button", { type: "button", ...properties, on: { click: onClick, ...properties.on } }, label);
}

// Collects calls into one before the next frame.
export function oncePerFrame(call) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      call();
    });
  };
}
