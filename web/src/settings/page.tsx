// The settings the server runs with, and where each value came from.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { type Setting, settings } from "../admin";
import { ApiError } from "../http";
import { t } from "../i18n";
import { Table } from "../parts/table";

const found = signal<Setting[]>([]);
const complaint = signal("");
const changedOnly = signal(false);

async function ask(): Promise<void> {
  try {
    found.value = await settings();
    complaint.value = "";
  } catch (error) {
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

function Row({ setting }: { setting: Setting }): VNode {
  const set = setting.origin !== "default";
  return (
    <tr>
      <th scope="row">
        <code>{setting.key}</code>
        <p class="quiet">{setting.description}</p>
      </th>
      <td>
        <code>{setting.value === "" ? "–" : setting.value}</code>
      </td>
      <td class={set ? "set" : ""}>{setting.origin}</td>
      <td>
        <code>{setting.flag}</code>
        <br />
        <code>{setting.environment}</code>
      </td>
    </tr>
  );
}

export function SettingsPage(): VNode {
  useEffect(() => {
    ask();
  }, []);
  const shown = found.value.filter(({ origin }) => !changedOnly.value || origin !== "default");
  return (
    <div class="settings">
      <div class="page-head">
        <h2>{t("settings")}</h2>
        <p class="quiet">{t("settingsHint")}</p>
        <div class="check">
          <input
            id="changed-only"
            type="checkbox"
            checked={changedOnly.value}
            onChange={(event) => {
              changedOnly.value = event.currentTarget.checked;
            }}
          />
          <label for="changed-only">{t("changedOnly")}</label>
        </div>
      </div>
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      <Table label={t("settings")} heads={["setting", "value", "origin", "howToSet"]}>
        {shown.map((setting) => (
          <Row key={setting.key} setting={setting} />
        ))}
      </Table>
    </div>
  );
}
