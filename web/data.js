// Where documents come from: a report contains its own; otherwise the server that sent the page has them.

import { capital } from "./words.js";

// The document of a report, or null.
export function embedded() {
  const found = document.getElementById("document");
  if (!found) return null;
  const page = JSON.parse(found.textContent);
  // Charts share their times.
  page.charts.forEach((chart, i) => (chart.times = page.axes[page.axis_of[i]]));
  return page;
}

// An answer that takes longer never comes.
const patience = 60_000;

const said = {
  401: ["token", "The server does not accept the token in this page's address. If it was started again, open the address that it printed."],
  403: ["refused", "The server refuses this page."],
  404: ["missing", "The server does not have this."],
  503: ["busy", "The server is busy."],
};

// Why there is no answer, in a sentence. `lost` and `busy` pass.
export class RequestError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }

  get isTemporary() {
    return this.kind === "lost" || this.kind === "busy";
  }
}

// The interface of a server, which is this program.
export class Client {
  constructor(token, program = "whyslow serve") {
    Object.assign(this, { token, program });
  }

  // What can be looked at.
  overview(signal) {
    return this.get("api/overview", {}, signal);
  }

  // The document of a host; of a span, if `from` and `to` are given.
  page(host, parameters, signal) {
    return this.get("api/page", { host, ...parameters }, signal);
  }

  // What is newer than a moment, or null.
  newer(host, since, signal) {
    return this.get("api/page", { host, since }, signal);
  }

  // What requests and packets pass through, with their load: of a recording at a moment, of a live machine now.
  stack(host, at, signal) {
    return this.get("api/stack", { host, at }, signal);
  }

  // A profile of the whole live machine, which takes as long as it says.
  profile(host, parameters, signal) {
    return this.get("api/profile", { host, ...parameters }, signal);
  }

  // The document at a path, or null if there is nothing new.
  async get(path, parameters, signal) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => (value ?? null) !== null));
    const limits = [AbortSignal.timeout(patience), ...(signal ? [signal] : [])];
    let response;
    let text;
    try {
      response = await fetch(`${path}?${query}`, {
        headers: { Authorization: `Bearer ${this.token}` }, cache: "no-store", credentials: "omit", signal: AbortSignal.any(limits),
      });
      text = await response.text();
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new RequestError("lost", `Connection lost: ${this.program} does not answer.`);
    }
    if (response.status === 204) return null;
    if (!response.ok) throw refusal(response.status, text);
    try {
      return JSON.parse(text);
    } catch {
      throw new RequestError("failed", "The server's answer is not what this page understands.");
    }
  }
}

function refusal(status, text) {
  const [kind, message] = Object.hasOwn(said, status) ? said[status] : ["failed", `The server answers with status ${status}.`];
  // What a token is for is said above in the words of a browser.
  const reason = kind === "token" ? null : explained(text);
  return new RequestError(kind, reason ?? message);
}

// The reason in an answer that refuses, as a sentence.
function explained(text) {
  try {
    const { error } = JSON.parse(text);
    if (typeof error !== "string" || error === "") return null;
    return `${capital(error)}${/[.!?]$/.test(error) ? "" : "."}`;
  } catch {
    return null;
  }
}
