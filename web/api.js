// The server's HTTP API, as far as this page uses it.

/** A failure with the server's own words. */
export class ApiError extends Error {}

/** The error a response carries: OpenAI's error object, or at least its status. */
async function errorOf(response) {
  let message = `The server answered ${response.status}.`;
  try {
    const body = await response.json();
    if (body?.error?.message) message = body.error.message;
  } catch {
    // Not JSON; the status must do.
  }
  return new ApiError(message);
}

export async function getJson(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

/** Prometheus text to a map from a metric's name to the sum of its samples over all labels. */
export async function getMetrics() {
  const response = await fetch("/metrics", { cache: "no-store" });
  if (!response.ok) throw await errorOf(response);
  const sums = new Map();
  for (const line of (await response.text()).split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(\S+)/.exec(line);
    if (!found) continue;
    const value = Number(found[2]);
    if (Number.isFinite(value)) sums.set(found[1], (sums.get(found[1]) ?? 0) + value);
  }
  return sums;
}

/** Yields the data of each server-sent event of a response; comments and other fields are skipped. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
        if (data.length > 0) yield data.join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Asks one question and yields what arrives: {text} for each piece of the answer, {usage} at the end.
 * `pictureUrl` is a data URL or null. Aborting the signal cancels the request on the server too.
 */
export async function* ask({ model, question, pictureUrl, signal }) {
  const content = [{ type: "text", text: question }];
  if (pictureUrl) content.unshift({ type: "image_url", image_url: { url: pictureUrl } });
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      model,
      messages: [{ role: "user", content }],
      temperature: 0, // the likeliest answer, the same each time
      stream: true,
      stream_options: { include_usage: true },
    }),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  let finished = false;
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message ?? "The answer broke off.");
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) yield { text: choice.delta.content };
    if (choice?.finish_reason) {
      finished = true;
      yield { finishReason: choice.finish_reason };
    }
    if (chunk.usage) yield { usage: chunk.usage };
  }
  if (!finished) throw new ApiError("The connection was lost before the answer was complete.");
}
