// A block of code: its language, a button that copies it, and colours once their part of the page is loaded.
import { useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n";

export function CopyButton({ text, label }: { text: string; label?: string }): VNode {
  const copied = useSignal(false);
  useSignalEffect(() => {
    if (!copied.value) return;
    const timer = setTimeout(() => {
      copied.value = false;
    }, 1500);
    return () => clearTimeout(timer);
  });
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.value = true;
  };
  return (
    <button type="button" class="small plain" onClick={copy}>
      {copied.value ? t("copied") : (label ?? t("copy"))}
    </button>
  );
}

export function Code({ text, language }: { text: string; language: string }): VNode {
  const name = language.split(/\s/)[0] ?? "";
  const [coloured, setColoured] = useState<{ text: string; nodes: ComponentChildren } | null>(null);
  useEffect(() => {
    if (!name) return;
    let current = true;
    // Not at every token: an answer is coloured when it pauses or ends.
    const timer = setTimeout(async () => {
      const { highlight } = await import("./highlight");
      const nodes = highlight(text, name);
      if (current && nodes) setColoured({ text, nodes });
    }, 150);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, name]);
  return (
    <div class="code">
      <div class="code-head">
        <span>{name}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}>
        <code>{coloured?.text === text ? coloured.nodes : text}</code>
      </pre>
    </div>
  );
}
