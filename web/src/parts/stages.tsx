// Where a request's time went: a bar for each stage that happened, with its time in words.
import type { VNode } from "preact";
import { duration, t, type Word } from "../i18n";

export interface Stage {
  name: Word;
  kind: string; // its colour
  ms: number;
}

interface StageTimes {
  image_fetch_ms?: number;
  image_decode_ms?: number;
  queue_ms?: number;
  encode_ms?: number;
  transfer_ms?: number;
  prefill_ms?: number;
  kv_transfer_ms?: number;
  decode_ms?: number;
}

export function stagesOf(times: StageTimes): Stage[] {
  const stages: [Word, string, number | undefined][] = [
    ["stageFetch", "transfer", times.image_fetch_ms],
    ["stagePictures", "prepare", times.image_decode_ms],
    ["stageQueue", "queue", times.queue_ms],
    ["stageEncode", "encode", times.encode_ms],
    ["stageTransfer", "transfer", times.transfer_ms],
    ["stagePrefill", "prefill", times.prefill_ms],
    ["stageKv", "transfer", times.kv_transfer_ms],
    ["stageDecode", "decode", times.decode_ms],
  ];
  return stages.flatMap(([name, kind, ms]) => (ms === undefined ? [] : [{ name, kind, ms }]));
}

/** Each stage begins where the one above ended: stages that overlapped are drawn as if they had not. */
export function StageBars({ stages }: { stages: Stage[] }): VNode {
  const total = Math.max(
    stages.reduce((sum, { ms }) => sum + ms, 0),
    1e-6,
  );
  let begin = 0;
  return (
    <ol class="stages">
      {stages.map(({ name, kind, ms }, i) => {
        const left = (begin / total) * 100;
        begin += ms;
        return (
          <li key={i}>
            <span>{t(name)}</span>
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect
                class={`kind-${kind}`}
                x={left}
                y={0}
                width={Math.max((ms / total) * 100, 0.4)}
                height={8}
              />
            </svg>
            <span class="number">{duration(ms)}</span>
          </li>
        );
      })}
    </ol>
  );
}
