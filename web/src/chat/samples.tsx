// What an empty conversation shows: pictures that come with the server, each with its question.
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { t } from "../i18n";
import { takesPictures } from "../server";
import { draftText } from "./conversation";
import { type Sample, samples, takeSample } from "./pictures";

export function Samples(): VNode {
  const found = useSignal<Sample[]>([]);
  useEffect(() => {
    samples().then((list) => {
      found.value = list;
    });
  }, []);
  const choose = async (sample: Sample) => {
    await takeSample(sample);
    draftText.value = sample.question;
    document.getElementById("question")?.focus();
  };
  return (
    <div class="welcome">
      <p class="big">{takesPictures.value ? t("welcome") : t("welcomeText")}</p>
      {takesPictures.value && found.value.length > 0 && (
        <>
          <h3 class="quiet" id="samples-title">
            {t("trySamples")}
          </h3>
          <ul id="sample-list" aria-labelledby="samples-title">
            {found.value.map((sample) => (
              <li key={sample.picture}>
                <button
                  type="button"
                  class="plain"
                  aria-label={t("samplePicture", { question: sample.question })}
                  onClick={() => choose(sample)}
                >
                  <img src={`/examples/${sample.picture}`} alt="" />
                  <span aria-hidden="true">{sample.question}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
