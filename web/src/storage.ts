// Small values that outlive a reload: for good, or as long as the tab. A browser that keeps nothing is no error.

export type Kept = "for good" | "in this tab";

const placeOf = (kept: Kept) => (kept === "for good" ? localStorage : sessionStorage);

export function load<T>(name: string, otherwise: T, kept: Kept = "for good"): T {
  try {
    const text = placeOf(kept).getItem(`heteroserve.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function save(name: string, value: unknown, kept: Kept = "for good"): void {
  try {
    placeOf(kept).setItem(`heteroserve.${name}`, JSON.stringify(value));
  } catch {
    // Private windows and full stores: the value lives as long as the page.
  }
}
