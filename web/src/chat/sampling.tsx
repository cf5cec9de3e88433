// Sampling settings. Empty fields are the server's to decide.
import type { VNode } from "preact";
import { t, type Word } from "../i18n";
import { sampling, setSampling } from "./conversation";
import { defaultSampling, type Sampling } from "./request";

interface Field {
  name: Exclude<keyof Sampling, "system">;
  word: Word;
  min: number;
  max: number;
  step: number | "any";
}

const fields: Field[] = [
  { name: "temperature", word: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "top_p", word: "topP", min: 0, max: 1, step: 0.05 },
  { name: "top_k", word: "topK", min: 0, max: 100000, step: 1 },
  { name: "min_p", word: "minP", min: 0, max: 1, step: 0.01 },
  { name: "max_completion_tokens", word: "maxTokens", min: 1, max: 1000000, step: 1 },
  { name: "seed", word: "seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 },
  { name: "repetition_penalty", word: "repetitionPenalty", min: 0.1, max: 2, step: 0.05 },
];

function NumberField({ name, word, min, max, step }: Field): VNode {
  const id = `sampling-${name}`;
  return (
    <div>
      <label for={id}>{t(word)}</label>
      <input
        id={id}
        type="number"
        min={min}
        max={max}
        step={step}
        value={sampling.value[name] ?? ""}
        onInput={(event) => {
          const { value, validity } = event.currentTarget;
          if (validity.valid) setSampling({ [name]: value === "" ? null : Number(value) });
        }}
      />
    </div>
  );
}

export function SamplingPanel(): VNode {
  return (
    <details class="panel sampling">
      <summary>{t("samplingSettings")}</summary>
      <label for="sampling-system">{t("systemPrompt")}</label>
      <textarea
        id="sampling-system"
        rows={2}
        value={sampling.value.system}
        onInput={(event) => setSampling({ system: event.currentTarget.value })}
      />
      <div class="fields">
        {fields.map((field) => (
          <NumberField key={field.name} {...field} />
        ))}
      </div>
      <div class="row">
        <button type="button" class="plain small" onClick={() => setSampling(defaultSampling)}>
          {t("resetSampling")}
        </button>
        <span class="quiet">{t("samplingHint")}</span>
      </div>
    </details>
  );
}
