// One row of the request log in full.
import type { VNode } from "preact";
import type { LogRow } from "../admin";
import { bytes, count, dateTime, duration, fine, t, tenth, type Word } from "../i18n";
import { StageBars, stagesOf } from "../parts/stages";

const ms = (us: number | null) => (us === null ? {} : { at: us / 1000 }).at;

function stageTimes(row: LogRow) {
  const times = {
    image_fetch_ms: ms(row.image_fetch_us),
    image_decode_ms: ms(row.image_decode_us),
    queue_ms: ms(row.queue_us),
    encode_ms: ms(row.encode_us),
    transfer_ms: ms(row.transfer_us),
    prefill_ms: ms(row.prefill_us),
    kv_transfer_ms: ms(row.kv_transfer_us),
    decode_ms: ms(row.decode_us),
  };
  return Object.fromEntries(Object.entries(times).filter(([, value]) => value !== undefined));
}

const number = (value: number | null) => (value === null ? null : count(value));
const time = (us: number | null) => (us === null ? null : duration(us / 1000));
const size = (value: number | null) => (value === null ? null : bytes(value));

function facts(row: LogRow): [Word, string | null][] {
  return [
    ["requestId", row.id],
    ["time", dateTime(row.ts_ms)],
    ["endpoint", row.endpoint],
    ["model", row.model],
    ["client", row.client],
    ["apiKey", row.key_name],
    ["status", row.status === null ? null : String(row.status)],
    ["error", row.error_code],
    ["finishReason", row.finish_reason],
    ["cancelledBy", row.cancelled_by],
    ["pictures", number(row.n_images)],
    ["pixels", number(row.image_pixels)],
    ["promptTokens", number(row.prompt_tokens)],
    ["imageTokensWord", number(row.vision_tokens)],
    ["cachedTokensWord", number(row.cached_tokens)],
    ["answerTokens", number(row.completion_tokens)],
    ["firstToken", time(row.first_token_us)],
    ["total", time(row.total_us)],
    ["gapMedian", time(row.itl_p50_us)],
    ["gapP99", time(row.itl_p99_us)],
    ["energy", row.energy_uj === null ? null : `${tenth(row.energy_uj / 1e6)} J`],
    ["cost", row.cost_micros === null ? null : fine(row.cost_micros / 1e6)],
    ["traceId", row.trace_id],
    ["bytesIn", size(row.bytes_in)],
    ["bytesOut", size(row.bytes_out)],
    ["bytesMoved", size(row.transfer_bytes)],
    ["path", row.transfer_path],
    ["kvBytes", size(row.kv_transfer_bytes)],
    ["answeredBy", row.stolen ? t("consumerPool") : null],
    ["parameters", row.params ? JSON.stringify(row.params) : null],
  ];
}

export function RowDetail({ row }: { row: LogRow }): VNode {
  const stages = stagesOf(stageTimes(row));
  return (
    <>
      {stages.length > 0 && (
        <>
          <h3>{t("stages")}</h3>
          <StageBars stages={stages} />
          <p class="quiet">{t("stagesHint")}</p>
        </>
      )}
      <dl class="detail">
        {facts(row).map(
          ([word, value]) =>
            value !== null && (
              <div key={word}>
                <dt>{t(word)}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
    </>
  );
}
