// API keys: who may use the server, how much, and what each used.
import { signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { type ApiKey, createKey, type KeyList, keyList, revokeKey, type Usage } from "../admin";
import { ApiError, setApiKey } from "../http";
import { count, dateTime, t } from "../i18n";
import { CopyButton } from "../markdown/code";
import { Dialog } from "../parts/dialog";
import { Table } from "../parts/table";

const found = signal<KeyList | null>(null);
const complaint = signal("");
const made = signal<{ name: string; key: string } | null>(null);
const ending = signal<ApiKey | null>(null);

async function tried(work: () => Promise<void>): Promise<void> {
  try {
    await work();
    complaint.value = "";
  } catch (error) {
    complaint.value = error instanceof ApiError ? error.message : t("unreachable");
  }
}

const ask = () =>
  tried(async () => {
    found.value = await keyList();
  });

const limit = (value: number | null) => (value === null ? "–" : count(value));

function KeyRow({ shown }: { shown: ApiKey }): VNode {
  return (
    <tr>
      <th scope="row">{shown.name}</th>
      <td>{shown.admin ? t("adminKey") : t("userKey")}</td>
      <td>
        <code>…{shown.last4}</code>
      </td>
      <td class="number">{limit(shown.concurrency_max)}</td>
      <td class="number">{limit(shown.per_minute_max)}</td>
      <td>{dateTime(shown.created_ms)}</td>
      <td>
        {shown.revoked_ms !== null ? (
          t("revokedAt", { time: dateTime(shown.revoked_ms) })
        ) : (
          <button
            type="button"
            class="plain small"
            aria-label={t("revokeNamed", { name: shown.name })}
            onClick={() => {
              ending.value = shown;
            }}
          >
            {t("revoke")}
          </button>
        )}
      </td>
    </tr>
  );
}

function UsageRow({ row }: { row: Usage }): VNode {
  return (
    <tr>
      <th scope="row">{row.key_name ?? "–"}</th>
      <td>{row.model ?? "–"}</td>
      <td class="number">{count(row.requests)}</td>
      <td class="number">{count(row.failed)}</td>
      <td class="number">{count(row.images)}</td>
      <td class="number">{count(row.prompt_tokens)}</td>
      <td class="number">{count(row.completion_tokens)}</td>
    </tr>
  );
}

function CreateForm(): VNode {
  const first = found.value?.keys.length === 0;
  const name = useSignal("");
  const admin = useSignal(false);
  const concurrency = useSignal("");
  const perMinute = useSignal("");
  const submit = (event: Event) => {
    event.preventDefault();
    tried(async () => {
      const answer = await createKey({
        name: name.value.trim(),
        // Who locks the server must be able to open it.
        admin: first || admin.value,
        concurrency_max: Number(concurrency.value || 0),
        per_minute_max: Number(perMinute.value || 0),
      });
      if (first) setApiKey(answer.key);
      made.value = { name: answer.name, key: answer.key };
      name.value = "";
      await ask();
    });
  };
  return (
    <form class="panel filters" onSubmit={submit} aria-label={t("newKey")}>
      <div>
        <label for="key-name">{t("keyName")}</label>
        <input
          id="key-name"
          required
          maxLength={64}
          value={name.value}
          onInput={(event) => {
            name.value = event.currentTarget.value;
          }}
        />
      </div>
      <div>
        <label for="key-concurrency">{t("keyConcurrency")}</label>
        <input
          id="key-concurrency"
          type="number"
          min={0}
          max={1000000}
          value={concurrency.value}
          onInput={(event) => {
            concurrency.value = event.currentTarget.value;
          }}
        />
      </div>
      <div>
        <label for="key-minute">{t("keyPerMinute")}</label>
        <input
          id="key-minute"
          type="number"
          min={0}
          max={1000000}
          value={perMinute.value}
          onInput={(event) => {
            perMinute.value = event.currentTarget.value;
          }}
        />
      </div>
      <div class="check">
        <input
          id="key-admin"
          type="checkbox"
          checked={first || admin.value}
          disabled={first}
          onChange={(event) => {
            admin.value = event.currentTarget.checked;
          }}
        />
        <label for="key-admin">{t("adminKey")}</label>
      </div>
      <button type="submit">{t("newKey")}</button>
      <p class="quiet">{first ? t("firstKeyHint") : t("limitsHint")}</p>
    </form>
  );
}

function MadeDialog(): VNode | null {
  if (!made.value) return null;
  return (
    <Dialog
      title={t("keyMade", { name: made.value.name })}
      close={() => {
        made.value = null;
      }}
    >
      <p>{t("keyOnce")}</p>
      <div class="row">
        <code id="new-key">{made.value.key}</code>
        <CopyButton text={made.value.key} />
      </div>
    </Dialog>
  );
}

function RevokeDialog(): VNode | null {
  const shown = ending.value;
  if (!shown) return null;
  const close = () => {
    ending.value = null;
  };
  return (
    <Dialog title={t("revokeNamed", { name: shown.name })} close={close}>
      <p>{t("revokeHint")}</p>
      <button
        type="button"
        onClick={() => {
          close();
          tried(async () => {
            await revokeKey(shown.id);
            await ask();
          });
        }}
      >
        {t("revoke")}
      </button>
    </Dialog>
  );
}

export function KeysPage(): VNode {
  useEffect(() => {
    ask();
  }, []);
  return (
    <div class="keys-page">
      <div class="page-head">
        <h2>{t("keys")}</h2>
        <p class="quiet">{found.value && (found.value.on ? t("keysOn") : t("keysOff"))}</p>
      </div>
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      {found.value && (
        <>
          <CreateForm />
          {found.value.keys.length > 0 && (
            <Table
              label={t("keys")}
              heads={[
                "keyName",
                "keyKind",
                "apiKey",
                "keyConcurrency",
                "keyPerMinute",
                "keyCreated",
                "keyState",
              ]}
            >
              {found.value.keys.map((key) => (
                <KeyRow key={key.id} shown={key} />
              ))}
            </Table>
          )}
          <h3>{t("usage30")}</h3>
          <Table
            label={t("usage30")}
            heads={[
              "keyName",
              "model",
              "requestCount",
              "failedCount",
              "pictures",
              "promptTokens",
              "answerTokens",
            ]}
          >
            {found.value.usage.map((row) => (
              <UsageRow key={`${row.key_name}/${row.model}`} row={row} />
            ))}
          </Table>
        </>
      )}
      <MadeDialog />
      <RevokeDialog />
    </div>
  );
}
