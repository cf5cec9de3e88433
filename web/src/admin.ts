// What the server's administration routes answer.
import { getJson, postJson, sendOk } from "./http";

export interface DeviceState {
  device: string;
  description?: string;
  consumer?: boolean;
  datacenter?: boolean;
  why?: string;
  lost: boolean;
  busy_us: { encode: number; transfer: number; language: number; stolen: number };
}

export interface RunningRequest {
  id: string;
  model: string;
  client: string;
  key_name: string;
  phase: "preparing" | "waiting" | "answering";
  age_us: number;
  n_images: number;
  prompt_tokens: number;
  image_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  stream: boolean;
}

export interface Totals {
  prompt_tokens: number;
  generation_tokens: number;
  images_encoded: number;
  image_cache_hits: number;
  prefix_hits: number;
  preemptions: number;
  transfers: number;
  transfer_bytes: number;
  transfer_retries: number;
  kv_transfers: number;
  kv_transfer_bytes: number;
  steals: number;
  steal_returns: number;
}

/** What follows `requests` is there once the model is loaded. */
export interface ServerState {
  now_us: number;
  status: string;
  version: string;
  preparing: number;
  requests: RunningRequest[];
  model?: string;
  partition?: string;
  devices?: DeviceState[];
  links?: string[];
  running?: number;
  waiting?: number;
  queue_max?: number;
  sequences_max?: number;
  kv_blocks_used?: number;
  kv_blocks?: number;
  totals?: Totals;
}

export const serverState = () => getJson<ServerState>("/admin/state");

export async function cancelRequest(id: string): Promise<void> {
  await postJson(`/admin/requests/${encodeURIComponent(id)}/cancel`, {});
}

export interface Setting {
  key: string;
  value: string;
  origin: string;
  flag: string;
  environment: string;
  description: string;
}

export const settings = async () => (await getJson<{ settings: Setting[] }>("/admin/settings")).settings;

/** A row of the request log; null: not known, or did not happen. */
export interface LogRow {
  id: string;
  ts_ms: number;
  endpoint: string | null;
  model: string | null;
  client: string | null;
  key_name: string | null;
  status: number | null;
  error_code: string | null;
  finish_reason: string | null;
  stream: boolean;
  n_images: number | null;
  image_pixels: number | null;
  prompt_tokens: number | null;
  vision_tokens: number | null;
  cached_tokens: number | null;
  completion_tokens: number | null;
  queue_us: number | null;
  image_fetch_us: number | null;
  image_fetch_bytes: number | null;
  image_decode_us: number | null;
  encode_us: number | null;
  transfer_us: number | null;
  transfer_bytes: number | null;
  transfer_path: string | null;
  kv_transfer_us: number | null;
  kv_transfer_bytes: number | null;
  stolen: boolean;
  prefill_us: number | null;
  first_token_us: number | null;
  decode_us: number | null;
  total_us: number | null;
  bytes_in: number | null;
  bytes_out: number | null;
  cancelled_by: string | null;
  revision: string | null;
  trace_id: string | null;
  itl_p50_us: number | null;
  itl_p99_us: number | null;
  energy_uj: number | null;
  cost_micros: number | null;
  params: Record<string, unknown> | null;
}

export interface Finding {
  area: string;
  status: "OK" | "WARN" | "FAIL";
  text: string;
  fix: string | null;
}

export interface Diagnosis {
  status: Finding["status"];
  findings: Finding[];
}

/** Takes the server a second or two. */
export const diagnosis = () => getJson<Diagnosis>("/admin/doctor");

export async function logRows(query: URLSearchParams): Promise<LogRow[]> {
  const text = await (await sendOk(`/admin/requests?${query}`)).text();
  // Seeds have 64 bits, numbers here 53.
  const exact = text.replace(/(?<!\\)"seed":(\d{16,})/g, '"seed":"$1"');
  return (JSON.parse(exact) as { rows: LogRow[] }).rows;
}

/** Fetches and hands the file to the browser to keep: a plain link could not carry the key. */
export async function download(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await sendOk(path)).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

export interface ApiKey {
  id: number;
  name: string;
  last4: string;
  admin: boolean;
  concurrency_max: number | null;
  per_minute_max: number | null;
  created_ms: number;
  revoked_ms: number | null;
}

/** Sums of some days; null: without a key, or without a prompt. */
export interface Usage {
  key_name: string | null;
  model: string | null;
  requests: number;
  failed: number;
  images: number;
  prompt_tokens: number;
  completion_tokens: number;
}

export interface KeyList {
  on: boolean;
  keys: ApiKey[];
  usage: Usage[];
}

export const keyList = () => getJson<KeyList>("/admin/keys");

export interface NewKey {
  name: string;
  admin: boolean;
  concurrency_max: number;
  per_minute_max: number;
}

/** The answer holds the key itself, which is never told again. */
export async function createKey(wanted: NewKey): Promise<ApiKey & { key: string }> {
  return (await postJson("/admin/keys/create", wanted)).json();
}

export async function revokeKey(id: number): Promise<void> {
  await postJson(`/admin/keys/${id}/revoke`, {});
}

export interface StoredModel {
  model: string;
  id: string;
  revision: string;
  commit: string;
  architecture: string;
  bytes: number;
  source: string;
  path: string;
  installed_ms: number;
  state: "stored" | "draining" | "loading" | "ready";
}

export interface ModelList {
  models: StoredModel[];
  partials: { model: string; commit: string; bytes: number }[];
  free_bytes: number | null;
  served: {
    state: "empty" | "draining" | "loading" | "ready";
    model: string | null;
    id: string | null;
    phase: string;
    percent: number;
    error: { code: string; message: string } | null;
  };
}

export const modelList = () => getJson<ModelList>("/admin/models");

/** What fetching a model would take, and whether it fits. */
export interface PullPlan {
  model: string;
  commit: string;
  architecture: string;
  installed: boolean;
  bytes_total: number;
  bytes_missing: number;
  files: { path: string; bytes: number; bytes_there: number }[];
  disk: { free_bytes: number; reserve_bytes: number; fits: boolean };
  memory: { weight_bytes: number; available_bytes: number; fits: boolean };
  cards: { name: string; memory_bytes: number; fits: boolean }[];
}

/** A download that the server does, whoever looks. */
export interface Job {
  id: string;
  model: string;
  state: "queued" | "planning" | "running" | "done" | "failed" | "cancelled";
  file: string;
  bytes_done: number;
  bytes_total: number;
  bytes_per_s: number;
  error: { code: string; message: string } | null;
  finished_ms: number | null;
}

export const loadModel = (model: string) => postJson("/admin/models/load", { model });
export const unloadModel = () => postJson("/admin/models/unload", {});
export const removeModel = (model: string) => postJson("/admin/models/remove", { model });
export const pullModel = (model: string) => postJson("/admin/models/pull", { model });
export const jobList = async () => (await getJson<{ jobs: Job[] }>("/admin/jobs")).jobs;
export const cancelJob = (id: string) => postJson(`/admin/jobs/${encodeURIComponent(id)}/cancel`, {});

export async function planPull(model: string): Promise<PullPlan> {
  return (await postJson("/admin/models/pull", { model, dry_run: true })).json();
}

export interface TraceEvent {
  name: string;
  ph: string;
  ts: number;
  dur: number;
  tid: number;
  args: { name?: string };
}

export interface Trace {
  traceEvents: TraceEvent[];
  otherData: { now_us: number };
}

export const timeline = (lastMs: number) => getJson<Trace>(`/debug/timeline?last_ms=${lastMs}`);
