// Server-sent events over fetch(), as the HTML standard reads them; only `data` fields matter here.

/** Splits a stream of text into the data of its events. Feed it pieces cut anywhere. */
export class EventSplitter {
  #rest = "";

  push(piece: string): string[] {
    this.#rest += piece;
    // A "\r" at the very end may be half of "\r\n".
    const usable = this.#rest.endsWith("\r") ? this.#rest.length - 1 : this.#rest.length;
    const text = this.#rest.slice(0, usable).replace(/\r\n?/g, "\n");
    const events = text.split("\n\n");
    this.#rest = (events.pop() ?? "") + this.#rest.slice(usable);
    return events.map(dataOf).filter((data) => data !== null);
  }
}

function dataOf(event: string): string | null {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  if (lines.length === 0) return null;
  return lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
}

/** The data of each event of a response. Leaving the loop early closes the connection. */
export async function* events(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  const splitter = new EventSplitter();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* splitter.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
