// A dialog of the browser's own: it holds the focus, Escape closes it.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../i18n";

interface Props {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Props): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} onClose={close}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="plain small" onClick={close}>
          {t("close")}
        </button>
      </div>
      {children}
    </dialog>
  );
}
