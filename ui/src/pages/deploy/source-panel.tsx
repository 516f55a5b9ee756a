import { Globe, RotateCw } from "lucide-react";
import { useEffect, useState } from "react";
import { useModelsBaseDir } from "@/data/settings";
import { useFormat } from "@/i18n";
import { Button, IconButton } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { TextInput } from "@/kit/inputs";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { FolderRow } from "./folder-row";
import { parseSource } from "./source";
import { useT } from "./t";
import { useSources } from "./use-sources";

const STEP = 10;

/** The one field that takes a path, a folder, a repository or an address, and below it what lies in the models folder. */
export function SourcePanel() {
  const t = useT();
  const format = useFormat();
  const change = useSetUrl();
  const { q: kept = "" } = useUrl();
  const [text, setText] = useState(kept);
  const [most, setMost] = useState(STEP);
  const base = useModelsBaseDir().data;
  const sources = useSources();
  const all = sources.entries ?? [];
  const source = parseSource(
    text,
    base?.base_dir,
    all.map((it) => it.path),
  );
  useEffect(() => {
    if (text === kept) return;
    const timer = setTimeout(() => change({ q: text || undefined }), 300);
    return () => clearTimeout(timer);
  }, [text, kept, change]);
  const word = (source.kind === "path" ? source.path : text).trim().toLowerCase();
  const matching = all.filter(
    (it) => it.path.toLowerCase().includes(word) || word.startsWith(`${it.path.toLowerCase()}/`),
  );
  const choose = (pick: string) =>
    change({ pick, file: undefined, repo: undefined, q: undefined }, { push: true });
  // A whole path that the list does not have as it is, such as a file in a folder.
  const exact = source.kind === "path" && !all.some((it) => it.path === source.path) ? source.path : null;
  const submit = () => {
    if (source.kind === "hub") change({ repo: source.repo, q: undefined }, { push: true });
    else if (exact) choose(exact);
    else if (matching.length === 1 && matching[0]) choose(matching[0].path);
  };
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Field label={t.source} help={t.sourceHelp}>
          <div className="flex flex-col gap-2 sm:flex-row">
            <TextInput
              mono
              data-page-search=""
              value={text}
              onValue={setText}
              placeholder={t.sourceExample}
              autoComplete="off"
              autoCapitalize="off"
              spellCheck={false}
              className="h-10 md:text-base"
            />
            {source.kind === "hub" && (
              <Button type="submit" look="primary" size="lg" icon={Globe} title={t.hubNote}>
                <span className="max-w-40 truncate sm:max-w-80">{t.hubAsk(source.repo)}</span>
              </Button>
            )}
            {exact && (
              <Button type="submit" look="primary" size="lg">
                <span className="max-w-40 truncate sm:max-w-80">{t.choose(exact)}</span>
              </Button>
            )}
          </div>
        </Field>
      </form>
      <Panel
        flush
        title={t.local}
        note={
          base && t.baseDir(base.base_dir, base.free_bytes === null ? "–" : format.bytes(base.free_bytes))
        }
        actions={
          <IconButton
            icon={RotateCw}
            size="sm"
            label={t.refresh}
            busy={sources.isFetching}
            onClick={sources.refetch}
          />
        }
      >
        {sources.error && !sources.entries ? (
          <ErrorState error={sources.error} onRetry={sources.refetch} />
        ) : !sources.ready ? (
          <Skeleton className="m-4 h-40" />
        ) : all.length === 0 ? (
          <EmptyState title={t.emptyFolder} command={base && `cp MODEL.gguf ${base.base_dir}/`}>
            {t.emptyText}
          </EmptyState>
        ) : matching.length === 0 ? (
          <p className="px-4 py-6 text-center text-ink-2 text-sm">{t.noneMatch}</p>
        ) : (
          <>
            <ul aria-label={t.local}>
              {matching.slice(0, most).map((it) => (
                <FolderRow key={it.path} folder={it} onChoose={() => choose(it.path)} />
              ))}
            </ul>
            {matching.length > most && (
              <div className="flex items-center gap-3 px-4 py-2 text-ink-2 text-sm">
                {t.found(format.integer(Math.min(most, matching.length)), format.integer(matching.length))}
                <Button size="sm" onClick={() => setMost(most + 3 * STEP)}>
                  {t.more}
                </Button>
              </div>
            )}
          </>
        )}
      </Panel>
    </>
  );
}
