// Models: what is served, what is stored, and what is on its way from the hub.
import { signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import {
  cancelJob,
  type Job,
  jobList,
  loadModel,
  type ModelList,
  modelList,
  type PullPlan,
  planPull,
  pullModel,
  removeModel,
  type StoredModel,
  unloadModel,
} from "../admin";
import { ApiError } from "../http";
import { bytes, count, dateTime, remaining, t, type Word } from "../i18n";
import { Dialog } from "../parts/dialog";
import { Table } from "../parts/table";
import { askServerNow, everyWhileVisible } from "../server";

const periodMs = 1000;

const found = signal<ModelList | null>(null);
const jobs = signal<Job[]>([]);
const complaint = signal("");
const plan = signal<PullPlan | null>(null);
const planned = signal(""); // what the plan is of, as it was asked for
const doomed = signal<StoredModel | null>(null);

async function tried(work: () => Promise<void>): Promise<void> {
  try {
    await work();
    complaint.value = "";
  } catch (error) {
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

async function look(): Promise<void> {
  found.value = await modelList();
  jobs.value = await jobList();
}

/** What a button does; a round of looking never hides its complaint. */
const act = (work: () => Promise<unknown>) =>
  tried(async () => {
    await work();
    await look();
    await askServerNow();
  });

async function round(): Promise<void> {
  try {
    await look();
  } catch (error) {
    if (!found.value) complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

const stateWords: Record<string, Word> = {
  stored: "modelStored",
  draining: "modelDraining",
  loading: "stateLoading",
  ready: "modelLoaded",
  queued: "jobQueued",
  planning: "jobPlanning",
  running: "jobRunning",
  done: "jobDone",
  failed: "stateFailed",
  cancelled: "jobCancelled",
};

const stateText = (state: string): string => {
  const word = stateWords[state];
  return word ? t(word) : state;
};

function Served({ shown }: { shown: ModelList }): VNode {
  const { state, model, phase, percent, error } = shown.served;
  const changing = state === "loading" || state === "draining";
  return (
    <section class="panel" aria-labelledby="served-head">
      <h3 id="served-head">{t("servedModel")}</h3>
      <p class="row">
        <strong id="served-model">{model && state !== "empty" ? model : t("noneLoaded")}</strong>
        {state !== "empty" && <span class="badge">{stateText(state)}</span>}
        {state === "ready" && (
          <button type="button" class="plain small" onClick={() => act(unloadModel)}>
            {t("unload")}
          </button>
        )}
      </p>
      {changing && (
        <div>
          <label for="model-progress">
            {state === "draining" ? t("drainHint") : t("loadingPhase", { phase, percent })}
          </label>
          <progress id="model-progress" max={100} {...(state === "loading" ? { value: percent } : {})} />
        </div>
      )}
      {error && (
        <p class="error" role="alert">
          {t("loadFailed", { model: model ?? "", why: error.message })}
        </p>
      )}
    </section>
  );
}

function ModelRow({ shown, free }: { shown: StoredModel; free: boolean }): VNode {
  const stored = shown.state === "stored";
  return (
    <tr>
      <th scope="row">
        {shown.model}
        <p class="quiet">
          <code>{shown.commit.slice(0, 18)}</code>
        </p>
      </th>
      <td>{shown.architecture}</td>
      <td class="number">{bytes(shown.bytes)}</td>
      <td>{dateTime(shown.installed_ms)}</td>
      <td>{stateText(shown.state)}</td>
      <td>
        {stored && (
          <div class="row">
            <button
              type="button"
              class="plain small"
              disabled={!free}
              aria-label={t("loadNamed", { name: shown.model })}
              onClick={() => act(() => loadModel(shown.id))}
            >
              {t("load")}
            </button>
            <button
              type="button"
              class="plain small"
              aria-label={t("removeNamed", { name: shown.model })}
              onClick={() => {
                doomed.value = shown;
              }}
            >
              {t("remove")}
            </button>
          </div>
        )}
      </td>
    </tr>
  );
}

function PullForm(): VNode {
  const name = useSignal("");
  const asking = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    asking.value = true;
    await tried(async () => {
      planned.value = name.value.trim();
      plan.value = await planPull(planned.value);
    });
    asking.value = false;
  };
  return (
    <form class="panel filters" onSubmit={submit} aria-label={t("pullModel")}>
      <div>
        <label for="pull-name">{t("pullName")}</label>
        <input
          id="pull-name"
          required
          placeholder="org/name"
          value={name.value}
          onInput={(event) => {
            name.value = event.currentTarget.value;
          }}
        />
      </div>
      <button type="submit" disabled={asking.value}>
        {asking.value ? t("jobPlanning") : t("pullPlan")}
      </button>
      <p class="quiet">{t("pullHint")}</p>
    </form>
  );
}

const fitText = (fits: boolean): string => (fits ? t("fits") : t("fitsNot"));

function PlanDialog(): VNode | null {
  const shown = plan.value;
  if (!shown) return null;
  const close = () => {
    plan.value = null;
  };
  const facts: [string, string][] = [
    [t("architecture"), shown.architecture],
    [t("files"), count(shown.files.length)],
    [t("size"), bytes(shown.bytes_total)],
    [t("missing"), bytes(shown.bytes_missing)],
    [t("disk"), `${t("freeOf", { size: bytes(shown.disk.free_bytes) })}: ${fitText(shown.disk.fits)}`],
    [
      t("memory"),
      `${t("freeOf", { size: bytes(shown.memory.available_bytes) })}: ${fitText(shown.memory.fits)}`,
    ],
    ...shown.cards.map((card): [string, string] => [
      card.name,
      `${bytes(card.memory_bytes)}: ${fitText(card.fits)}`,
    ]),
  ];
  return (
    <Dialog title={t("planOf", { name: shown.model })} close={close}>
      <dl class="detail">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {shown.installed ? (
        <p>{t("isStored")}</p>
      ) : (
        <button
          type="button"
          disabled={!shown.disk.fits}
          onClick={() => {
            close();
            act(() => pullModel(planned.value));
          }}
        >
          {t("pullNow")}
        </button>
      )}
    </Dialog>
  );
}

function JobRow({ job }: { job: Job }): VNode {
  const open = job.finished_ms === null;
  const left = job.bytes_per_s > 0 ? (job.bytes_total - job.bytes_done) / job.bytes_per_s : 0;
  const id = `progress-${job.id}`;
  return (
    <tr>
      <th scope="row">{job.model}</th>
      <td>
        {stateText(job.state)}
        {job.error && job.state === "failed" && <p class="error">{job.error.message}</p>}
      </td>
      <td>
        <label for={id}>{`${bytes(job.bytes_done)} / ${bytes(job.bytes_total)}`}</label>
        <progress id={id} max={Math.max(job.bytes_total, 1)} value={job.bytes_done} />
      </td>
      <td class="number">{job.bytes_per_s > 0 ? `${bytes(job.bytes_per_s)}/s` : "–"}</td>
      <td class="number">{open && left > 0 ? remaining(left) : "–"}</td>
      <td>
        {open && (
          <button
            type="button"
            class="plain small"
            aria-label={t("cancelNamed", { id: job.model })}
            onClick={() => act(() => cancelJob(job.id))}
          >
            {t("cancel")}
          </button>
        )}
      </td>
    </tr>
  );
}

function RemoveDialog(): VNode | null {
  const shown = doomed.value;
  if (!shown) return null;
  const close = () => {
    doomed.value = null;
  };
  return (
    <Dialog title={t("removeNamed", { name: shown.model })} close={close}>
      <p>{t("removeModelHint", { size: bytes(shown.bytes) })}</p>
      <button
        type="button"
        onClick={() => {
          close();
          act(() => removeModel(shown.id));
        }}
      >
        {t("remove")}
      </button>
    </Dialog>
  );
}

function Stored({ shown }: { shown: ModelList }): VNode {
  const free = shown.served.state === "ready" || shown.served.state === "empty";
  return (
    <>
      <h3>{t("storedModels")}</h3>
      {shown.models.length === 0 ? (
        <p class="quiet">{t("nothingStored")}</p>
      ) : (
        <Table
          id="stored-models"
          label={t("storedModels")}
          heads={["model", "architecture", "size", "installedAt", "keyState", "actions"]}
        >
          {shown.models.map((model) => (
            <ModelRow key={model.id} shown={model} free={free} />
          ))}
        </Table>
      )}
      {shown.partials.map((partial) => (
        <p key={partial.commit} class="quiet">
          {t("partialModel", { name: partial.model, size: bytes(partial.bytes) })}
        </p>
      ))}
    </>
  );
}

export function ModelsPage(): VNode {
  useEffect(() => everyWhileVisible(periodMs, round), []);
  const shown = found.value;
  return (
    <div class="models-page">
      <div class="page-head">
        <h2>{t("models")}</h2>
        {shown?.free_bytes != null && <p class="quiet">{t("diskFree", { size: bytes(shown.free_bytes) })}</p>}
      </div>
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      {shown && (
        <>
          <Served shown={shown} />
          <Stored shown={shown} />
          <h3>{t("pullModel")}</h3>
          <PullForm />
          {jobs.value.length > 0 && (
            <Table
              id="pull-jobs"
              label={t("pulls")}
              heads={["model", "keyState", "progress", "speed", "timeLeft", "actions"]}
            >
              {jobs.value.map((job) => (
                <JobRow key={job.id} job={job} />
              ))}
            </Table>
          )}
        </>
      )}
      <PlanDialog />
      <RemoveDialog />
    </div>
  );
}
