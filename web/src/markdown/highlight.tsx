// Colours for code. highlight.js answers in HTML, of which only the spans' classes are taken over.
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ComponentChildren } from "preact";

const languages = { bash, cpp, css, go, java, javascript, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

const lengthMax = 50_000;

function copyOf(node: Node, key: number): ComponentChildren {
  if (!(node instanceof Element)) return node.textContent;
  return (
    <span key={key} class={node.className}>
      {[...node.childNodes].map(copyOf)}
    </span>
  );
}

/** Null where the language is not known or the text too long. */
export function highlight(text: string, language: string): ComponentChildren | null {
  if (text.length > lengthMax || !hljs.getLanguage(language)) return null;
  const html = hljs.highlight(text, { language, ignoreIllegals: true }).value;
  return [...new DOMParser().parseFromString(html, "text/html").body.childNodes].map(copyOf);
}
