/** What somebody wrote into the one field for a model: a path below the models folder, or a repository of the hub. */
export type Source = { kind: "none" } | { kind: "path"; path: string } | { kind: "hub"; repo: string };

const HUB_URL =
  /^(?:https?:\/\/)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)\/(?:models\/)?([\w.-]+\/[\w.-]+)/i;
const REPO = /^[\w.-]+\/[\w.-]+$/;

/**
 * Returns what a text means. `user/model` is a path if the models folder has it, else a repository; a path may be absolute if
 * it lies below the models folder.
 */
export function parseSource(text: string, baseDir: string | undefined, folders: string[]): Source {
  const word = text.trim().replace(/^["']|["']$/g, "");
  if (word === "") return { kind: "none" };
  const hub = HUB_URL.exec(word)?.[1];
  if (hub) return { kind: "hub", repo: hub };
  let path = word.replace(/^file:\/\//, "");
  if (baseDir && (path === baseDir || path.startsWith(`${baseDir.replace(/\/$/, "")}/`)))
    return { kind: "path", path: path.slice(baseDir.replace(/\/$/, "").length + 1) || "." };
  path = path.replace(/^\.\//, "").replace(/\/+$/, "");
  const known = folders.some((it) => it === path || it.startsWith(`${path}/`) || path.startsWith(`${it}/`));
  if (known || word.startsWith("./") || word.startsWith("/") || /\.gguf$/i.test(path))
    return { kind: "path", path };
  if (REPO.test(path)) return { kind: "hub", repo: path };
  return { kind: "none" };
}
