// Proves that snippets carry the whole request, quoted for shell and Python.
import { expect, test } from "vitest";
import { chatBody, defaultSampling } from "./request";
import { curlSnippet, pythonLiteral, pythonSnippet, shortened } from "./snippet";

const body = chatBody("demo", [{ role: "user", text: 'it\'s $HOME "quoted"\nEOF\n', pictures: [] }], {
  ...defaultSampling,
  system: "Be short.",
  top_k: 5,
});

test("a body holds only what was set", () => {
  expect(Object.keys(body)).toEqual(["model", "messages", "temperature", "top_k"]);
  expect(body.messages[0]).toEqual({ role: "system", content: "Be short." });
});

test("the shell expands nothing in the here-document", () => {
  const lines = curlSnippet("http://h", body, false).trimEnd().split("\n");
  expect(lines.filter((line) => line === "EOF")).toHaveLength(1);
  expect(lines.at(-1)).toBe("EOF");
  expect(JSON.parse(lines.at(-2) ?? "")).toEqual(body);
});

test("a key is named, never written out", () => {
  expect(curlSnippet("http://h", body, true)).toContain("$HETEROSERVE_API_KEY");
  expect(pythonSnippet("http://h", body, true)).toContain('os.environ["HETEROSERVE_API_KEY"]');
});

test("fields the openai package does not know go into extra_body", () => {
  const python = pythonSnippet("http://h", body, false);
  expect(python).toContain('extra_body={\n        "top_k": 5,\n    }');
  expect(python).toContain("temperature=0");
});

test("JSON becomes Python", () => {
  expect(pythonLiteral([true, null, { a: "\u00e9\n" }])).toBe(
    '[\n    True,\n    None,\n    {\n        "a": "é\\n",\n    },\n]',
  );
});

test("long pictures are shortened for the eye only", () => {
  const url = `data:image/png;base64,${"A".repeat(500)}`;
  expect(shortened(url)).toBe(`data:image/png;base64,${"A".repeat(24)}…`);
  expect(shortened("data:image/png;base64,AAAA")).toBe("data:image/png;base64,AAAA");
});
