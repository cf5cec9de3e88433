// What each device did in the last seconds: a row for each kind of its work, a bar for each order.
import type { VNode } from "preact";
import type { Trace, TraceEvent } from "../admin";
import { share, t, type Word } from "../i18n";
import { timelineMs, trace } from "./watch";

const width = 1000;
const rowHeight = 12;

/** Kinds of work in the order of their rows; names as the server's trace has them. */
const kinds: { names: string[]; word: Word; kind: string }[] = [
  { names: ["encode"], word: "kindEncode", kind: "encode" },
  { names: ["transfer embeddings", "transfer KV"], word: "kindTransfer", kind: "transfer" },
  { names: ["prefill"], word: "kindPrefill", kind: "prefill" },
  { names: ["decode"], word: "kindDecode", kind: "decode" },
  { names: ["stolen prefill", "stolen decode"], word: "kindStolen", kind: "stolen" },
];

interface Lane {
  name: string;
  rows: { word: Word; kind: string; path: string; share: number; count: number }[];
}

/** Bars of one row as one path; those that touch on the screen are joined. */
function barsOf(events: TraceEvent[], startUs: number, y: number): string {
  const scale = width / (timelineMs * 1000);
  let path = "";
  let begin = Number.NEGATIVE_INFINITY;
  let end = Number.NEGATIVE_INFINITY;
  const close = () => {
    if (end > 0)
      path += `M${begin.toFixed(1)} ${y}H${end.toFixed(1)}V${y + rowHeight - 2}H${begin.toFixed(1)}Z`;
  };
  for (const { ts, dur } of events) {
    const left = Math.max((ts - startUs) * scale, 0);
    const right = Math.max((ts + dur - startUs) * scale, left + 0.6);
    if (left <= end + 0.3) {
      end = Math.max(end, right);
    } else {
      close();
      begin = left;
      end = right;
    }
  }
  close();
  return path;
}

export function lanesOf({ traceEvents, otherData }: Trace): Lane[] {
  const startUs = otherData.now_us - timelineMs * 1000;
  const lanes = traceEvents.filter(({ ph, name }) => ph === "M" && name === "thread_name");
  lanes.sort((a, b) => (a.args.name ?? "").localeCompare(b.args.name ?? "", "en", { numeric: true }));
  return lanes.map(({ tid, args }) => {
    const own = traceEvents.filter((event) => event.ph === "X" && event.tid === tid);
    const rows = kinds.flatMap(({ names, word, kind }) => {
      const events = own.filter(({ name }) => names.includes(name));
      if (events.length === 0) return [];
      const busy = events.reduce((total, { ts, dur }) => total + (ts + dur - Math.max(ts, startUs)), 0);
      return [{ word, kind, events, share: Math.min(busy / (timelineMs * 1000), 1), count: events.length }];
    });
    return {
      name: args.name ?? "",
      rows: rows.map(({ events, ...row }, i) => ({
        ...row,
        path: barsOf(events, startUs, i * rowHeight + 1),
      })),
    };
  });
}

function LaneView({ name, rows }: Lane): VNode {
  const height = Math.max(rows.length, 1) * rowHeight;
  return (
    <li class="lane">
      <strong>{name}</strong>
      <div>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          class={`lane-rows rows-${rows.length}`}
        >
          <rect class="track" width={width} height={height} />
          {rows.map(({ kind, path }) => (
            <path key={kind} class={`kind-${kind}`} d={path} />
          ))}
        </svg>
        <ul class="legend">
          {rows.length === 0 && <li>{t("idle")}</li>}
          {rows.map(({ word, kind, share: part, count }) => (
            <li key={kind}>
              <span class={`swatch kind-${kind}`} aria-hidden="true" />{" "}
              {t("workOf", { work: t(word), share: share(part), n: count })}
            </li>
          ))}
        </ul>
      </div>
    </li>
  );
}

export function LaneTimeline(): VNode {
  return (
    <section class="panel" aria-labelledby="lanes-title">
      <h3 id="lanes-title">
        {t("lanes")} <span class="quiet">{t("lastSeconds", { n: timelineMs / 1000 })}</span>
      </h3>
      {trace.value ? (
        <ul class="lanes">
          {lanesOf(trace.value).map((lane) => (
            <LaneView key={lane.name} {...lane} />
          ))}
        </ul>
      ) : (
        <p class="quiet">{t("nothingYet")}</p>
      )}
      <p class="quiet">
        {t("traceHint")} <a href="/debug/timeline">/debug/timeline</a>
      </p>
    </section>
  );
}
