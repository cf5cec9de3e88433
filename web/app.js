// The page: choose a picture, ask, read the answer while it is made.
import { ask, getJson } from "./api.js";
import * as status from "./status.js";

const by = (id) => document.getElementById(id);

let pictureUrl = null; // the chosen picture as a data URL
let running = null; // the AbortController of the question being answered

// ---- the picture

function showPicture(url, name) {
  pictureUrl = url;
  by("preview").hidden = !url;
  by("drop-label").hidden = Boolean(url);
  if (url) by("picture").src = url;
  else by("picture").removeAttribute("src");
  by("picture-name").textContent = name;
  by("file").value = "";
}

function showError(message) {
  by("error").textContent = message;
  by("error").hidden = !message;
}

/** Takes a file the user dropped, pasted or picked. The server judges by content; this only spares a useless upload. */
async function takePicture(file) {
  if (!file) return;
  if (!["image/png", "image/jpeg"].includes(file.type)) return showError("Please choose a PNG or JPEG picture.");
  showError("");
  const reader = new FileReader();
  await new Promise((resolve) => {
    reader.onloadend = resolve;
    reader.readAsDataURL(file);
  });
  if (reader.error) return showError("The picture could not be read.");
  showPicture(reader.result, file.name || "pasted picture");
  by("question").focus();
}

/** Pictures that come with the server: examples/examples.json lists {picture, question}. */
async function showSamples() {
  let samples = [];
  try {
    samples = await getJson("/examples/examples.json");
  } catch {
    return; // this server has none
  }
  for (const { picture, question } of samples) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", `Sample picture, "${question}"`);
    const image = document.createElement("img");
    image.src = `/examples/${picture}`;
    image.alt = "";
    button.append(image);
    button.addEventListener("click", async () => {
      const blob = await (await fetch(image.src)).blob();
      await takePicture(new File([blob], picture, { type: blob.type }));
      by("question").value = question;
    });
    const item = document.createElement("li");
    item.append(button);
    by("sample-list").append(item);
  }
  by("samples").hidden = samples.length === 0;
}

// ---- the answer

/** Hands whole sentences to screen readers, not single tokens. */
class Speaker {
  #spoken = 0;
  say(text, complete) {
    const end = complete ? text.length : Math.max(...[...".!?\n"].map((mark) => text.lastIndexOf(mark))) + 1;
    if (!text.slice(this.#spoken, end).trim()) return;
    by("spoken").textContent = text.slice(this.#spoken, end);
    this.#spoken = end;
  }
}

function showRate(startedMs, firstMs, usage, finishReason) {
  const made = usage?.completion_tokens;
  const seconds = (performance.now() - firstMs) / 1000;
  const parts = [`first token after ${Math.round(firstMs - startedMs)} ms`];
  if (made > 1 && seconds > 0) parts.unshift(`${((made - 1) / seconds).toFixed(1)} tokens/s`);
  if (made !== undefined) parts.push(`${usage.prompt_tokens} tokens in, ${made} out`);
  if (finishReason === "length") parts.push("cut at the token limit");
  by("rate").textContent = parts.join(" · ");
}

function setBusy(busy) {
  by("send").disabled = busy;
  by("stop").disabled = !busy;
  by("answer").classList.toggle("busy", busy);
}

async function answer(question) {
  running = new AbortController();
  setBusy(true);
  showError("");
  by("rate").textContent = "";
  by("answer").textContent = "";
  const speaker = new Speaker();
  const startedMs = performance.now();
  let firstMs = 0;
  let finishReason = null;
  let text = "";
  try {
    if (!status.model) throw new Error("The server offers no model yet.");
    for await (const part of ask({ model: status.model, question, pictureUrl, signal: running.signal })) {
      if (part.text) {
        firstMs ||= performance.now();
        text += part.text;
        by("answer").textContent = text;
        speaker.say(text, false);
      }
      if (part.finishReason) finishReason = part.finishReason;
      if (part.usage && firstMs) showRate(startedMs, firstMs, part.usage, finishReason);
    }
    if (!text) by("answer").textContent = "(an empty answer)";
  } catch (error) {
    if (error.name === "AbortError") by("rate").textContent = "stopped";
    else if (error instanceof TypeError) showError("The server cannot be reached.");
    else showError(error.message);
  } finally {
    speaker.say(text, true);
    running = null;
    setBusy(false);
  }
}

// ---- wiring

by("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = by("question").value.trim();
  if (question && !running) answer(question);
});
by("question").addEventListener("keydown", (event) => {
  // While an input method composes a character, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  by("form").requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
by("stop").addEventListener("click", () => running?.abort());
by("remove").addEventListener("click", () => {
  showPicture(null, "");
  by("file").focus();
});
by("file").addEventListener("change", () => takePicture(by("file").files[0]));

for (const kind of ["dragover", "dragleave", "drop"]) {
  // The whole page takes drops: a picture that misses the field must not replace the page.
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    by("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") takePicture(event.dataTransfer.files[0]);
  });
}
document.addEventListener("paste", (event) => {
  const file = [...(event.clipboardData?.files ?? [])][0];
  if (!file) return;
  event.preventDefault();
  takePicture(file);
});

by("base-url").textContent = `${location.origin}/v1`;
status.watch();
showSamples();
