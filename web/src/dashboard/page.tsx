// The dashboard: what the server does right now.
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { t } from "../i18n";
import { Charts } from "./charts";
import { LaneTimeline } from "./lanes";
import { Pipeline } from "./pipeline";
import { Running } from "./running";
import { complaint, watchDashboard } from "./watch";

export function DashboardPage(): VNode {
  useEffect(watchDashboard, []);
  return (
    <div class="dashboard">
      <div class="page-head">
        <h2>{t("dashboard")}</h2>
        <p class="quiet">
          {t("rawNumbers")} <a href="/metrics">/metrics</a>
        </p>
      </div>
      {complaint.value && (
        <p class="error" role="alert">
          {complaint.value}
        </p>
      )}
      <Pipeline />
      <Charts />
      <LaneTimeline />
      <Running />
    </div>
  );
}
