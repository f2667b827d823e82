// The page of the real `whyslow-fleet serve` in a real browser: `node fleetserve.mjs URL`, as crates/fleet/tests/serve.rs starts it
// over a store of three hours, in the second half of which `db` loses half of its time.

import assert from "node:assert/strict";
import { request } from "node:http";
import { announced, dataTable, drawn, hasText, open as openPage, ready, run } from "./driver.mjs";

const [url] = process.argv.slice(2);
const address = new URL(url);
const time = "&from=1732615200&to=1732626000";
const open = (more = "") => openPage(`${url}${time}${more}`, { mayRequest: (requested) => requested.startsWith(address.origin) });
const side = (page) => page.locator(".fleet-side");

// The status of a request with headers that a browser would not let a page set.
const status = (path, headers) => new Promise((done, failed) => {
  request({ host: address.hostname, port: address.port, path, headers: { Host: address.host, ...headers } }, (response) => {
    response.resume();
    done(response.statusCode);
  }).on("error", failed).end();
});

async function fleet() {
  const page = await open();
  await hasText(page.locator("#fleet-heading"), "1 of 2 hosts sick");
  await side(page).getByText("Not reporting: 1 host").waitFor();
  await page.locator(".heat-scroller").focus();
  await page.keyboard.press("ArrowDown");
  await hasText(announced(page), /^db, 26 Nov 2024, 12:55:00–13:00:00 UTC: 50 % of the time lost, mostly to Disk saturated\.$/);
  await page.getByLabel("Group by").selectOption("role");
  await page.waitForURL(/by=role/);
  await ready(page);
  await hasText(side(page), /By role\s+db\s+1 of 1 host sick/);
  await side(page).getByRole("link", { name: "Disk saturated" }).click();
  await side(page).getByRole("heading", { name: "Why: Disk saturated" }).waitFor();
  await side(page).getByRole("link", { name: "← Overview" }).click();
  await side(page).getByRole("link", { name: "kernel release: 6.9" }).click();
  await side(page).getByText("too few hosts to tell").waitFor();
  await side(page).getByRole("link", { name: "← Overview" }).click();
  await page.locator(".heat-scroller").focus();
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator("#answer h2", { hasText: "Disk saturated" }).waitFor();
  const lost = await drawn(page, "Time lost");
  await hasText((await dataTable(lost)).locator("tbody tr").last(), /^13:00:00\s+50\.?0? %$/);
  await drawn(page, "Disk throughput");
  await page.getByText("What the host itself recorded").click();
  await hasText(page.locator(".site .command code"), /^ssh -- db 'whyslow explain --from 2024-11-26T10:00:00Z --to 2024-11-26T13:00:00Z'$/);
  await page.getByRole("link", { name: "← All hosts" }).click();
  await page.locator(".heat-scroller").waitFor();
  await ready(page);
  const api = `/api/sick?token=${address.searchParams.get("token")}`;
  assert.equal(await status(api, {}), 200);
  assert.equal(await status("/api/sick?token=wrong", {}), 401);
  assert.equal(await status(api, { Host: "evil.example" }), 403);
  assert.equal(await status(api, { Origin: "http://evil.example" }), 403);
}

await run({ fleet }, "fleet");
