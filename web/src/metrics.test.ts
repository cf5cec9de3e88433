// Proves that Prometheus text is read as it is defined, and that quantiles come from the buckets.
import { expect, test } from "vitest";
import { buckets, bucketsBetween, parseMetrics, quantile, sum } from "./metrics";

const text = `# HELP a_total Words.
# TYPE a_total counter
a_total{kind="x\\"y\\\\",z="1"} 3
a_total{kind="b"} 4.5e1
up 1
h_bucket{le="0.1"} 2
h_bucket{le="1"} 6
h_bucket{le="+Inf"} 8
h_sum 9
h_count 8
`;
const scrape = parseMetrics(text);

test("labels with escapes, sums over labels, values without labels", () => {
  expect(scrape.get("a_total")?.[0]).toEqual({ labels: { kind: 'x"y\\', z: "1" }, value: 3 });
  expect(sum(scrape, "a_total")).toBe(48);
  expect(sum(scrape, "up")).toBe(1);
  expect(sum(scrape, "missing")).toBe(0);
});

test("quantiles lie within their bucket; beyond the last bound they are that bound", () => {
  const counts = buckets(scrape, "h");
  expect(counts).toEqual([
    [0.1, 2],
    [1, 6],
    [Number.POSITIVE_INFINITY, 8],
  ]);
  expect(quantile(0.25, counts)).toBeCloseTo(0.1);
  expect(quantile(0.5, counts)).toBeCloseTo(0.55);
  expect(quantile(0.99, counts)).toBe(1);
  expect(quantile(0.5, [])).toBeNull();
});

test("between two scrapes only what was new counts", () => {
  const before: [number, number][] = [
    [0.1, 2],
    [1, 5],
  ];
  expect(bucketsBetween(before, buckets(scrape, "h")).slice(0, 2)).toEqual([
    [0.1, 0],
    [1, 1],
  ]);
});
