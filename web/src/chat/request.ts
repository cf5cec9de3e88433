// One question to /v1/chat/completions: the body that is sent, and what comes back.
import { ApiError, postJson } from "../http";
import { events } from "../sse";

export interface Picture {
  name: string;
  url: string; // a data URL
}

/** What the page asks of the sampler; null leaves a value to the server. */
export interface Sampling {
  system: string;
  temperature: number | null;
  top_p: number | null;
  top_k: number | null;
  min_p: number | null;
  max_completion_tokens: number | null;
  seed: number | null;
  repetition_penalty: number | null;
}

// The likeliest answer, the same each time.
export const defaultSampling: Sampling = {
  system: "",
  temperature: 0,
  top_p: null,
  top_k: null,
  min_p: null,
  max_completion_tokens: null,
  seed: null,
  repetition_penalty: null,
};

export interface Said {
  role: "user" | "assistant";
  text: string;
  pictures: Picture[];
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number; image_tokens?: number };
}

/** Milliseconds of each stage, as the server measured them; a stage that did not happen is absent. */
export interface Timings {
  image_fetch_ms?: number;
  image_decode_ms?: number;
  queue_ms?: number;
  encode_ms?: number;
  transfer_ms?: number;
  kv_transfer_ms?: number;
  prefill_ms?: number;
  first_token_ms?: number;
  decode_ms?: number;
  total_ms?: number;
  transfer_bytes?: number;
  kv_transfer_bytes?: number;
  transfer_path?: string;
  stolen?: boolean;
}

type Part = { type: "text"; text: string } | { type: "image_url"; image_url: { url: string } };
interface Message {
  role: "system" | "user" | "assistant";
  content: string | Part[];
}

function message({ role, text, pictures }: Said): Message {
  if (pictures.length === 0) return { role, content: text };
  const parts: Part[] = pictures.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  return { role, content: [...parts, { type: "text", text }] };
}

export type ChatBody = { model: string; messages: Message[] } & Record<string, unknown>;

/** The request without what only this page wants (streaming, timings). */
export function chatBody(model: string, said: Said[], { system, ...sampling }: Sampling): ChatBody {
  const messages = said.map(message);
  if (system.trim()) messages.unshift({ role: "system", content: system });
  const given = Object.fromEntries(Object.entries(sampling).filter(([, value]) => value !== null));
  return { model, messages, ...given };
}

export interface Piece {
  text?: string;
  finishReason?: string;
  usage?: Usage;
  timings?: Timings;
}

interface Chunk {
  error?: { message?: string };
  choices?: { delta?: { content?: string }; finish_reason?: string | null }[];
  usage?: Usage | null;
  timings?: Timings;
}

/** Sends the body and yields the answer as it is made. Aborting the signal cancels the request on the server too. */
export async function* ask(body: ChatBody, signal: AbortSignal): AsyncGenerator<Piece> {
  const streamed = { ...body, stream: true, stream_options: { include_usage: true }, timings: true };
  const response = await postJson("/v1/chat/completions", streamed, signal);
  let finished = false;
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new ApiError(chunk.error.message ?? "The answer broke off.", 500, "");
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) yield { text: choice.delta.content };
    if (choice?.finish_reason) {
      finished = true;
      yield { finishReason: choice.finish_reason };
    }
    if (chunk.usage) yield { usage: chunk.usage, ...(chunk.timings ? { timings: chunk.timings } : {}) };
  }
  if (!finished) throw new ApiError("The connection was lost before the answer was complete.", 0, "");
}
