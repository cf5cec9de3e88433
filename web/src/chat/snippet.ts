// A question as a program: complete commands that give the same answer from elsewhere.
import type { ChatBody } from "./request";

// Fields that OpenAI's client does not know by name.
const extraFields = ["top_k", "min_p", "repetition_penalty"];

/** One curl command. The body comes from a here-document, which nothing expands and no limit of arguments cuts. */
export function curlSnippet(origin: string, body: ChatBody, withKey: boolean): string {
  const key = withKey ? ` \\\n  -H "Authorization: Bearer $HETEROSERVE_API_KEY"` : "";
  // JSON text of one line holds no line that is EOF alone.
  return `curl -sS ${origin}/v1/chat/completions \\\n  -H 'Content-Type: application/json'${key} \\\n  --data-binary @- <<'EOF'\n${JSON.stringify(body)}\nEOF\n`;
}

/** JSON as a Python expression. */
export function pythonLiteral(value: unknown, indent = ""): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  // Escapes of JSON strings mean the same in Python, but for halves of surrogate pairs, which we do not send.
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  if (Array.isArray(value))
    return `[\n${value.map((item) => `${inner}${pythonLiteral(item, inner)},\n`).join("")}${indent}]`;
  const rows = Object.entries(value).map(
    ([name, item]) => `${inner}${JSON.stringify(name)}: ${pythonLiteral(item, inner)},\n`,
  );
  return `{\n${rows.join("")}${indent}}`;
}

/** A program for the `openai` package that prints the answer as it is made. */
export function pythonSnippet(origin: string, body: ChatBody, withKey: boolean): string {
  const known = Object.entries(body).filter(([name]) => !extraFields.includes(name));
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => extraFields.includes(name)));
  const fields = known.map(([name, value]) => `    ${name}=${pythonLiteral(value, "    ")},\n`);
  if (Object.keys(extra).length > 0) fields.push(`    extra_body=${pythonLiteral(extra, "    ")},\n`);
  const key = withKey ? 'os.environ["HETEROSERVE_API_KEY"]' : '"none"';
  return `${withKey ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=${key})
stream = client.chat.completions.create(
${fields.join("")}    stream=True,
)
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        print(chunk.choices[0].delta.content, end="", flush=True)
print()
`;
}

/** The same text with long data URLs shortened, for people. */
export function shortened(snippet: string): string {
  return snippet.replace(/(data:image\/[a-z+.-]+;base64,[A-Za-z0-9+/=]{24})[A-Za-z0-9+/=]{40,}/g, "$1…");
}
