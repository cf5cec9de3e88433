// The way of a request through the machine: queues, the consumer pool, the link, the datacenter pool.
import type { ComponentChildren, VNode } from "preact";
import type { DeviceState, ServerState, Totals } from "../admin";
import { bytes, count, share, t, type Word } from "../i18n";
import { before, state } from "./watch";

type Busy = keyof DeviceState["busy_us"];
const kinds: [Busy, Word, string][] = [
  ["encode", "kindEncode", "encode"],
  ["transfer", "kindTransfer", "transfer"],
  ["language", "kindLanguage", "decode"],
  ["stolen", "kindStolen", "stolen"],
];

/** Shares of the last round that a device spent on each kind of work. */
function sharesOf(now: ServerState, old: ServerState | null, device: DeviceState): [Word, string, number][] {
  const was = old?.devices?.find(({ device: name }) => name === device.device);
  const passed = was && old ? now.now_us - old.now_us : 0;
  return kinds.map(([busy, word, kind]) => {
    const part = was && passed > 0 ? (device.busy_us[busy] - was.busy_us[busy]) / passed : 0;
    return [word, kind, Math.min(Math.max(part, 0), 1)];
  });
}

function Device({ now, device }: { now: ServerState; device: DeviceState }): VNode {
  const shares = sharesOf(now, before.value, device);
  const total = Math.min(
    shares.reduce((sum, [, , part]) => sum + part, 0),
    1,
  );
  let left = 0;
  return (
    <div class={device.lost ? "device lost" : "device"}>
      <div class="device-head">
        <strong>{device.device}</strong>
        <span class="number">{device.lost ? t("lostDevice") : share(total)}</span>
      </div>
      {device.description && <p class="quiet">{device.description}</p>}
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width={100} height={6} />
        {shares.map(([word, kind, part]) => {
          const x = left;
          left += part * 100;
          return <rect key={word} class={`kind-${kind}`} x={x} width={part * 100} height={6} />;
        })}
      </svg>
      <ul class="legend">
        {shares
          .filter(([, , part]) => part >= 0.005)
          .map(([word, kind, part]) => (
            <li key={word}>
              <span class={`swatch kind-${kind}`} aria-hidden="true" /> {t(word)} {share(part)}
            </li>
          ))}
      </ul>
    </div>
  );
}

function Box({ title, children }: { title: string; children: ComponentChildren }): VNode {
  return (
    <li class="box">
      <h4>{title}</h4>
      {children}
    </li>
  );
}

function Fact({ word, value }: { word: Word; value: string }): VNode {
  return (
    <div>
      <dt>{t(word)}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function rate(now: ServerState, name: keyof Totals): number {
  const old = before.value;
  if (!old?.totals || !now.totals || now.now_us <= old.now_us) return 0;
  return Math.max(((now.totals[name] - old.totals[name]) * 1e6) / (now.now_us - old.now_us), 0);
}

function Queues({ now }: { now: ServerState }): VNode {
  return (
    <Box title={t("queueBox")}>
      <dl>
        <Fact word="preparing" value={count(now.preparing)} />
        <Fact word="waiting" value={`${count(now.waiting ?? 0)} / ${count(now.queue_max ?? 0)}`} />
      </dl>
    </Box>
  );
}

function Link({ now }: { now: ServerState }): VNode {
  const totals = now.totals;
  return (
    <Box title={t("linkBox")}>
      <dl>
        <Fact
          word="bytesPerS"
          value={`${bytes(rate(now, "transfer_bytes") + rate(now, "kv_transfer_bytes"))}/s`}
        />
        <Fact
          word="bytesMoved"
          value={bytes((totals?.transfer_bytes ?? 0) + (totals?.kv_transfer_bytes ?? 0))}
        />
        <Fact word="copies" value={count((totals?.transfers ?? 0) + (totals?.kv_transfers ?? 0))} />
        {(totals?.transfer_retries ?? 0) > 0 && (
          <Fact word="copyRetries" value={count(totals?.transfer_retries ?? 0)} />
        )}
      </dl>
      {(now.links ?? []).map((link) => (
        <p key={link} class="quiet">
          {link}
        </p>
      ))}
    </Box>
  );
}

function Batch({ now }: { now: ServerState }): VNode {
  const used = now.kv_blocks ? (now.kv_blocks_used ?? 0) / now.kv_blocks : 0;
  return (
    <Box title={t("batchBox")}>
      <dl>
        <Fact word="running" value={`${count(now.running ?? 0)} / ${count(now.sequences_max ?? 0)}`} />
        <Fact word="kvUsed" value={share(used)} />
        <Fact word="tokensPerS" value={count(Math.round(rate(now, "generation_tokens")))} />
      </dl>
    </Box>
  );
}

function Pool({ now, title, devices }: { now: ServerState; title: string; devices: DeviceState[] }): VNode {
  return (
    <Box title={title}>
      {devices.map((device) => (
        <Device key={device.device} now={now} device={device} />
      ))}
    </Box>
  );
}

export function Pipeline(): VNode {
  const now = state.value;
  const devices = now?.devices ?? [];
  const consumer = devices.filter((device) => device.consumer && !device.datacenter);
  const both = devices.filter((device) => device.consumer === device.datacenter);
  const datacenter = devices.filter((device) => !device.consumer && device.datacenter);
  return (
    <section class="panel" aria-labelledby="pipeline-title">
      <h3 id="pipeline-title">
        {t("pipeline")}{" "}
        {now?.partition && <span class="quiet">{t("partitionOf", { name: now.partition })}</span>}
      </h3>
      {!now?.model ? (
        <p class="quiet">{t("nothingYet")}</p>
      ) : (
        <ol class="pipeline">
          <Queues now={now} />
          {consumer.length > 0 && <Pool now={now} title={t("consumerPool")} devices={consumer} />}
          {both.length > 0 && <Pool now={now} title={t("bothPools")} devices={both} />}
          {devices.length > 1 && <Link now={now} />}
          {datacenter.length > 0 && <Pool now={now} title={t("datacenterPool")} devices={datacenter} />}
          <Batch now={now} />
        </ol>
      )}
    </section>
  );
}
