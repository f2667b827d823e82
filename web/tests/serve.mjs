// The page of the real `whyslow serve` in a real browser: `node serve.mjs SCENARIO URL`, as tests/serve_page.rs starts it.
// `node serve.mjs screenshots URL FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { attack, override } from "./documents.mjs";
import { becomes, colored, dataTable, drag, drawAll, drawn, eventually, hasCount, hasText, open as openPage, range, ready, run, scrolled, serious, settled, unfold } from "./driver.mjs";

const [scenario, url, folder] = process.argv.slice(2);
const address = new URL(url);

function open(options = {}, more = "") {
  return openPage(url + more, { mayRequest: (requested) => requested.startsWith(address.origin), ...options });
}

// Opens one of the hosts from the list.
async function openHost(page, name) {
  await page.getByRole("table", { name: "Hosts" }).waitFor();
  await page.getByRole("searchbox").fill(name);
  await page.locator(".host-rows").getByRole("link", { name, exact: true }).first().click();
  await ready(page);
}

// Waits until all series have been compared.
const compared = (page, result) => becomes(() => page.locator("#differences").innerText(), (text) => result.test(text) && !text.includes("being loaded"));

const seconds = (text) => text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

// The status of a request with headers that a browser would not let a page set.
const status = (path, headers) => new Promise((done, failed) => {
  request({ host: address.hostname, port: address.port, path, headers: { Host: address.host, ...headers } }, (response) => {
    response.resume();
    done(response.statusCode);
  }).on("error", failed).end();
});

const scenarios = {
  async live() {
    const page = await open({}, "&host=live");
    await page.locator(".live").waitFor();
    await becomes(() => page.title(), /^(Bottleneck|Healthy|Undetermined|whyslow)/);
    const time = await drawn(page, "CPU time by mode");
    const rows = (await dataTable(time)).locator("tbody tr");
    const before = await rows.count();
    await becomes(() => rows.count(), (count) => count >= before + 4);
    // A row for each sample, in order, without a hole.
    const times = (await rows.locator("th").allInnerTexts()).map(seconds);
    const steps = times.slice(1).map((at, i) => (at - times[i] + 86400) % 86400);
    assert.ok(steps.every((step) => step > 0 && step <= 6), `${times}`);
    await hasText(rows.last(), /\d\s%/);
    await becomes(async () => [...await colored(time, "series-1", 1, 70), ...await colored(time, "series-2", 1, 70)], ([user, system]) => user + system > 0);
    await page.locator("#answer .verdict").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    // Charts out of sight do not grow, and the button is far above.
    await time.scrollIntoViewIfNeeded();
    let paused = 0;
    await eventually(async () => {
      paused = await rows.count();
      await page.waitForTimeout(3000);
      assert.equal(await rows.count(), paused);
    });
    await page.keyboard.press("p");
    await becomes(() => rows.count(), (count) => count >= paused + 3);
  },

  // A day in which two CPUs were busy from 06:00 to 06:30.
  async recorded() {
    const page = await open();
    await openHost(page, "day");
    await becomes(() => page.title(), /^whyslow: day/);
    await hasText(page.locator("#answer h2"), /There is more work than 2 CPUs can do/);
    await hasCount(page.locator(".bar"), 1);
    await hasText(range(page), /\(24\.0 h\)/);
    const time = await drawn(page, "CPU time by mode");
    // A quarter of the day, and a 48th of it.
    await becomes(() => colored(time, "series-1", 96, 70), (parts) => {
      const busiest = parts.indexOf(Math.max(...parts));
      return busiest >= 23 && busiest <= 26;
    });
    await page.getByRole("button", { name: "Last hour" }).click();
    await hasText(range(page), /\((1 h|60 min)\)/);
    await page.goBack();
    await hasText(range(page), /\(24\.0 h\)/);
  },

  async zoom() {
    const page = await open();
    await openHost(page, "day");
    const time = await drawn(page, "CPU time by mode");
    await dataTable(time);
    const steps = async () => {
      const [a, b] = (await time.locator("table.data-table tbody th").allInnerTexts()).slice(0, 2).map(seconds);
      return b - a;
    };
    await becomes(steps, (step) => step >= 60);
    const coarse = await steps();
    await drag(page, "CPU time by mode", 0.24, 0.28);
    await becomes(steps, (step) => step <= 20);
    // The change from idle to busy is seen to the sample.
    await drag(page, "CPU time by mode", 0.05, 0.6, { key: "Shift" });
    await compared(page, /of \d+ series/);
    await page.getByRole("button", { name: "Reset" }).click();
    await becomes(steps, coarse);
  },

  async brush() {
    const page = await open();
    await openHost(page, "day");
    await page.locator(".bar").first().click();
    await page.locator(".episode").getByRole("button", { name: "Compare with before" }).click();
    const section = page.locator("#differences");
    await section.waitFor();
    await compared(page, /\d+ of \d+ series differ clearly from before\./);
    await hasText(section.locator("tbody th").first(), /CPU|Tasks|spin/);
  },

  // Those who do not have the token, and pages of others.
  async refused() {
    const page = await openPage(`${address.origin}/?token=wrong`, { mayRequest: () => true, expects: /401/, isReady: false });
    const text = await page.locator("body").innerText();
    assert.match(text, /The token is missing or wrong/);
    const api = `/api/overview?${address.searchParams}`;
    assert.equal(await status(api, {}), 200);
    assert.equal(await status("/api/overview", {}), 401);
    assert.equal(await status(api, { Host: "evil.example" }), 403);
    assert.equal(await status(api, { Origin: "http://evil.example" }), 403);
    assert.equal(await status(api, { Origin: address.origin }), 200);
    // A page of somebody else who knows even the token reads nothing.
    const other = createServer((request, response) => response.writeHead(200, { "content-type": "text/html" }).end("<title>evil</title>"));
    await new Promise((done) => other.listen(0, "127.0.0.1", done));
    const foreign = await openPage(`http://127.0.0.1:${other.address().port}/`, { mayRequest: () => true, expects: /CORS|Failed to load|frame|refused to connect|favicon/i, isReady: false });
    const read = await foreign.evaluate(async (target) => {
      const tries = [fetch(target), fetch(target, { mode: "no-cors" }).then((response) => response.text())];
      return Promise.all(tries.map((one) => one.then((answer) => (typeof answer === "string" ? answer : "an answer"), () => "nothing")));
    }, address.origin + api);
    assert.deepEqual(read.filter((one) => one !== "nothing" && one !== ""), []);
    // Nor does it show the page in a frame.
    const framed = await foreign.evaluate((target) => new Promise((done) => {
      const frame = document.createElement("iframe");
      frame.src = target;
      frame.onload = () => done(frame.contentDocument === null ? "hidden" : frame.contentDocument.body.textContent);
      document.body.append(frame);
    }), url);
    assert.ok(["hidden", ""].includes(framed), framed);
    const frames = foreign.frames().slice(1);
    for (const frame of frames) assert.ok(!(await frame.content()).includes("whyslow: hosts"));
    await new Promise((done) => other.close(done) && other.closeAllConnections());
  },

  async hostile() {
    const page = await open();
    await page.getByRole("table", { name: "Hosts" }).waitFor();
    await page.getByRole("searchbox").fill("script");
    // Until it has been looked at, it goes by the name of its folder.
    await page.locator(".host-rows a").first().waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await hasCount(page.locator("img"), 0);
    await becomes(() => page.locator(".host-rows").innerText(), (text) => text.includes(attack));
    await page.locator(".host-rows a").first().click();
    await ready(page);
    await drawAll(page);
    await unfold(page);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    const text = await page.locator("body").innerText();
    assert.ok(text.includes(attack) && text.includes("a\\u{202e}gnp.exe"));
    assert.ok(!(await page.evaluate(() => document.body.textContent)).includes(override));
    assert.ok(!(await page.title()).includes("\u202e"));
  },

  // 200 recordings: what is known of them comes as it is worked out.
  async hosts() {
    const page = await open();
    const table = page.getByRole("table", { name: "Hosts" });
    await table.waitFor();
    await becomes(() => table.getAttribute("aria-rowcount"), "202");
    await page.locator(".host-rows .host-period").filter({ hasText: / to 21 Nov/ }).first().waitFor();
    console.log(`200 hosts: ${(await scrolled(page, { by: 97 })).words}`);
  },

  async day() {
    const page = await open();
    await page.getByRole("table", { name: "Hosts" }).waitFor();
    await page.getByRole("searchbox").fill("day");
    const begin = Date.now();
    await page.locator(".host-rows").getByRole("link", { name: "day", exact: true }).click();
    await page.locator("figure canvas").first().waitFor();
    console.log(`a day was drawn ${Date.now() - begin} ms after the click`);
  },

  async accessible() {
    const page = await open({ bypassCSP: true }, "&host=live");
    await page.locator("#answer .verdict").waitFor();
    await unfold(page);
    await page.getByRole("button", { name: "Pause" }).click();
    const found = await serious(page, "live");
    await page.getByRole("link", { name: "← All hosts" }).click();
    await page.getByRole("table", { name: "Hosts" }).waitFor();
    found.push(...await serious(page, "hosts"));
    await openHost(page, "day");
    await drawAll(page);
    found.push(...await serious(page, "recorded"));
    assert.deepEqual(found, []);
  },

  // To be looked at by a person; nothing is checked.
  async screenshots() {
    const narrow = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 };
    for (const [kind, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["narrow", narrow]]) {
      const page = await open(options);
      await page.getByRole("table", { name: "Hosts" }).waitFor();
      await page.waitForTimeout(4000);
      await page.screenshot({ path: `${folder}/real-hosts-${kind}.png` });
      await openHost(page, "day");
      await drawAll(page);
      await settled(page);
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `${folder}/real-recorded-${kind}.png`, fullPage: true });
      const live = await open(options, "&host=live");
      await live.locator("#answer .verdict").waitFor();
      await drawAll(live);
      await live.evaluate(() => scrollTo(0, 0));
      await settled(live);
      await live.screenshot({ path: `${folder}/real-live-${kind}.png`, fullPage: true });
    }
  },
};

await run(scenarios, scenario);
