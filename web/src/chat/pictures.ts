// Files that the user drops, pastes or picks.
import { t } from "../i18n";
import { complaint, draftPictures } from "./conversation";
import type { Picture } from "./request";

export const pictureTypes = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];

function dataUrl(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Adds files to the question. The server judges by content; the check here only spares a useless upload. */
export async function takePictures(files: Iterable<File>): Promise<boolean> {
  complaint.value = "";
  const taken: Picture[] = [];
  for (const file of files) {
    if (!pictureTypes.includes(file.type)) {
      complaint.value = t("onlyPictures");
      continue;
    }
    try {
      taken.push({ name: file.name || t("pastedPicture"), url: await dataUrl(file) });
    } catch {
      complaint.value = t("unreadablePicture");
    }
  }
  draftPictures.value = [...draftPictures.value, ...taken];
  return taken.length > 0;
}

export function removePicture(index: number): void {
  draftPictures.value = draftPictures.value.filter((_, i) => i !== index);
}

export interface Sample {
  picture: string;
  question: string;
}

/** Pictures that come with the server. */
export async function samples(): Promise<Sample[]> {
  try {
    const response = await fetch("/examples/examples.json");
    return response.ok ? ((await response.json()) as Sample[]) : [];
  } catch {
    return [];
  }
}

export async function takeSample({ picture }: Sample): Promise<void> {
  const blob = await (await fetch(`/examples/${picture}`)).blob();
  draftPictures.value = [];
  await takePictures([new File([blob], picture, { type: blob.type })]);
}
