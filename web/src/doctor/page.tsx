// What the server finds when it looks at its machine, and what to do about it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { type Diagnosis, diagnosis, type Finding } from "../admin";
import { ApiError } from "../http";
import { t, type Word } from "../i18n";
import { Table } from "../parts/table";

const found = signal<Diagnosis | null>(null);
const complaint = signal("");
const looking = signal(false);
const notGoodOnly = signal(false);

async function examine(): Promise<void> {
  if (looking.value) return;
  looking.value = true;
  try {
    found.value = await diagnosis();
    complaint.value = "";
  } catch (error) {
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  } finally {
    looking.value = false;
  }
}

const words: Record<Finding["status"], Word> = { OK: "healthOk", WARN: "healthWarn", FAIL: "healthFail" };
/** Beside the colour, for who cannot tell colours apart. */
const shapes: Record<Finding["status"], string> = { OK: "✓", WARN: "!", FAIL: "✕" };

function Row({ finding }: { finding: Finding }): VNode {
  return (
    <tr>
      <td class={`health ${finding.status.toLowerCase()}`}>
        <span aria-hidden="true">{shapes[finding.status]}</span> {t(words[finding.status])}
      </td>
      <th scope="row">{finding.area}</th>
      <td>
        {finding.text}
        {finding.fix && (
          <p class="quiet">
            {t("fix")} {finding.fix}
          </p>
        )}
      </td>
    </tr>
  );
}

function summary(): string {
  if (looking.value) return t("examining");
  if (!found.value) return "";
  const count = (status: Finding["status"]) =>
    found.value?.findings.filter((finding) => finding.status === status).length ?? 0;
  return t("healthCounts", { ok: count("OK"), warn: count("WARN"), fail: count("FAIL") });
}

export function DoctorPage(): VNode {
  useEffect(() => {
    examine();
  }, []);
  const shown = found.value?.findings.filter(({ status }) => !notGoodOnly.value || status !== "OK") ?? [];
  return (
    <div class="doctor">
      <div class="page-head">
        <h2>{t("doctor")}</h2>
        <p class="quiet" role="status">
          {summary()}
        </p>
        <div class="check">
          <input
            id="not-good-only"
            type="checkbox"
            checked={notGoodOnly.value}
            onChange={(event) => {
              notGoodOnly.value = event.currentTarget.checked;
            }}
          />
          <label for="not-good-only">{t("notGoodOnly")}</label>
        </div>
        <button type="button" class="plain small" onClick={examine} disabled={looking.value}>
          {t("examineAgain")}
        </button>
      </div>
      <p class="quiet">{t("doctorHint")}</p>
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      {found.value && (
        <Table id="findings" label={t("doctor")} heads={["health", "area", "found"]}>
          {shown.map((finding, i) => (
            <Row key={`${finding.area}${i}`} finding={finding} />
          ))}
        </Table>
      )}
    </div>
  );
}
