// Asks for an API key when the server wants one.
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { apiKey, declineKey, setApiKey } from "../http";
import { t } from "../i18n";
import { askServerNow, reach } from "../server";
import { Dialog } from "./dialog";

export function KeyDialog(): VNode {
  const typed = useSignal(apiKey.peek());
  const submit = (event: Event) => {
    event.preventDefault();
    setApiKey(typed.value.trim());
    askServerNow();
  };
  return (
    <Dialog title={t("keyNeeded")} close={declineKey}>
      <form onSubmit={submit}>
        <p>{apiKey.value && reach.value === "locked" ? t("keyRefused") : t("keyExplained")}</p>
        <label for="api-key">{t("apiKey")}</label>
        <input
          id="api-key"
          type="password"
          autocomplete="off"
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
          }}
        />
        <button type="submit">{t("useKey")}</button>
      </form>
    </Dialog>
  );
}
