// The chat: what was said, and below it the place to write.
import { signal, useSignal, useSignalEffect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { model } from "../server";
import { Composer } from "./composer";
import { busy, clear, stop, turns } from "./conversation";
import { takePictures } from "./pictures";
import { Samples } from "./samples";
import { SamplingPanel } from "./sampling";
import { Snippet } from "./snippet_dialog";
import { TurnView } from "./turn";

const over = signal(false); // a file is being dragged over the page

/** The whole page takes pictures: one that misses the field must not replace the page. */
function usePictureDrops(): void {
  useEffect(() => {
    const drag = (event: DragEvent) => {
      event.preventDefault();
      over.value = event.type === "dragover";
      if (event.type === "drop") takePictures(event.dataTransfer?.files ?? []);
    };
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      takePictures(files);
    };
    const stopKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) stop();
    };
    const kinds = ["dragover", "dragleave", "drop"] as const;
    for (const kind of kinds) document.addEventListener(kind, drag);
    document.addEventListener("paste", paste);
    document.addEventListener("keydown", stopKey);
    return () => {
      for (const kind of kinds) document.removeEventListener(kind, drag);
      document.removeEventListener("paste", paste);
      document.removeEventListener("keydown", stopKey);
    };
  }, []);
}

/** Hands whole sentences to screen readers, not single tokens. */
function Speaker(): VNode {
  const spoken = useSignal("");
  const from = useRef({ id: 0, length: 0 });
  useSignalEffect(() => {
    const last = turns.value.at(-1);
    if (last?.role !== "assistant") return;
    if (from.current.id !== last.id) from.current = { id: last.id, length: 0 };
    const end =
      last.state === "busy"
        ? Math.max(...[...".!?。\n"].map((mark) => last.text.lastIndexOf(mark))) + 1
        : last.text.length;
    const sentence = last.text.slice(from.current.length, end).trim();
    if (!sentence) return;
    from.current.length = end;
    spoken.value = sentence;
  });
  return (
    <p class="visually-hidden" aria-live="polite">
      {spoken.value}
    </p>
  );
}

function Conversation(): VNode {
  const end = useRef<HTMLDivElement>(null);
  // Follows the answer, unless the reader has scrolled up.
  useSignalEffect(() => {
    turns.value;
    const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
    if (scrollHeight - scrollTop - clientHeight < 160)
      requestAnimationFrame(() => end.current?.scrollIntoView({ block: "end" }));
  });
  return (
    <section class="conversation" aria-label={t("conversation")}>
      {turns.value.map((turn, index) => (
        <TurnView key={turn.id} turn={turn} index={index} />
      ))}
      <div ref={end} />
    </section>
  );
}

export function ChatPage(): VNode {
  usePictureDrops();
  return (
    <div class={over.value ? "chat over" : "chat"}>
      <div class="page-head">
        <h2>{t("chat")}</h2>
        <p class="quiet">
          <span id="model">{model.value?.id ?? "–"}</span> ·{" "}
          {t("contextOf", { n: model.value?.max_model_len ?? 0 })} · {t("sameFromApi")}{" "}
          <code id="base-url">{`${location.origin}/v1`}</code>
        </p>
        <button type="button" class="plain small" disabled={turns.value.length === 0} onClick={clear}>
          {t("newChat")}
        </button>
      </div>
      {turns.value.length === 0 ? <Samples /> : <Conversation />}
      <Composer />
      <SamplingPanel />
      <Speaker />
      <Snippet />
      <p class="visually-hidden" role="status">
        {busy.value ? t("answering") : ""}
      </p>
    </div>
  );
}
