// Proves what is a formula and what money, which links may be followed, and that character references are read.
import { Marked } from "marked";
import { expect, test } from "vitest";
import { mathExtensions } from "./math_tokens";
import { characters, safeUrl } from "./text";

const marked = new Marked({ extensions: mathExtensions });

function formulas(text: string): string[] {
  const found: string[] = [];
  marked.walkTokens(marked.lexer(text), (token) => {
    if (token.type === "math" || token.type === "mathBlock")
      found.push(`${token.display ? "D" : "I"}:${token.tex}`);
  });
  return found;
}

test.each([
  ["the sum $a+b$ is", ["I:a+b"]],
  ["it costs $5 and $10 more", []],
  ["from $1 to $2", []],
  ["\\(x^2\\) and \\[y\\]", ["I:x^2", "D:y"]],
  ["$$\n\\frac{1}{2}\n$$\n", ["D:\\frac{1}{2}"]],
  ["text\n\\[\na = b\n\\]\nmore", ["D:a = b"]],
  ["`$a$` stays code", []],
  ["```\n$$a$$\n```", []],
  ["$\\$5$", ["I:\\$5"]],
  ["$ a $", []],
  ["**$x$**", ["I:x"]],
])("%j", (text, expected) => {
  expect(formulas(text)).toEqual(expected);
});

test.each([
  ["https://example.org/a", "https://example.org/a"],
  ["mailto:a@b.c", "mailto:a@b.c"],
  ["javascript:alert(1)", null],
  ["JaVaScRiPt:alert(1)", null],
  [" javascript:alert(1)", null],
  ["data:text/html,x", null],
  ["/admin/state", null],
])("link %j", (href, expected) => {
  expect(safeUrl(href)).toBe(expected);
});

test("character references", () => {
  expect(characters("&lt;b&gt; &amp; &#65;&#x42; &nope; &#xD800;")).toBe("<b> & AB &nope; \ufffd");
});
