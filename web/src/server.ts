// What the server says of itself, asked for every two seconds while the page is visible.
import { computed, signal } from "@preact/signals";
import { ApiError, getJson, send } from "./http";

const periodMs = 2000;

export interface Readiness {
  status: "ready" | "degraded" | "failed" | "draining" | "loading" | "empty";
  phase: string;
  percent: number;
  lost_devices: string[];
}

export interface ServedModel {
  id: string;
  max_model_len: number;
  input_modalities: string[];
}

export type Reach = "connecting" | "reached" | "gone" | "locked";

export const reach = signal<Reach>("connecting");
export const readiness = signal<Readiness | null>(null);
export const version = signal("");
export const model = signal<ServedModel | null>(null);
export const takesPictures = computed(() => model.value?.input_modalities.includes("image") ?? true);

/** Asks the server how it is, now. */
export async function refresh(): Promise<void> {
  try {
    const alive = await fetch("/health", { cache: "no-store" });
    if (!alive.ok) throw new Error();
  } catch {
    reach.value = "gone";
    readiness.value = null;
    model.value = null;
    version.value = "";
    return;
  }
  try {
    const ready = await send("/ready"); // 503 also tells its state
    if (ready.status === 401) {
      reach.value = "locked";
      readiness.value = null;
      return;
    }
    readiness.value = (await ready.json()) as Readiness;
    reach.value = "reached";
    if (!version.value) version.value = (await getJson<{ version: string }>("/version")).version;
    // Another may have been loaded since.
    const takes = readiness.value.status === "ready" || readiness.value.status === "degraded";
    const served = takes ? (await getJson<{ data: ServedModel[] }>("/v1/models")).data[0] : undefined;
    if (served?.id !== model.value?.id) model.value = served ?? null;
  } catch (error) {
    // One missing answer is not the server's state; the next round asks again.
    if (!(error instanceof ApiError) && !(error instanceof TypeError)) throw error;
  }
}

/** Calls `round` now and then every `ms` while the page is visible; the result ends it. */
export function everyWhileVisible(ms: number, round: () => Promise<void>): () => void {
  let ended = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const turn = async () => {
    try {
      if (!document.hidden) await round();
    } finally {
      if (!ended) timer = setTimeout(turn, ms); // one that failed is no reason to stop
    }
  };
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

export function watchServer(): () => void {
  return everyWhileVisible(periodMs, refresh);
}

/** Asks again at once, when a key was given. */
export const askServerNow = refresh;
