// The Prometheus text of /metrics, and what can be told from two scrapes of it.
import { sendOk } from "./http";

export interface Sample {
  labels: Record<string, string>;
  value: number;
}
export type Scrape = Map<string, Sample[]>;

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

function number(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  return text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);
}

export function parseMetrics(text: string): Scrape {
  const scrape: Scrape = new Map();
  for (const row of text.split("\n")) {
    const found = line.exec(row);
    if (!found?.[1] || !found[3]) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(label))
      if (name) labels[name] = (value ?? "").replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
    const samples = scrape.get(found[1]) ?? [];
    samples.push({ labels, value: number(found[3]) });
    scrape.set(found[1], samples);
  }
  return scrape;
}

/** The sum over all labels. */
export function sum(scrape: Scrape, name: string): number {
  return (scrape.get(name) ?? []).reduce((total, { value }) => total + value, 0);
}

/** Upper bounds and how many observations lie at or below each, from a histogram's buckets. */
export function buckets(scrape: Scrape, name: string): [number, number][] {
  const counts = new Map<number, number>();
  for (const { labels, value } of scrape.get(`${name}_bucket`) ?? []) {
    const upper = number(labels.le ?? "+Inf");
    counts.set(upper, (counts.get(upper) ?? 0) + value);
  }
  return [...counts].sort(([a], [b]) => a - b);
}

/** What was observed between two scrapes. */
export function bucketsBetween(before: [number, number][], after: [number, number][]): [number, number][] {
  const old = new Map(before);
  return after.map(([upper, n]) => [upper, n - (old.get(upper) ?? 0)]);
}

/** A quantile of what the buckets hold, interpolated within its bucket; null of nothing. */
export function quantile(share: number, counts: [number, number][]): number | null {
  const total = counts.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  let lower = 0;
  let below = 0;
  for (const [upper, n] of counts) {
    if (n >= rank && n > below) {
      if (upper === Number.POSITIVE_INFINITY) return lower;
      return lower + ((upper - lower) * (rank - below)) / (n - below);
    }
    lower = upper;
    below = n;
  }
  return lower;
}

export async function scrapeMetrics(): Promise<Scrape> {
  return parseMetrics(await (await sendOk("/metrics")).text());
}
