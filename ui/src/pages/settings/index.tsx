import { Copy } from "lucide-react";
import { useState } from "react";
import { Gate } from "@/app/gate";
import { type Setting, useSettings } from "@/data/settings";
import { useT as useCommonT, useFormat } from "@/i18n";
import { useGatewayTexts } from "@/i18n/gateway";
import { Button } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { copyText } from "@/kit/copy";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { FilterChips } from "@/kit/filter-chips";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { SearchInput } from "@/kit/search-input";
import { Skeleton } from "@/kit/skeleton";
import { toast, toastError } from "@/kit/toast";
import { useSetUrl, useUrlState } from "@/kit/url-state";
import { BaseDir } from "./base-dir";
import { envFile, isChanged, matches } from "./env-file";
import { SettingRow } from "./setting-row";
import { useT } from "./t";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="getCapabilities" title={c.page.settings}>
      <Settings />
    </Gate>
  );
}

function Settings() {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const settings = useSettings();
  const [text] = useUrlState("q");
  const [only, setOnly] = useUrlState("changed");
  const [chosen] = useUrlState("group");
  const setUrl = useSetUrl();
  const words = useGatewayTexts();
  const nameOf = (group: string) => words.groups[group] ?? group;
  const all = (settings.data ?? []).map((it) => ({ ...it, doc: words.settings[it.name] ?? it.doc }));
  const found = all.filter(
    (it) => (!only || isChanged(it)) && matches({ ...it, group: nameOf(it.group) }, text),
  );
  const groups = [...new Set(all.map((it) => it.group))];
  const wanted = chosen.split(",").filter((it) => groups.includes(it));
  const shown = wanted.length === 0 ? found : found.filter((it) => wanted.includes(it.group));
  const copy = () =>
    void copyText(envFile(all, t.envNote(format.date(Date.now())), t.envSecret)).then(
      () => toast(c.do.copied),
      toastError,
    );
  return (
    <>
      <PageHeader
        title={c.page.settings}
        actions={
          settings.data && (
            <Button icon={Copy} size="sm" onClick={copy}>
              {t.copyEnv}
            </Button>
          )
        }
      />
      <PageBody>
        <BaseDir />
        <p className="max-w-[72ch] text-ink-2 text-sm">{t.lead}</p>
        {/* Stays in sight: the list is long. */}
        <div className="z-10 -mx-4 flex flex-wrap items-center gap-x-4 gap-y-2 bg-bg px-4 py-2 md:sticky md:top-12 md:-mx-6 md:px-6">
          <SearchInput label={t.search} />
          <Checkbox checked={only === "1"} onChecked={(to) => setOnly(to ? "1" : "")} label={t.changedOnly} />
          {settings.data && (
            <span aria-live="polite" className="text-ink-3 text-sm">
              {t.count(format.integer(shown.length), format.integer(all.length))}
            </span>
          )}
          {settings.data && (
            <div className="w-full">
              <FilterChips
                label={t.groups}
                param="group"
                chips={groups.map((group) => ({
                  value: group,
                  label: nameOf(group),
                  count: found.filter((it) => it.group === group).length,
                }))}
              />
            </div>
          )}
        </div>
        {settings.error && !settings.data && (
          <Panel>
            <ErrorState error={settings.error} onRetry={settings.refetch} />
          </Panel>
        )}
        {!settings.data && !settings.error && <Skeleton className="h-96" />}
        {settings.data && shown.length === 0 && (
          <Panel>
            <EmptyState
              title={only && !text && wanted.length === 0 ? t.allSettings : t.none}
              action={
                <Button onClick={() => setUrl({ q: undefined, changed: undefined, group: undefined })}>
                  {t.clear}
                </Button>
              }
            />
          </Panel>
        )}
        {[...new Set(shown.map((it) => it.group))].map((group) => (
          <Group key={group} name={nameOf(group)} settings={shown.filter((it) => it.group === group)} />
        ))}
      </PageBody>
    </>
  );
}

function Group({ name, settings }: { name: string; settings: Setting[] }) {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <Panel title={name} flush>
      <ul>
        {settings.map((it) => (
          <SettingRow
            key={it.name}
            setting={it}
            open={open === it.name}
            onOpen={(to) => setOpen(to ? it.name : null)}
          />
        ))}
      </ul>
    </Panel>
  );
}
