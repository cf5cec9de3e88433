// The conversation: what was said, what is being said, and the questions still being written.
import { computed, effect, signal } from "@preact/signals";
import { ApiError } from "../http";
import { t } from "../i18n";
import { model, refresh } from "../server";
import { load, save } from "../storage";
import {
  ask,
  chatBody,
  defaultSampling,
  type Picture,
  type Said,
  type Sampling,
  type Timings,
  type Usage,
} from "./request";

export interface Facts {
  usage: Usage | null;
  timings: Timings | null;
  firstMs: number; // to the first piece of text, as seen here
  finishReason: string | null;
}

export interface Turn extends Said {
  id: number;
  state: "done" | "busy" | "stopped" | "failed";
  facts: Facts | null; // of an answer
  error: string;
}

/** Kept over a reload of this tab, as far as the browser has room for its pictures. */
export const turns = signal<Turn[]>(load<Turn[]>("turns", [], "in this tab").filter(isKept));
export const draftText = signal("");
export const draftPictures = signal<Picture[]>([]);
export const complaint = signal(""); // about what the user did last
export const sampling = signal<Sampling>({ ...defaultSampling, ...load<Partial<Sampling>>("sampling", {}) });
const running = signal<AbortController | null>(null);
export const busy = computed(() => running.value !== null);

let nextId = Math.max(0, ...turns.value.map(({ id }) => id)) + 1;

/** An answer that was under way when the page was left is not under way any more. */
function isKept(turn: Turn): boolean {
  return turn.state !== "busy";
}

effect(() => {
  if (!busy.value) save("turns", turns.value.filter(isKept), "in this tab");
});

export function setSampling(change: Partial<Sampling>): void {
  sampling.value = { ...sampling.value, ...change };
  save("sampling", sampling.value);
}

function newTurn(role: Turn["role"], text: string, pictures: Picture[], state: Turn["state"]): Turn {
  return { id: nextId++, role, text, pictures, state, facts: null, error: "" };
}

function change(id: number, fields: Partial<Turn>): void {
  turns.value = turns.value.map((turn) => (turn.id === id ? { ...turn, ...fields } : turn));
}

/** What the model is told of turns: questions that got no answer are left out, but for the last. */
export function told(all: Turn[]): Said[] {
  return all.filter((turn, i) => {
    if (turn.role === "assistant") return turn.text !== "";
    const next = all[i + 1];
    return next === undefined || (next.role === "assistant" && next.text !== "");
  });
}

/** The body that asked for the answer at `index`, for people who want to ask it elsewhere. */
export function bodyOf(index: number) {
  return chatBody(model.value?.id ?? "", told(turns.value.slice(0, index)), sampling.value);
}

function words(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof TypeError) return t("unreachable");
  throw error;
}

/** Pieces come faster than the screen can show them: at most one change a frame. */
function framed(show: () => void): { request: () => void; flush: () => void } {
  let wanted = 0;
  return {
    request: () => {
      wanted ||= requestAnimationFrame(() => {
        wanted = 0;
        show();
      });
    },
    flush: () => {
      cancelAnimationFrame(wanted);
      show();
    },
  };
}

async function answer(): Promise<void> {
  const history = told(turns.value);
  const turn = newTurn("assistant", "", [], "busy");
  turns.value = [...turns.value, turn];
  const controller = new AbortController();
  running.value = controller;
  const facts: Facts = { usage: null, timings: null, firstMs: 0, finishReason: null };
  const beganMs = performance.now();
  let text = "";
  const shown = framed(() => change(turn.id, { text }));
  try {
    if (!model.value) await refresh(); // asked before the page had heard of a model
    if (!model.value) throw new ApiError(t("noModel"), 503, "");
    for await (const piece of ask(chatBody(model.value.id, history, sampling.value), controller.signal)) {
      if (piece.text) {
        facts.firstMs ||= performance.now() - beganMs;
        text += piece.text;
        shown.request();
      }
      facts.finishReason = piece.finishReason ?? facts.finishReason;
      facts.usage = piece.usage ?? facts.usage;
      facts.timings = piece.timings ?? facts.timings;
    }
    shown.flush();
    change(turn.id, { state: "done", facts });
  } catch (error) {
    shown.flush();
    if (controller.signal.aborted) change(turn.id, { state: "stopped" });
    else change(turn.id, { state: "failed", error: words(error) });
  } finally {
    running.value = null;
  }
}

export function stop(): void {
  running.value?.abort();
}

/** Sends what is written; true if anything was. */
export function send(): boolean {
  const text = draftText.value.trim();
  if (!text || busy.value) return false;
  turns.value = [...turns.value, newTurn("user", text, draftPictures.value, "done")];
  draftText.value = "";
  draftPictures.value = [];
  complaint.value = "";
  answer();
  return true;
}

/** Answers once more; what came after is gone. */
export function regenerate(id: number): void {
  const index = turns.value.findIndex((turn) => turn.id === id);
  if (busy.value || index < 1) return;
  turns.value = turns.value.slice(0, index);
  answer();
}

/** Asks something else at this place; what came after is gone. */
export function edit(id: number, text: string): void {
  const index = turns.value.findIndex((turn) => turn.id === id);
  const old = turns.value[index];
  if (busy.value || !old || !text.trim()) return;
  turns.value = [...turns.value.slice(0, index), newTurn("user", text.trim(), old.pictures, "done")];
  answer();
}

export function clear(): void {
  stop();
  turns.value = [];
}
