// What the dashboard shows, asked for while it is shown: the state every second, metrics every two.
import { signal } from "@preact/signals";
import { type ServerState, serverState, type Trace, timeline } from "../admin";
import { ApiError } from "../http";
import { t } from "../i18n";
import { buckets, bucketsBetween, quantile, type Scrape, scrapeMetrics, sum } from "../metrics";
import { everyWhileVisible } from "../server";

export const timelineMs = 15_000;
const samplesMax = 150; // five minutes of charts
const windowSamples = 15; // quantiles look back so far: half a minute

export const complaint = signal("");
export const state = signal<ServerState | null>(null);
export const before = signal<ServerState | null>(null); // the state a round ago, for rates
export const trace = signal<Trace | null>(null);

/** One point of the charts; null where nothing was observed. */
export interface Point {
  atMs: number;
  ttftP50: number | null;
  ttftP95: number | null;
  itlP50: number | null;
  itlP95: number | null;
  tokensPerS: number | null;
  promptPerS: number | null;
  requestsPerS: number | null;
}
export const points = signal<Point[]>([]);
const scrapes: { atMs: number; scrape: Scrape }[] = [];

function failure(error: unknown): void {
  if (error instanceof ApiError) complaint.value = error.message;
  else if (error instanceof TypeError) complaint.value = t("unreachable");
  else throw error;
}

async function stateRound(): Promise<void> {
  try {
    const now = await serverState();
    // Counters that went down belong to a new run of the server.
    before.value = state.value && state.value.now_us < now.now_us ? state.value : null;
    state.value = now;
    if (now.model) trace.value = await timeline(timelineMs);
    complaint.value = "";
  } catch (error) {
    failure(error);
  }
}

/** Counts only grow: one that fell belongs to a new run, and what came before is of no use. */
function restarted(old: Scrape, now: Scrape): boolean {
  return sum(old, "process_start_time_seconds") !== sum(now, "process_start_time_seconds");
}

function pointOf(atMs: number, scrape: Scrape): Point {
  const back = scrapes.at(-Math.min(windowSamples, scrapes.length));
  const last = scrapes.at(-1);
  const perS = (name: string) =>
    last ? ((sum(scrape, name) - sum(last.scrape, name)) * 1000) / Math.max(atMs - last.atMs, 1) : null;
  const over = (share: number, name: string) => {
    if (!back) return null;
    const seconds = quantile(share, bucketsBetween(buckets(back.scrape, name), buckets(scrape, name)));
    return seconds === null ? null : seconds * 1000;
  };
  return {
    atMs,
    ttftP50: over(0.5, "vllm:time_to_first_token_seconds"),
    ttftP95: over(0.95, "vllm:time_to_first_token_seconds"),
    itlP50: over(0.5, "vllm:inter_token_latency_seconds"),
    itlP95: over(0.95, "vllm:inter_token_latency_seconds"),
    tokensPerS: perS("vllm:generation_tokens_total"),
    promptPerS: perS("vllm:prompt_tokens_total"),
    requestsPerS: perS("vllm:request_success_total"),
  };
}

async function metricsRound(): Promise<void> {
  try {
    const scrape = await scrapeMetrics();
    const atMs = Date.now();
    const last = scrapes.at(-1);
    if (last && restarted(last.scrape, scrape)) {
      scrapes.length = 0;
      points.value = [];
    }
    points.value = [...points.value, pointOf(atMs, scrape)].slice(-samplesMax);
    scrapes.push({ atMs, scrape });
    if (scrapes.length > windowSamples) scrapes.shift();
  } catch (error) {
    failure(error);
  }
}

export function watchDashboard(): () => void {
  const ends = [everyWhileVisible(1000, stateRound), everyWhileVisible(2000, metricsRound)];
  return () => {
    for (const end of ends) end();
  };
}
