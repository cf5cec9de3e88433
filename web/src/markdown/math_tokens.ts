// Formulas in Markdown: $…$, $$…$$, \(…\) and \[…\], as extensions of the `marked` lexer.
import type { TokenizerExtension, Tokens } from "marked";

export interface MathToken extends Tokens.Generic {
  tex: string;
  display: boolean;
}

// A lone dollar is money: an inline formula has no space inside its dollars, and no digit after the second.
const inlineRule = /^\$(?!\s|\$)((?:\\[^\n]|[^\\$\n])+?)(?<!\s)\$(?!\d)|^\\\(([^\n]+?)\\\)/;
const displayRule = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/;
// Formulas of their own within a line of text.
const displayInlineRule = /^(?:\$\$([^$\n]+?)\$\$|\\\[([^\n]+?)\\\])/;

function token(name: string, found: RegExpExecArray | null, display: boolean): MathToken | undefined {
  if (!found) return undefined;
  return { type: name, raw: found[0], tex: (found[1] ?? found[2] ?? "").trim(), display };
}

function firstOf(source: string, rule: RegExp): number | undefined {
  const at = source.search(rule);
  return at < 0 ? undefined : at;
}

export const mathExtensions: TokenizerExtension[] = [
  {
    name: "mathBlock",
    level: "block",
    start: (source) => firstOf(source, /(?:^|\n) {0,3}(?:\$\$|\\\[)/),
    tokenizer: (source) => token("mathBlock", displayRule.exec(source), true),
  },
  {
    name: "math",
    level: "inline",
    start: (source) => firstOf(source, /\$|\\[([]/),
    tokenizer: (source) =>
      token("math", displayInlineRule.exec(source), true) ?? token("math", inlineRule.exec(source), false),
  },
];
