// The server's state and numbers, asked for every few seconds while the page is visible.
import { getJson, getMetrics } from "./api.js";

const PERIOD_MS = 2000;
const by = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

/** The served model's id, or null while there is none. */
export let model = null;

let before = null; // the last sample of made tokens: {tokens, at}

function showState(state, words) {
  by("state").dataset.state = state;
  // Only a change is announced to screen readers.
  if (by("state").textContent !== words) by("state").textContent = words;
}

function stateWords({ status, phase, percent, lost_devices: lost }) {
  if (status === "loading") return `${phase}, ${percent} %`;
  return lost?.length ? `${status}, lost ${lost.join(", ")}` : status;
}

function show(id, value, format = count) {
  by(id).textContent = value === undefined ? "–" : format.format(value);
}

function showNumbers(metrics) {
  show("running", metrics.get("vllm:num_requests_running"));
  show("waiting", metrics.get("vllm:num_requests_waiting"));
  show("cache", metrics.get("vllm:kv_cache_usage_perc"), share);
  const tokens = metrics.get("vllm:generation_tokens_total");
  show("made", tokens);
  const now = performance.now();
  // A count that went down belongs to a new run of the server.
  if (before && tokens >= before.tokens) show("speed", Math.round(((tokens - before.tokens) * 1000) / (now - before.at)));
  if (tokens !== undefined) before = { tokens, at: now };
}

async function showModel() {
  const first = (await getJson("/v1/models")).data?.[0];
  model = first?.id ?? null;
  by("model").textContent = model ?? "–";
  show("context", first?.max_model_len);
}

async function refresh() {
  try {
    const alive = await fetch("/health", { cache: "no-store" });
    if (!alive.ok) throw new Error();
  } catch {
    model = null;
    before = null;
    by("version").textContent = "";
    return showState("bad", "not reachable");
  }
  try {
    const ready = await fetch("/ready", { cache: "no-store" });
    const told = await ready.json();
    showState({ ready: "good", failed: "bad" }[told.status] ?? "wait", stateWords(told));
    if (!by("version").textContent) by("version").textContent = (await getJson("/version")).version ?? "";
    if (!model) await showModel();
    showNumbers(await getMetrics());
  } catch {
    // One missing number is not the server's state; the next round asks again.
  }
}

/** Starts the rounds; a hidden page asks nothing. */
export async function watch() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}
