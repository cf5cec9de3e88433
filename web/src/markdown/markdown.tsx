// Markdown as elements. A model's words never become HTML: `marked` only splits them into tokens, and each token
// becomes an element of our own choosing; HTML in the text is shown as text, pictures as links, links open elsewhere.
import { Marked, type Token, type Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { t } from "../i18n";
import { Scroller } from "../parts/scroller";
import { Code } from "./code";
import { Formula } from "./formula";
import { type MathToken, mathExtensions } from "./math_tokens";
import { characters, safeUrl } from "./text";

const marked = new Marked({ gfm: true, breaks: true, extensions: mathExtensions });

function Link({ href, children }: { href: string; children: ComponentChildren }): VNode {
  const url = safeUrl(href);
  if (!url) return <span>{children}</span>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function children(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((token, i) => <Piece key={i} token={token} />);
}

function List({ token }: { token: Tokens.List }): VNode {
  const items = token.items.map((item, i) => <li key={i}>{children(item.tokens)}</li>);
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }): VNode {
  const cell = (align: string | null) => (align ? `align-${align}` : "");
  return (
    <Scroller label={t("table")}>
      <table>
        <thead>
          <tr>
            {token.header.map((head, i) => (
              <th key={i} scope="col" class={cell(token.align[i] ?? null)}>
                {children(head.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, r) => (
            <tr key={r}>
              {row.map((data, i) => (
                <td key={i} class={cell(token.align[i] ?? null)}>
                  {children(data.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroller>
  );
}

function Heading({ token }: { token: Tokens.Heading }): VNode {
  // The page has headings of its own above these.
  const Tag = token.depth <= 1 ? "h3" : token.depth === 2 ? "h4" : "h5";
  return <Tag>{children(token.tokens)}</Tag>;
}

function Piece({ token }: { token: Token }): VNode | null {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return <Heading token={token as Tokens.Heading} />;
    case "paragraph":
      return <p>{children(token.tokens)}</p>;
    case "blockquote":
      return <blockquote>{children(token.tokens)}</blockquote>;
    case "list":
      return <List token={token as Tokens.List} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "code":
      return <Code text={token.text} language={(token as Tokens.Code).lang ?? ""} />;
    case "hr":
      return <hr />;
    case "strong":
      return <strong>{children(token.tokens)}</strong>;
    case "em":
      return <em>{children(token.tokens)}</em>;
    case "del":
      return <del>{children(token.tokens)}</del>;
    case "checkbox":
      return <>{token.checked ? "☑ " : "☐ "}</>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link href={token.href}>{children(token.tokens)}</Link>;
    case "image":
      return <Link href={token.href}>{token.text || token.href}</Link>;
    case "math":
    case "mathBlock":
      return <Formula tex={(token as MathToken).tex} display={(token as MathToken).display} />;
    case "escape":
      return <>{token.text}</>;
    case "text":
      return <>{token.tokens ? children(token.tokens) : characters(token.raw)}</>;
    default: // HTML above all
      return <>{token.raw}</>;
  }
}

export function Markdown({ text }: { text: string }): VNode {
  return <div class="markdown">{children(marked.lexer(text))}</div>;
}
