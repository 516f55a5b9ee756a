import { ChevronDown, ChevronRight } from "lucide-react";
import { useId } from "react";
import type { Setting } from "@/data/settings";
import { useGatewayTexts } from "@/i18n/gateway";
import { Badge } from "@/kit/badge";
import { IconButton } from "@/kit/button";
import { Command } from "@/kit/code-block";
import { CopyButton } from "@/kit/copy";
import { Prose } from "@/parts/models/prose";
import { envValue, HIDDEN, isChanged } from "./env-file";
import { useT } from "./t";

type RowProps = { setting: Setting; open: boolean; onOpen: (to: boolean) => void };

/** A setting: its name and what it does, its value, and where that comes from. */
export function SettingRow({ setting, open, onOpen }: RowProps) {
  const t = useT();
  const id = useId();
  const changed = isChanged(setting);
  return (
    <li id={setting.name} className="border-line border-b px-4 py-2.5 text-sm last:border-b-0">
      <div className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-4 gap-y-1 lg:grid-cols-[minmax(0,5fr)_minmax(0,4fr)_auto]">
        <div className="min-w-0">
          <div className="flex flex-wrap items-center gap-x-2">
            <code className="break-all font-medium font-mono text-xs">{setting.name}</code>
            {changed && <Badge tone="busy">{t.changed}</Badge>}
          </div>
          <p className="mt-0.5 max-w-[72ch] text-ink-2">
            <Prose asIs text={setting.doc} />
          </p>
        </div>
        <div className="order-last col-span-2 min-w-0 lg:order-none lg:col-span-1">
          <Value setting={setting} />
          <p className="mt-0.5 text-ink-3 text-xs">
            {t.source}: <Source source={setting.source} />
            {changed && ` · ${t.default(setting.default || t.emptyDefault)}`}
          </p>
        </div>
        <IconButton
          icon={open ? ChevronDown : ChevronRight}
          label={open ? t.hide : t.howTo(setting.name)}
          size="sm"
          aria-expanded={open}
          aria-controls={open ? id : undefined}
          onClick={() => onOpen(!open)}
        />
      </div>
      {open && (
        <div id={id}>
          <HowToChange setting={setting} />
        </div>
      )}
    </li>
  );
}

function Source({ source }: { source: string }) {
  const t = useT();
  const known = Object.entries(t.sources).find(([word]) => word === source);
  return known ? known[1] : <code className="break-all font-mono">{source}</code>;
}

function Value({ setting: { value } }: { setting: Setting }) {
  const t = useT();
  if (value === HIDDEN) return <span className="text-ink-2">{t.secretSet}</span>;
  if (value === "") return <span className="text-ink-3">{t.notSet}</span>;
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code className="min-w-0 break-all font-mono text-xs">{value}</code>
      <CopyButton text={value} />
    </span>
  );
}

function HowToChange({ setting }: { setting: Setting }) {
  const t = useT();
  const words = useGatewayTexts();
  const secret = setting.value === HIDDEN || setting.allowed.includes("secret");
  const value = setting.value === HIDDEN || setting.value === "" ? "…" : setting.value;
  const flag = `--${setting.name.toLowerCase().replaceAll("_", "-")}`;
  const ways: [string, string][] = [[t.howEnv, `${setting.name}=${envValue(value)}`]];
  if (secret) ways.push([t.howSecret, `${setting.name}_FILE=/etc/gantry/${setting.name.toLowerCase()}`]);
  else ways.push([t.howFlag, `gantry serve ${flag} ${envValue(value)}`]);
  ways.push([t.howRestart, "systemctl restart gantry"]);
  return (
    <div className="mt-2 flex max-w-3xl flex-col gap-2 rounded-md border border-line bg-bg p-3">
      {setting.allowed && (
        <p className="text-ink-2">
          <Prose asIs text={t.allowed(words.allowed[setting.allowed] ?? setting.allowed)} />
        </p>
      )}
      {ways.map(([text, code]) => (
        <div key={code}>
          <p className="mb-0.5 text-ink-2 text-xs">{text}</p>
          <Command code={code} />
        </div>
      ))}
    </div>
  );
}
