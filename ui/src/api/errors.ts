import type { Schema } from "./types";

/** A problem with one field of a request; `param` is its path, as in `lora_adapters[0].path`. */
export type FieldError = { param: string; message: string };

/** An answer of the gateway that is not 2xx. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly requestId: string | null;
  /** Every problem of the request, if it was the request's content that was refused. */
  readonly fields: FieldError[];

  constructor(
    status: number,
    of: Partial<Pick<ApiError, "code" | "message" | "param" | "requestId" | "fields">>,
  ) {
    super(of.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = of.code ?? "unknown";
    this.param = of.param ?? null;
    this.requestId = of.requestId ?? null;
    this.fields = of.fields ?? [];
  }
}

/** The gateway could not be reached, or its answer broke off. */
export class NetworkError extends Error {
  override readonly name = "NetworkError";
}

/** A part of the script could not be fetched: the gateway is gone, or was upgraded since the page was opened. */
export class PartError extends Error {
  override readonly name = "PartError";
}

/** Whether an error only says that somebody cancelled the request. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Reads the error of an answer; a proxy on the way may have written the body, so nothing of it is trusted. */
export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id");
  const text = await response.text().catch(() => "");
  try {
    const { error, request_id } = JSON.parse(text) as Schema<"Error">;
    const fields = (error.details ?? []).map(({ param, message }) => ({ param, message }));
    if (fields.length === 0 && error.param) fields.push({ param: error.param, message: error.message });
    const { code, message, param } = error;
    return new ApiError(response.status, {
      code,
      message,
      param,
      requestId: request_id ?? requestId,
      fields,
    });
  } catch {
    return new ApiError(response.status, {
      message: `HTTP ${response.status} ${response.statusText}`.trim(),
      requestId,
    });
  }
}
