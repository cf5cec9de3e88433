// Lines over the last five minutes, each also as a table.
import type { VNode } from "preact";
import { dateTime, t, tenth, type Word } from "../i18n";
import { type Point, points } from "./watch";

type Series = Exclude<keyof Point, "atMs">;
interface Line {
  series: Series;
  word: Word;
  dash?: string; // lines differ by more than their colour
}
interface ChartSpec {
  word: Word;
  unit: string;
  lines: Line[];
}

const charts: ChartSpec[] = [
  {
    word: "chartTtft",
    unit: "ms",
    lines: [
      { series: "ttftP50", word: "median" },
      { series: "ttftP95", word: "p95", dash: "4 3" },
    ],
  },
  {
    word: "chartItl",
    unit: "ms",
    lines: [
      { series: "itlP50", word: "median" },
      { series: "itlP95", word: "p95", dash: "4 3" },
    ],
  },
  {
    word: "chartTokens",
    unit: "/s",
    lines: [
      { series: "tokensPerS", word: "made" },
      { series: "promptPerS", word: "read", dash: "4 3" },
    ],
  },
];

const width = 320;
const height = 110;
const spanMs = 300_000;

/** 1, 2 or 5 times a power of ten that is not below `value`. */
export function niceTop(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5]) if (value <= step * power * (1 + 1e-9)) return step * power;
  return 10 * power;
}

function pathOf(all: Point[], series: Series, endMs: number, top: number): string {
  let path = "";
  let open = false;
  for (const point of all) {
    const value = point[series];
    if (value === null) {
      open = false;
      continue;
    }
    const x = width - ((endMs - point.atMs) / spanMs) * width;
    const y = height - (value / top) * (height - 4);
    path += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    // A point alone is a dot: round ends show a line of no length.
    if (!open) path += `h0`;
    open = true;
  }
  return path;
}

function latest(series: Series): string {
  const value = points.value.at(-1)?.[series] ?? null;
  return value === null ? "–" : tenth(value);
}

function Table({ lines, unit }: ChartSpec): VNode {
  const rows = points.value.slice(-10).reverse();
  return (
    <details class="quiet">
      <summary>{t("asTable")}</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("time")}</th>
            {lines.map(({ word }) => (
              <th key={word} scope="col">
                {t(word)}, {unit}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.atMs}>
              <td>{dateTime(row.atMs)}</td>
              {lines.map(({ series }) => (
                <td key={series} class="number">
                  {row[series] === null ? "–" : tenth(row[series])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function Chart(spec: ChartSpec): VNode {
  const all = points.value;
  const endMs = all.at(-1)?.atMs ?? Date.now();
  const top = niceTop(
    Math.max(0, ...all.flatMap((point) => spec.lines.map(({ series }) => point[series] ?? 0))),
  );
  const words = spec.lines.map(({ series, word }) => `${t(word)} ${latest(series)} ${spec.unit}`).join(", ");
  return (
    <figure class="panel chart">
      <figcaption>
        <h3>{t(spec.word)}</h3>
        <ul class="legend">
          {spec.lines.map(({ series, word, dash }, i) => (
            <li key={series}>
              <svg viewBox="0 0 20 6" width={20} height={6} aria-hidden="true">
                <path d="M0 3H20" class={`line line-${i}`} stroke-dasharray={dash} />
              </svg>{" "}
              {t(word)} <b class="number">{latest(series)}</b> {spec.unit}
            </li>
          ))}
        </ul>
      </figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${t(spec.word)}: ${words}`}>
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <path class="grid" d={`M0 ${height - part * (height - 4)}H${width}`} />
            {part > 0 && (
              <text x={2} y={height - part * (height - 4) + 10}>
                {tenth(top * part)}
              </text>
            )}
          </g>
        ))}
        {spec.lines.map(({ series, dash }, i) => (
          <path
            key={series}
            class={`line line-${i}`}
            d={pathOf(all, series, endMs, top)}
            stroke-dasharray={dash}
          />
        ))}
      </svg>
      <Table {...spec} />
    </figure>
  );
}

export function Charts(): VNode {
  return (
    <section class="charts" aria-label={t("charts")}>
      {charts.map((spec) => (
        <Chart key={spec.word} {...spec} />
      ))}
    </section>
  );
}
