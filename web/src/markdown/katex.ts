// KaTeX, in a part of the page of its own that is loaded with the first formula.
import katex from "katex";

export function renderFormula(place: HTMLElement, tex: string, display: boolean): void {
  try {
    katex.render(tex, place, {
      output: "mathml",
      displayMode: display,
      throwOnError: true,
      trust: false, // no links, no styles, no classes out of the text
      strict: "ignore",
      maxSize: 20,
      maxExpand: 200,
    });
  } catch {
    place.textContent = tex; // half a formula, or none
  }
}
