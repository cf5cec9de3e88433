// Where a question is written and its pictures are chosen.
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { t } from "../i18n";
import { takesPictures } from "../server";
import { busy, complaint, draftPictures, draftText, send, stop } from "./conversation";
import { pictureTypes, removePicture, takePictures } from "./pictures";

function ChosenPictures(): VNode | null {
  if (draftPictures.value.length === 0) return null;
  return (
    <ul class="chosen" id="preview" aria-label={t("chosenPictures")}>
      {draftPictures.value.map(({ name, url }, index) => (
        <li key={`${index}${name}`}>
          <img src={url} alt={name} />
          <span class="picture-name">{name}</span>
          <button
            type="button"
            class="plain small"
            aria-label={t("removeNamed", { name })}
            onClick={() => removePicture(index)}
          >
            {t("remove")}
          </button>
        </li>
      ))}
    </ul>
  );
}

function PictureField(): VNode {
  const field = useRef<HTMLInputElement>(null);
  const choose = async () => {
    const files = [...(field.current?.files ?? [])];
    if (field.current) field.current.value = ""; // the same file may be chosen again
    await takePictures(files);
    document.getElementById("question")?.focus();
  };
  return (
    <div class="picture-field">
      <input
        ref={field}
        id="file"
        class="hidden-input"
        type="file"
        multiple
        accept={pictureTypes.join(",")}
        onChange={choose}
      />
      <label for="file" class="button plain">
        {t("addPicture")}
      </label>
      <span class="quiet wide-only">{t("dropHint")}</span>
    </div>
  );
}

export function Composer(): VNode {
  const submit = (event: Event) => {
    event.preventDefault();
    send();
  };
  const key = (event: KeyboardEvent) => {
    // While an input method composes a character, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    submit(event);
  };
  return (
    <form class="panel composer" onSubmit={submit} aria-label={t("composer")}>
      <p id="error" class="error" role="alert" hidden={!complaint.value}>
        {complaint.value}
      </p>
      <ChosenPictures />
      <label for="question" class="visually-hidden">
        {t("question")}
      </label>
      <textarea
        id="question"
        rows={2}
        placeholder={t("questionHint")}
        value={draftText.value}
        onInput={(event) => {
          draftText.value = event.currentTarget.value;
        }}
        onKeyDown={key}
      />
      <div class="row">
        {takesPictures.value && <PictureField />}
        <button type="button" id="stop" class="plain" disabled={!busy.value} onClick={stop}>
          {t("stop")}
        </button>
        <button type="submit" id="send" disabled={busy.value}>
          {t("send")}
        </button>
      </div>
      <p class="quiet keys wide-only">
        <kbd>Enter</kbd> {t("keySends")}, <kbd>Shift</kbd>+<kbd>Enter</kbd> {t("keyLine")}, <kbd>Esc</kbd>{" "}
        {t("keyStops")}
      </p>
    </form>
  );
}
