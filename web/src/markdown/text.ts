// Small questions about text in Markdown.

const named: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Character references as characters: those that HTML cannot do without, and numbers. */
export function characters(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,4}));/g, (all, decimal, hex, name) => {
    if (name) return named[name] ?? all;
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
    const is_character = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return is_character ? String.fromCodePoint(code) : "\ufffd";
  });
}

/** A link that may be followed: absolute, of a scheme that runs nothing. */
export function safeUrl(href: string): string | null {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
