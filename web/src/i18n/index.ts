// Words and numbers in the reader's language.
import { computed, signal } from "@preact/signals";
import { load, save } from "../storage";
import { en } from "./en";
import { ko } from "./ko";

export type Word = keyof typeof en;
export type Language = "en" | "ko";
/** Every language has every word: the compiler says which is missing. */
const dictionaries: Record<Language, Record<Word, string>> = { en, ko };
export const languageNames: Record<Language, string> = { en: "English", ko: "한국어" };

function preferred(): Language {
  const kept = load<string>("language", "");
  if (kept === "en" || kept === "ko") return kept;
  return navigator.language.toLowerCase().startsWith("ko") ? "ko" : "en";
}

export const language = signal<Language>(preferred());

export function setLanguage(chosen: Language): void {
  language.value = chosen;
  save("language", chosen);
}

/** A word with its {placeholders} filled in. */
export function t(word: Word, values: Record<string, string | number> = {}): string {
  return dictionaries[language.value][word].replace(/\{(\w+)\}/g, (all, name: string) => {
    const value = values[name];
    return value === undefined ? all : typeof value === "number" ? count(value) : value;
  });
}

const formats = computed(() => ({
  count: new Intl.NumberFormat(language.value),
  tenth: new Intl.NumberFormat(language.value, { maximumFractionDigits: 1 }),
  fine: new Intl.NumberFormat(language.value, { maximumFractionDigits: 6 }),
  share: new Intl.NumberFormat(language.value, { style: "percent", maximumFractionDigits: 1 }),
  time: new Intl.DateTimeFormat(language.value, { dateStyle: "short", timeStyle: "medium" }),
}));

export const count = (value: number): string => formats.value.count.format(value);
export const tenth = (value: number): string => formats.value.tenth.format(value);
export const fine = (value: number): string => formats.value.fine.format(value);
export const share = (value: number): string => formats.value.share.format(value);
export const dateTime = (unixMs: number): string => formats.value.time.format(unixMs);

/** A duration with a unit that keeps it short: "850 µs", "12.5 ms", "3.2 s". */
export function duration(ms: number): string {
  if (ms < 1) return `${count(Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${tenth(ms)} ms`;
  return `${tenth(ms / 1000)} s`;
}

/** A time to wait: "45 s", "3 min", "2.5 h". */
export function remaining(seconds: number): string {
  if (seconds < 90) return `${count(Math.ceil(seconds))} s`;
  if (seconds < 5400) return `${count(Math.ceil(seconds / 60))} min`;
  return `${tenth(seconds / 3600)} h`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let size = value;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${tenth(size)} ${units[unit]}`;
}
