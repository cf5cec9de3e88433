// A box whose content may be wider than it: it scrolls, by keys too.
import type { ComponentChildren, VNode } from "preact";

interface Props {
  label: string;
  panel?: boolean;
  children: ComponentChildren;
}

export function Scroller({ label, panel, children }: Props): VNode {
  return (
    <div class={panel ? "panel wide" : "wide"} tabIndex={0} role="group" aria-label={label}>
      {children}
    </div>
  );
}
