import { Wrench } from "lucide-react";
import type { Model, Schema } from "@/api/types";
import { useFixModel } from "@/data/model-detail";
import { useMay } from "@/data/session";
import { useDiagnosed } from "@/i18n/gateway";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { ButtonLink } from "@/kit/link";
import { RelativeTime } from "@/kit/text";
import { toast } from "@/kit/toast";
import { useLocked } from "./locked";
import { Prose } from "./prose";
import { shown } from "./settings";
import { useT } from "./t";

type Fix = Schema<"Diagnosis">["fixes"][number];

/** Why a model failed: cause, setting, and for each known remedy a button that applies it and starts the model. `here`: the log is on the page. */
export function Failure({ model, here }: { model: Model; here?: boolean }) {
  const t = useT();
  const diagnosed = useDiagnosed();
  const { state_reason: reason, restart } = model;
  const diagnosis = model.diagnosis && diagnosed(model.diagnosis);
  const params = { id: String(model.id) };
  const message = diagnosis?.message ?? reason;
  return (
    <div className="flex min-w-0 flex-col gap-2 text-sm">
      <div className="flex items-start gap-2">
        <StateShape tone="bad" className="mt-1 text-bad" />
        <div className="min-w-0">
          <p className="font-medium">{diagnosis?.title ?? t.failure.unknown}</p>
          {message && (
            <p className="max-w-[72ch] text-ink-2">
              <Prose text={message} />
            </p>
          )}
        </div>
      </div>
      {diagnosis?.detected && diagnosis.fixes.length > 0 && (
        <ul className="flex flex-col gap-1.5 pl-5">
          {diagnosis.fixes.map((fix) => (
            <FixLine key={`${fix.text} ${fix.field}`} model={model} fix={fix} />
          ))}
        </ul>
      )}
      {restart && (
        <p className="pl-5 text-ink-2">
          {t.failure.restart(restart.attempts, model.restart_limit ?? restart.attempts)}{" "}
          {restart.given_up && t.failure.givenUp}
          {restart.next_at && (
            <>
              {t.failure.nextRestart} <RelativeTime at={restart.next_at} />
            </>
          )}
        </p>
      )}
      {!here && (
        <div className="pl-5">
          <ButtonLink to="/models/$id" params={params} search={{ tab: "logs", why: "1" }} size="sm">
            {t.failure.why}
          </ButtonLink>
        </div>
      )}
    </div>
  );
}

/** One remedy: its words, and the button that does it, where a value is known and one may set it. */
function FixLine({ model, fix }: { model: Model; fix: Fix }) {
  const t = useT();
  const may = useMay();
  const locked = useLocked();
  const apply = useFixModel();
  const { field } = fix;
  const ownerOnly = field !== undefined && locked(field);
  const use = () => {
    if (field === undefined) return;
    // The model leaves `failed` before the answer is here, and this button with it: so the promise says that it is done.
    void apply.mutateAsync({ id: model.id, set: { [field]: fix.value } }).then(
      () => toast(t.failure.fixed(model.served_name)),
      () => {
        // `apply.error` is shown with the remedies.
      },
    );
  };
  return (
    <li className="flex flex-col gap-1.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Prose text={fix.text} className="max-w-[72ch]" />
        {ownerOnly && <span className="text-ink-3">{t.failure.ownerOnly(field)}</span>}
        {field !== undefined &&
          !ownerOnly &&
          may("changeModel") &&
          (fix.value !== undefined ? (
            <Button icon={Wrench} size="sm" busy={apply.isPending} onClick={use} className="max-w-full">
              <span className="truncate">
                {fix.value === null
                  ? t.failure.unset(field)
                  : t.failure.use(field, shown(fix.value).slice(0, 60))}
              </span>
            </Button>
          ) : (
            <ButtonLink
              to="/models/$id"
              params={{ id: String(model.id) }}
              search={{ tab: "configuration", find: field }}
              size="sm"
            >
              {t.failure.change(field)}
            </ButtonLink>
          ))}
      </div>
      {apply.error && <ErrorNote error={apply.error} />}
    </li>
  );
}
