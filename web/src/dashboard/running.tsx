// Requests under way, each with a button that ends it.
import type { VNode } from "preact";
import { cancelRequest, type RunningRequest } from "../admin";
import { ApiError } from "../http";
import { count, duration, t, type Word } from "../i18n";
import { Scroller } from "../parts/scroller";
import { complaint, state } from "./watch";

const phases: Record<RunningRequest["phase"], Word> = {
  preparing: "phasePreparing",
  waiting: "phaseWaiting",
  answering: "phaseAnswering",
};

async function cancel(id: string): Promise<void> {
  try {
    await cancelRequest(id);
  } catch (error) {
    // It ended by itself meanwhile: that is what was wanted.
    if (error instanceof ApiError && error.status === 404) return;
    complaint.value = error instanceof Error ? error.message : String(error);
  }
}

function Row({ request }: { request: RunningRequest }): VNode {
  return (
    <tr>
      <th scope="row">
        <code>{request.id}</code>
      </th>
      <td>{t(phases[request.phase])}</td>
      <td class="number">{duration(request.age_us / 1000)}</td>
      <td class="number">{count(request.n_images)}</td>
      <td class="number">{count(request.prompt_tokens)}</td>
      <td class="number">{count(request.completion_tokens)}</td>
      <td>{request.key_name || request.client}</td>
      <td>
        <button
          type="button"
          class="plain small"
          aria-label={t("cancelNamed", { id: request.id })}
          onClick={() => cancel(request.id)}
        >
          {t("cancel")}
        </button>
      </td>
    </tr>
  );
}

export function Running(): VNode {
  const requests = state.value?.requests ?? [];
  return (
    <section class="panel" aria-labelledby="running-title">
      <h3 id="running-title">{t("runningRequests")}</h3>
      {requests.length === 0 ? (
        <p class="quiet">{t("noRequests")}</p>
      ) : (
        <Scroller label={t("runningRequests")}>
          <table id="running-requests">
            <thead>
              <tr>
                <th scope="col">{t("requestId")}</th>
                <th scope="col">{t("phase")}</th>
                <th scope="col">{t("age")}</th>
                <th scope="col">{t("pictures")}</th>
                <th scope="col">{t("promptTokens")}</th>
                <th scope="col">{t("answerTokens")}</th>
                <th scope="col">{t("client")}</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {requests.map((request, i) => (
                <Row key={`${request.id}${i}`} request={request} />
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
    </section>
  );
}
