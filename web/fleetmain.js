// Starts the page of `whyslow-fleet serve`.

import { element, fill } from "./dom.js";
import { FleetPage } from "./fleet.js";
import { theme } from "./theme.js";

let page = null;

try {
  page = new FleetPage(theme(() => page?.recolor()));
  page.start();
} catch (error) {
  fill(document.querySelector("main"), element("p", { className: "failure", attributes: { role: "alert" } },
    `This page cannot be shown: ${error.message}`));
}
