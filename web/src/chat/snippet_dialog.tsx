// "Copy as curl / Python": shows the program, copies it whole.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { apiKey } from "../http";
import { t } from "../i18n";
import { CopyButton } from "../markdown/code";
import { Dialog } from "../parts/dialog";
import { bodyOf } from "./conversation";
import { curlSnippet, pythonSnippet, shortened } from "./snippet";

const shown = signal<{ kind: "curl" | "python"; text: string } | null>(null);

export function showSnippet(kind: "curl" | "python", index: number): void {
  const write = kind === "curl" ? curlSnippet : pythonSnippet;
  shown.value = { kind, text: write(location.origin, bodyOf(index), apiKey.value !== "") };
}

export function Snippet(): VNode | null {
  const now = shown.value;
  if (!now) return null;
  return (
    <Dialog
      title={now.kind === "curl" ? t("asCurl") : t("asPython")}
      close={() => {
        shown.value = null;
      }}
    >
      <pre class="snippet" tabIndex={0}>
        {shortened(now.text)}
      </pre>
      <div class="row">
        <CopyButton text={now.text} label={t("copyAll")} />
        {now.text !== shortened(now.text) && <span class="quiet">{t("snippetShortened")}</span>}
      </div>
    </Dialog>
  );
}
