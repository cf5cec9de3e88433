// The request log: find, look into one, take away.
import { computed, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { download, type LogRow, logRows } from "../admin";
import { ApiError } from "../http";
import { count, dateTime, duration, t, type Word } from "../i18n";
import { Dialog } from "../parts/dialog";
import { Table } from "../parts/table";
import { RowDetail } from "./detail";

interface Filter {
  minutes: number; // 0: since ever
  status: "" | "ok" | "failed";
  model: string;
  id: string;
  pictures: boolean;
  limit: number;
}

const filter = signal<Filter>({ minutes: 0, status: "", model: "", id: "", pictures: false, limit: 100 });
const rows = signal<LogRow[] | null>(null);
const complaint = signal("");
const chosen = signal<LogRow | null>(null);
const asking = signal(0); // rounds begun; an answer to an older one is dropped

function queryOf({ minutes, status, model, id, pictures, limit }: Filter): URLSearchParams {
  const query = new URLSearchParams({ limit: String(limit) });
  if (minutes > 0) query.set("since_ms", String(Date.now() - minutes * 60_000));
  if (status) query.set("status", status);
  if (model.trim()) query.set("model", model.trim());
  if (id.trim()) query.set("id", id.trim());
  if (pictures) query.set("images", "1");
  return query;
}

async function find(): Promise<void> {
  asking.value += 1;
  const round = asking.value;
  try {
    const found = await logRows(queryOf(filter.value));
    if (round !== asking.value) return;
    rows.value = found;
    complaint.value = "";
  } catch (error) {
    if (round !== asking.value) return;
    rows.value = null;
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

async function take(format: "csv" | "jsonl"): Promise<void> {
  const query = queryOf({ ...filter.value, limit: 20_000 });
  query.set("format", format);
  try {
    await download(`/admin/requests?${query}`, `requests.${format}`);
  } catch (error) {
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

function set(change: Partial<Filter>): void {
  filter.value = { ...filter.value, ...change };
}

const periods: [number, Word][] = [
  [0, "periodAll"],
  [15, "period15"],
  [60, "periodHour"],
  [1440, "periodDay"],
  [10080, "periodWeek"],
];

function Filters(): VNode {
  const submit = (event: Event) => {
    event.preventDefault();
    find();
  };
  return (
    <form class="panel filters" onSubmit={submit} aria-label={t("filters")}>
      <div>
        <label for="filter-period">{t("period")}</label>
        <select
          id="filter-period"
          value={filter.value.minutes}
          onChange={(event) => {
            set({ minutes: Number(event.currentTarget.value) });
            find();
          }}
        >
          {periods.map(([minutes, word]) => (
            <option key={minutes} value={minutes}>
              {t(word)}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label for="filter-status">{t("result")}</label>
        <select
          id="filter-status"
          value={filter.value.status}
          onChange={(event) => {
            set({ status: event.currentTarget.value as Filter["status"] });
            find();
          }}
        >
          <option value="">{t("resultAll")}</option>
          <option value="ok">{t("resultOk")}</option>
          <option value="failed">{t("resultFailed")}</option>
        </select>
      </div>
      <div>
        <label for="filter-model">{t("model")}</label>
        <input
          id="filter-model"
          value={filter.value.model}
          onInput={(event) => set({ model: event.currentTarget.value })}
        />
      </div>
      <div>
        <label for="filter-id">{t("requestId")}</label>
        <input
          id="filter-id"
          value={filter.value.id}
          onInput={(event) => set({ id: event.currentTarget.value })}
        />
      </div>
      <div class="check">
        <input
          id="filter-pictures"
          type="checkbox"
          checked={filter.value.pictures}
          onChange={(event) => {
            set({ pictures: event.currentTarget.checked });
            find();
          }}
        />
        <label for="filter-pictures">{t("withPictures")}</label>
      </div>
      <button type="submit">{t("find")}</button>
    </form>
  );
}

const outcome = (row: LogRow) => row.error_code ?? row.finish_reason ?? "–";
const known = (value: number | null) => (value === null ? "–" : count(value));
const time = (us: number | null) => (us === null ? "–" : duration(us / 1000));

function Row({ row }: { row: LogRow }): VNode {
  const failed = row.status === null || row.status >= 400;
  return (
    <tr>
      <th scope="row">
        <button
          type="button"
          class="link"
          aria-label={t("showNamed", { id: row.id })}
          onClick={() => {
            chosen.value = row;
          }}
        >
          {dateTime(row.ts_ms)}
        </button>
      </th>
      <td class={failed ? "bad" : ""}>{row.status ?? "–"}</td>
      <td>{outcome(row)}</td>
      <td>{row.model ?? "–"}</td>
      <td class="number">{known(row.n_images)}</td>
      <td class="number">{known(row.prompt_tokens)}</td>
      <td class="number">{known(row.completion_tokens)}</td>
      <td class="number">{time(row.first_token_us)}</td>
      <td class="number">{time(row.total_us)}</td>
    </tr>
  );
}

const heads: Word[] = [
  "time",
  "status",
  "result",
  "model",
  "pictures",
  "promptTokens",
  "answerTokens",
  "firstToken",
  "total",
];

function Rows(): VNode {
  const found = rows.value ?? [];
  return (
    <Table id="log-rows" label={t("requests")} heads={heads}>
      {found.map((row, i) => (
        <Row key={`${row.ts_ms}${row.id}${i}`} row={row} />
      ))}
    </Table>
  );
}

const summary = computed(() => {
  if (!rows.value) return "";
  const more = rows.value.length >= filter.value.limit;
  return t(more ? "newestRows" : "foundRows", { n: rows.value.length });
});

export function RequestsPage(): VNode {
  useEffect(() => {
    find();
  }, []);
  return (
    <div class="requests">
      <div class="page-head">
        <h2>{t("requests")}</h2>
        <p class="quiet" role="status">
          {summary.value}
        </p>
        <button type="button" class="plain small" onClick={() => take("csv")}>
          {t("exportCsv")}
        </button>
        <button type="button" class="plain small" onClick={() => take("jsonl")}>
          {t("exportJson")}
        </button>
      </div>
      <Filters />
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      {rows.value && <Rows />}
      {chosen.value && (
        <Dialog
          title={t("oneRequest")}
          close={() => {
            chosen.value = null;
          }}
        >
          <RowDetail row={chosen.value} />
        </Dialog>
      )}
    </div>
  );
}
