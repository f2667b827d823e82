// Drives pages in a real browser: opens them, watches what they must not do, and uses them as a reader does.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const program = process.env.CHROMIUM ?? "/usr/bin/chromium";
// Root has no sandbox of its own here. Without /dev/shm, which may be small.
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
const utc = { timezoneId: "UTC", locale: "en-GB" };
const watched = [];
// How long something may take, milliseconds: the machine is busy with other tests, and a server that is not optimised takes a minute or
// two to find out what happened in a day. Only a failure takes so long.
const patience = 240_000;
// WHYSLOW_TEST_SLOWDOWN=6 makes the page six times as slow, and the stand-ins for servers answer after up to a second.
const slowdown = Number(process.env.WHYSLOW_TEST_SLOWDOWN ?? 1);

// A page that is opened, and what it did that it must not do: requests other than those that are allowed, and errors other
// than those that a scenario expects.
export async function open(url, { mayRequest, expects = null, isReady = true, ...options }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...utc, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const wrong = [];
  // Reading pixels back is what these tests do, and not the page.
  const isOurs = (text) => text.includes("willReadFrequently") || expects?.test(text);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !isOurs(message.text()) && wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("request", (request) => mayRequest(request.url()) || wrong.push(`request: ${request.url()}`));
  page.on("dialog", (dialog) => wrong.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
  watched.push({ url, wrong });
  if (slowdown > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slowdown });
  await page.goto(url);
  if (isReady) await ready(page);
  return page;
}

// What was asked for is shown.
export const ready = (page) => page.locator("html[data-ready]").waitFor();

// Repeats a check until it passes. How soon a page shows what an action changes depends on the machine, so what it shows is always
// checked like this, also by the functions below.
export async function eventually(check) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

// Texts with plain spaces only.
const plain = (value) => (typeof value === "string" ? value.replaceAll("\u00a0", " ") : Array.isArray(value) ? value.map(plain) : value);

// What is read becomes what is expected: a value, a text that matches, or what a condition holds for. All spaces are the same.
export const becomes = (read, expected) => eventually(async () => {
  const value = plain(await read());
  if (expected instanceof RegExp) assert.match(value, expected);
  else if (expected instanceof Function) assert.ok(expected(value), `${JSON.stringify(value)}, not ${expected}`);
  else assert.deepEqual(value, plain(expected));
});

export const hasText = (locator, expected) => becomes(() => locator.innerText(), expected);
export const hasTexts = (locator, expected) => becomes(() => locator.allInnerTexts(), expected);
export const hasCount = (locator, expected) => becomes(() => locator.count(), expected);
export const isHidden = (locator) => locator.waitFor({ state: "hidden" });

export const chart = (page, title) => page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) });
export const range = (page) => page.locator(".range");
export const announced = (page) => page.locator("#announcer");

// A link has led to a chart.
export const focused = (page, title) => chart(page, title).and(page.locator(":focus")).waitFor();

// Brings a chart into sight, and waits until it is drawn.
export async function drawn(page, title) {
  const figure = chart(page, title);
  await figure.scrollIntoViewIfNeeded();
  await figure.locator("canvas").waitFor();
  return figure;
}

// Two frames: the first one draws.
export const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// Scrolls an element, frame by frame, as fast as they are drawn: how long frames took, milliseconds, and how many of `rows`
// there were at most.
export async function scrolled(page, { scroller = "html", by, rows = scroller }) {
  const { times, most } = await page.evaluate(async ([scroller, by, rows]) => {
    const element = document.querySelector(scroller);
    const times = [];
    let most = 0;
    let before = performance.now();
    for (let i = 0; i < 120; i += 1) {
      element.scrollTop += by;
      await new Promise((done) => requestAnimationFrame(done));
      const now = performance.now();
      times.push(now - before);
      before = now;
      most = Math.max(most, document.querySelectorAll(rows).length);
    }
    return { times: times.sort((a, b) => a - b), most };
  }, [scroller, by, rows]);
  const at = (part) => times[Math.floor(part * (times.length - 1))];
  const [median, long, longest] = [0.5, 0.95, 1].map((part) => at(part).toFixed(1));
  return { median: at(0.5), most, words: `frames of ${median} ms (median), ${long} ms (95 %), ${longest} ms (longest)` };
}

// Brings all charts into sight, one after the other.
export const drawAll = (page) => page.evaluate(async () => {
  const seen = new Set();
  for (;;) {
    const figure = [...document.querySelectorAll("figure")].find((one) => !seen.has(one));
    if (!figure) return;
    seen.add(figure);
    figure.scrollIntoView();
    // One that stands for charts makes room for them.
    while (figure.isConnected && !figure.querySelector("canvas")) await new Promise((done) => requestAnimationFrame(done));
  }
});

// Unfolds everything; of the charts' tables only the first one: axe takes long for thousands of cells.
export const unfold = (page) => page.evaluate(() => {
  const all = [...document.querySelectorAll("details:not(.data)"), document.querySelector("details.data")];
  for (const details of all) if (details) details.open = true;
});

// Drags over a chart from one part of its width to another.
export async function drag(page, title, from, to, { key } = {}) {
  const figure = await drawn(page, title);
  const plot = figure.locator(".u-over");
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  const y = box.y + box.height / 2;
  if (key) await page.keyboard.down(key);
  await page.mouse.move(box.x + from * box.width, y);
  await page.mouse.down();
  await page.mouse.move(box.x + ((from + to) / 2) * box.width, y, { steps: 4 });
  await page.mouse.move(box.x + to * box.width, y, { steps: 4 });
  await page.mouse.up();
  if (key) await page.keyboard.up(key);
  await settled(page);
}

// The span that is shown goes from one minute past three to another, give or take `by`.
export const near = (page, [from, to], by = 1) => eventually(async () => {
  const text = await range(page).innerText();
  const minutes = [...text.matchAll(/(\d\d):(\d\d):(\d\d)/g)].map(([, hour, minute, second]) => (Number(hour) - 3) * 60 + Number(minute) + Number(second) / 60);
  assert.ok(Math.abs(minutes[0] - from) <= by && Math.abs(minutes[1] - to) <= by, `${text}, not ${from}–${to}`);
});

// How many pixels of a chart's canvas are near a colour of the style sheet, left to right in so many parts.
export const colored = (figure, name, parts = 1, tolerance = 40) => figure.evaluate((element, [name, parts, tolerance]) => {
  const canvas = element.querySelector("canvas");
  const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const wanted = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const over = element.querySelector(".u-over").getBoundingClientRect();
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const [left, top] = [(over.left - box.left) * scale, (over.top - box.top) * scale];
  const [width, height] = [Math.floor(over.width * scale), Math.floor(over.height * scale)];
  const { data } = canvas.getContext("2d").getImageData(left, top, width, height);
  const counts = new Array(parts).fill(0);
  for (let i = 0; i < data.length; i += 4) {
    const distance = Math.max(...wanted.map((value, c) => Math.abs(value - data[i + c])));
    if (data[i + 3] > 200 && distance <= tolerance) counts[Math.floor((((i / 4) % width) / width) * parts)] += 1;
  }
  return counts;
}, [name, parts, tolerance]);

// What axe finds that keeps somebody from using the page; other findings are printed.
export async function serious(page, what) {
  await page.addScriptTag({ path: axe });
  const { violations, passes } = await page.evaluate(() => window.axe.run());
  assert.ok(passes.length > 15, `${what}: axe checked ${passes.length} rules`);
  const isSerious = ({ impact }) => impact === "serious" || impact === "critical";
  for (const { id, help, nodes } of violations.filter((one) => !isSerious(one))) {
    console.log(`${what}: ${id}: ${help} (${nodes.length}) ${nodes[0].html.slice(0, 120)}`);
  }
  return violations.filter(isSerious).map(({ id, help, nodes }) =>
    `${what}: ${id}: ${help}\n  ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.failureSummary}`).join("\n  ")}`);
}

// Runs one of the scenarios; it ends with status 0 if all is as expected.
export async function run(scenarios, name) {
  let failure = null;
  try {
    if (!Object.hasOwn(scenarios, name)) throw new Error(`no scenario ${name}; there are ${Object.keys(scenarios).join(", ")}`);
    await scenarios[name]();
  } catch (error) {
    failure = error;
  }
  const wrong = watched.flatMap(({ url, wrong }) => wrong.map((what) => `${url}: ${what}`));
  await browser.close();
  if (failure) console.error(failure.stack ?? failure.message);
  for (const what of wrong) console.error(what);
  process.exitCode = failure || wrong.length > 0 ? 1 : 0;
}

// The data of a chart as a table, which is made when it is unfolded.
export async function dataTable(figure) {
  await figure.getByText("Data as a table").click();
  const table = figure.locator("table.data-table");
  await table.locator("tbody tr").first().waitFor();
  return table;
}
