// One turn of the conversation: its words, and for an answer what it took.
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { duration, t, tenth } from "../i18n";
import { CopyButton } from "../markdown/code";
import { Markdown } from "../markdown/markdown";
import { StageBars, stagesOf } from "../parts/stages";
import { busy, edit, type Facts, regenerate, type Turn } from "./conversation";
import { showSnippet } from "./snippet_dialog";

/** "42.0 tokens/s · first token after 120 ms · 90 tokens in, 64 of them pictures, 12 out". */
function FactsLine({ facts: { usage, timings, firstMs, finishReason } }: { facts: Facts }): VNode {
  const parts: string[] = [];
  const made = usage?.completion_tokens ?? 0;
  if (made > 1 && timings?.decode_ms)
    parts.push(t("rate", { n: tenth(((made - 1) * 1000) / timings.decode_ms) }));
  const first = timings?.first_token_ms ?? firstMs;
  if (first > 0) parts.push(t("firstAfter", { time: duration(first) }));
  if (usage) {
    parts.push(t("tokensInOut", { in: usage.prompt_tokens, out: made }));
    const image = usage.prompt_tokens_details?.image_tokens ?? 0;
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    if (image > 0) parts.push(t("imageTokens", { n: image }));
    if (cached > 0) parts.push(t("cachedTokens", { n: cached }));
  }
  if (timings?.encode_ms !== undefined) parts.push(t("encodeTime", { time: duration(timings.encode_ms) }));
  if (timings?.stolen) parts.push(t("stolenAnswer"));
  if (finishReason === "length") parts.push(t("cutAtLimit"));
  return <p class="facts quiet">{parts.join(" · ")}</p>;
}

function AnswerFoot({ turn, index }: { turn: Turn; index: number }): VNode | null {
  if (turn.state === "busy") return null;
  const timings = turn.facts?.timings;
  return (
    <>
      {turn.state === "stopped" && <p class="facts quiet">{t("stopped")}</p>}
      {turn.facts && <FactsLine facts={turn.facts} />}
      {timings && (
        <details class="quiet">
          <summary>{t("stages")}</summary>
          <StageBars stages={stagesOf(timings)} />
        </details>
      )}
      <div class="row turn-actions">
        <CopyButton text={turn.text} />
        <button type="button" class="plain small" disabled={busy.value} onClick={() => regenerate(turn.id)}>
          {t("regenerate")}
        </button>
        <button type="button" class="plain small" onClick={() => showSnippet("curl", index)}>
          {t("asCurl")}
        </button>
        <button type="button" class="plain small" onClick={() => showSnippet("python", index)}>
          {t("asPython")}
        </button>
      </div>
    </>
  );
}

function Answer({ turn, index }: { turn: Turn; index: number }): VNode {
  const empty = turn.text === "" && turn.state === "done";
  return (
    <article class="turn assistant" aria-label={t("answer")}>
      {turn.error && (
        <p class="error" role="alert">
          {turn.error}
        </p>
      )}
      <div class={turn.state === "busy" ? "answer busy" : "answer"}>
        {empty ? <p class="quiet">{t("emptyAnswer")}</p> : <Markdown text={turn.text} />}
      </div>
      <AnswerFoot turn={turn} index={index} />
    </article>
  );
}

function Editor({ turn, close }: { turn: Turn; close: () => void }): VNode {
  const text = useSignal(turn.text);
  const submit = (event: Event) => {
    event.preventDefault();
    edit(turn.id, text.value);
    close();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return (
    <form onSubmit={submit}>
      <textarea
        ref={(field) => field?.focus()}
        aria-label={t("editQuestion")}
        rows={2}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
        onKeyDown={key}
      />
      <div class="row">
        <button type="submit" class="small" disabled={busy.value}>
          {t("askAgain")}
        </button>
        <button type="button" class="plain small" onClick={close}>
          {t("cancel")}
        </button>
      </div>
    </form>
  );
}

function Question({ turn }: { turn: Turn }): VNode {
  const editing = useSignal(false);
  return (
    <article class="turn user" aria-label={t("question")}>
      {turn.pictures.length > 0 && (
        <div class="pictures">
          {turn.pictures.map(({ name, url }, i) => (
            <img key={i} src={url} alt={name} />
          ))}
        </div>
      )}
      {editing.value ? (
        <Editor
          turn={turn}
          close={() => {
            editing.value = false;
          }}
        />
      ) : (
        <>
          <p class="said">{turn.text}</p>
          <button
            type="button"
            class="plain small"
            disabled={busy.value}
            onClick={() => {
              editing.value = true;
            }}
          >
            {t("edit")}
          </button>
        </>
      )}
    </article>
  );
}

export function TurnView({ turn, index }: { turn: Turn; index: number }): VNode {
  return turn.role === "user" ? <Question turn={turn} /> : <Answer turn={turn} index={index} />;
}
