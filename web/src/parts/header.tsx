// Name, pages, the server's state in a word, and the choice of language and colours.
import { signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { apiKey, keyWanted } from "../http";
import { type Language, language, languageNames, setLanguage, t, type Word } from "../i18n";
import { reach, version } from "../server";
import { load, save } from "../storage";
import { Dialog } from "./dialog";
import { StateBadge } from "./state";

type Theme = "auto" | "light" | "dark";
const themes: Record<Theme, Word> = { auto: "themeAuto", light: "themeLight", dark: "themeDark" };
const theme = signal<Theme>(load<Theme>("theme", "auto"));

function setTheme(chosen: Theme): void {
  theme.value = chosen;
  save("theme", chosen);
}

const shortcuts: [string, Word][] = [
  ["Enter", "keySends"],
  ["Shift+Enter", "keyLine"],
  ["Esc", "keyStops"],
  ["Alt+1 …", "keyPages"],
  ["?", "keyHelp"],
];

function Shortcuts({ close }: { close: () => void }): VNode {
  return (
    <Dialog title={t("shortcuts")} close={close}>
      <dl class="shortcuts">
        {shortcuts.map(([keys, word]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{t(word)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

interface Props {
  pages: { path: string; word: Word }[];
  shown: string;
}

/** Keys that work wherever nothing is being typed. */
function usePageKeys(pages: Props["pages"], help: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const page = pages[Number(event.key) - 1];
      if (event.altKey && page) {
        event.preventDefault();
        location.hash = `#/${page.path}`;
      }
      const typing =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (event.key === "?" && !typing) help();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [pages]);
}

function Choices(): VNode {
  return (
    <div class="choices">
      {(apiKey.value !== "" || reach.value === "locked") && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            keyWanted.value = true;
          }}
        >
          {t("keyButton")}
        </button>
      )}
      <select
        aria-label={t("language")}
        value={language.value}
        onChange={(event) => setLanguage(event.currentTarget.value as Language)}
      >
        {Object.entries(languageNames).map(([code, name]) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </select>
      <select
        aria-label={t("colours")}
        value={theme.value}
        onChange={(event) => setTheme(event.currentTarget.value as Theme)}
      >
        {Object.entries(themes).map(([name, word]) => (
          <option key={name} value={name}>
            {t(word)}
          </option>
        ))}
      </select>
    </div>
  );
}

export function Header({ pages, shown }: Props): VNode {
  const help = useSignal(false);
  usePageKeys(pages, () => {
    help.value = true;
  });
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
  }, [theme.value]);
  return (
    <header class="top">
      <h1>
        <img src="/favicon.svg" alt="" width="28" height="28" /> HeteroServe{" "}
        <span id="version" class="quiet">
          {version.value}
        </span>
      </h1>
      <nav aria-label={t("pages")}>
        <ul>
          {pages.map(({ path, word }) => (
            <li key={path}>
              <a href={`#/${path}`} aria-current={path === shown ? "page" : undefined}>
                {t(word)}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Choices />
      <StateBadge />
      {help.value && (
        <Shortcuts
          close={() => {
            help.value = false;
          }}
        />
      )}
    </header>
  );
}
