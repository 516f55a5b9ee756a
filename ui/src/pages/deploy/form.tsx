import type { Settings } from "@/data/model-files";
import { Button } from "@/kit/button";
import { formErrors } from "@/kit/form";
import { Panel } from "@/kit/panel";
import { Outcome } from "@/parts/models/outcome";
import { SettingsForm } from "@/parts/models/settings-form";
import { Basics } from "./basics";
import { Beside, type BesideFiles } from "./beside";
import { Capacity } from "./capacity";
import { SaveBar } from "./save-bar";
import { useT } from "./t";
import { IDENTITY, useDraft } from "./use-draft";
import { useSave } from "./use-save";

type DeployFormProps = {
  given: Settings;
  served?: string;
  longest: number | null;
  /** Files that lie beside the model and may be used with it. */
  beside?: BesideFiles;
  /** Nobody has looked what the model consists of. */
  unread?: boolean;
};

/** The settings of a new model beside what a start with them would do, and the two ways to save it. */
export function DeployForm({ given, served = "", longest, beside, unread = false }: DeployFormProps) {
  const t = useT();
  const edit = useDraft(given, served);
  const save = useSave(edit.forget);
  const { draft } = edit;
  const names = [...IDENTITY, ...Object.keys(draft.settings), "local_path", "repo_id"];
  const saveErrors = formErrors(save.error, names);
  const errorOf = (name: string) => saveErrors.of(name) ?? edit.previewErrors.of(name);
  const placed = edit.preview.error && edit.previewErrors.rest === undefined;
  return (
    <>
      {edit.restored && (
        <div role="status" className="flex flex-wrap items-center gap-3 text-sm">
          <p>{draft.settings.repo_id === undefined ? t.restored : t.restoredNoToken}</p>
          <Button size="sm" onClick={edit.startAnew}>
            {t.startAnew}
          </Button>
        </div>
      )}
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title={t.basics}>
            <Basics
              draft={draft}
              filledIn={edit.preview.data?.served_name}
              onChange={edit.change}
              errorOf={errorOf}
            />
          </Panel>
          {beside && <Beside beside={beside} settings={draft.settings} onChange={edit.set} />}
          <Panel title={t.settings}>
            <SettingsForm
              engine={draft.engine}
              task={draft.task}
              settings={draft.settings}
              before={edit.first.settings}
              onChange={edit.set}
              errorOf={errorOf}
              trained={longest ?? edit.preview.data?.vram_estimate?.trained_for ?? null}
            />
          </Panel>
        </div>
        <div className="flex min-w-0 flex-col gap-4 xl:sticky xl:top-16 xl:max-h-[calc(100dvh-9rem)] xl:overflow-y-auto">
          <Panel>
            <Capacity engine={draft.engine} settings={draft.settings} longest={longest} onChange={edit.set} />
          </Panel>
          <Outcome
            preview={edit.preview.data}
            error={placed ? undefined : edit.preview.error}
            before={edit.before}
            onSet={edit.setMany}
          />
        </div>
      </div>
      <SaveBar edit={edit} save={save} rest={saveErrors.rest} unread={unread} />
    </>
  );
}
