// What every page sends to the server goes through here: the API key, and failures in the server's own words.
import { signal } from "@preact/signals";
import { load, save } from "./storage";

/** A refusal by the server. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message);
  }
}

/** The key that requests carry; "" where the server needs none. It stays in this tab. */
export const apiKey = signal(load("key", "", "in this tab"));
/** Set when the server refused a request for want of a key: the page asks for one. */
export const keyWanted = signal(false);
let declined = false; // the user closed the dialog: it does not come back by itself

export function setApiKey(key: string): void {
  apiKey.value = key;
  save("key", key, "in this tab");
  keyWanted.value = false;
  declined = false;
}

export function declineKey(): void {
  keyWanted.value = false;
  declined = true;
}

interface ErrorBody {
  error?: { message?: string; code?: string | null };
}

/** The error a response carries: OpenAI's error object, or at least its status. */
async function errorOf(response: Response): Promise<ApiError> {
  let body: ErrorBody = {};
  try {
    body = (await response.json()) as ErrorBody;
  } catch {
    // Not JSON; the status must do.
  }
  return new ApiError(
    body.error?.message ?? `The server answered ${response.status}.`,
    response.status,
    body.error?.code ?? "",
  );
}

/** fetch() with the key. Answers of any status come back; 401 also makes the page ask for a key. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = apiKey.peek();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const response = await fetch(path, { ...init, headers, cache: "no-store" });
  if (response.status === 401 && !declined) keyWanted.value = true;
  return response;
}

export async function sendOk(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await send(path, init);
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await sendOk(path, signal ? { signal } : {})).json() as Promise<T>;
}

export async function postJson(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return sendOk(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}
