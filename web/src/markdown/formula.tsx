// A formula: its TeX until KaTeX is loaded, then MathML, which needs neither fonts nor inline styles.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Formula({ tex, display }: { tex: string; display: boolean }): VNode {
  const place = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    let current = true;
    import("./katex").then(({ renderFormula }) => {
      if (current && place.current) renderFormula(place.current, tex, display);
    });
    return () => {
      current = false;
    };
  }, [tex, display]);
  // Its content is KaTeX's from then on: a new formula is a new element.
  return (
    <span key={`${display}${tex}`} ref={place} class={display ? "formula display" : "formula"}>
      {tex}
    </span>
  );
}
