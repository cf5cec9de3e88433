// The server's state: one word in the header, and a banner where somebody has to know more.
import { computed } from "@preact/signals";
import type { VNode } from "preact";
import { t, type Word } from "../i18n";
import { reach, readiness } from "../server";

const looks: Record<string, "good" | "wait" | "bad"> = { ready: "good", failed: "bad" };
const words: Record<string, Word> = {
  ready: "stateReady",
  degraded: "stateDegraded",
  failed: "stateFailed",
  draining: "stateDraining",
  loading: "stateLoading",
  empty: "stateEmpty",
};

const state = computed(() => {
  if (reach.value === "gone") return { look: "bad", text: t("stateGone") } as const;
  if (reach.value === "locked") return { look: "wait", text: t("stateLocked") } as const;
  const now = readiness.value;
  if (!now) return { look: "wait", text: t("stateConnecting") } as const;
  const look = looks[now.status] ?? "wait";
  if (now.status === "loading")
    return { look, text: t("loadingPhase", { phase: now.phase, percent: now.percent }) };
  const word = words[now.status];
  return { look, text: word ? t(word) : now.status };
});

export function StateBadge(): VNode {
  return (
    <p id="state" class="badge" data-state={state.value.look} role="status">
      {state.value.text}
    </p>
  );
}

function Banner({ look, children }: { look: string; children: string }): VNode {
  return (
    <p class="banner" data-state={look} role="alert">
      {children}
    </p>
  );
}

export function StateBanner(): VNode | null {
  const now = readiness.value;
  if (!now) return null;
  const lost = now.lost_devices.join(", ");
  if (now.status === "degraded") return <Banner look="wait">{t("degradedBanner", { devices: lost })}</Banner>;
  if (now.status === "empty") return <Banner look="wait">{t("emptyBanner")}</Banner>;
  if (now.status === "failed" && !lost)
    return <Banner look="bad">{t("loadFailedBanner", { why: now.phase })}</Banner>;
  if (now.status === "failed") return <Banner look="bad">{t("failedBanner", { devices: lost })}</Banner>;
  if (now.status === "draining") return <Banner look="wait">{t("drainingBanner")}</Banner>;
  if (now.status !== "loading") return null;
  return (
    <div class="banner" data-state="wait">
      <label for="load-progress">{t("loadingPhase", { phase: now.phase, percent: now.percent })}</label>
      <progress id="load-progress" max={100} value={now.percent} />
    </div>
  );
}
