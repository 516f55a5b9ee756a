import { Play, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "@/kit/button";
import { Checkbox, RadioGroup, Segmented, Switch } from "@/kit/choices";
import { Combobox } from "@/kit/combobox";
import { CopyButton } from "@/kit/copy";
import { DateRangePicker } from "@/kit/date-range";
import { Field } from "@/kit/field";
import { FilterChips } from "@/kit/filter-chips";
import { NumberInput, PasswordInput, TextArea, TextInput } from "@/kit/inputs";
import { ButtonLink, Link, OutLink } from "@/kit/link";
import { SearchInput } from "@/kit/search-input";
import { Select } from "@/kit/select";
import { Slider } from "@/kit/slider";
import { Gallery, Shown } from "./shown";

const ENGINES = [
  { value: "vllm", label: "vLLM" },
  { value: "llamacpp", label: "llama.cpp" },
];
const MODELS = Array.from({ length: 200 }, (_, index) => ({
  value: String(index),
  label: `model-${index}`,
  note: index % 3 ? "vllm" : "llamacpp",
}));

function Buttons() {
  return (
    <Shown title="Button, IconButton, Link">
      {(["primary", "plain", "quiet", "danger"] as const).map((look) => (
        <div key={look} className="flex flex-col items-start gap-2">
          <Button look={look} icon={look === "danger" ? Trash2 : Play}>
            {look}
          </Button>
          <Button look={look} busy>
            busy
          </Button>
          <Button look={look} disabled>
            disabled
          </Button>
          <Button look={look} size="sm">
            small
          </Button>
          <Button look={look} size="lg">
            large
          </Button>
        </div>
      ))}
      <IconButton icon={Plus} label="Add" />
      <IconButton icon={Plus} label="Adding" busy />
      <IconButton icon={Plus} label="Add, not now" disabled look="plain" />
      <CopyButton text="copied text" />
      <CopyButton text="copied text" look="button" />
      <Link to="/kit">Link</Link>
      <ButtonLink to="/kit">ButtonLink</ButtonLink>
      <OutLink href="https://example.org">OutLink</OutLink>
    </Shown>
  );
}

function Fields() {
  const [text, setText] = useState("qwen3-8b");
  const [number, setNumber] = useState<number | null>(8192);
  const [engine, setEngine] = useState("vllm");
  const [model, setModel] = useState("7");
  return (
    <Shown title="Field, TextInput, PasswordInput, NumberInput, TextArea, Select, Combobox">
      <div className="grid w-full gap-4 md:grid-cols-3">
        <Field label="Served name" help="The name that clients write as model." required>
          <TextInput value={text} onValue={setText} />
        </Field>
        <Field label="Path" error="This file does not exist." optional>
          <TextInput value="/models/none.gguf" onValue={() => {}} mono />
        </Field>
        <Field label="Read-only" aside={<Link to="/kit">reset</Link>}>
          <TextInput value="fixed" onValue={() => {}} readOnly />
        </Field>
        <Field label="Password">
          <PasswordInput value={text} onValue={setText} autoComplete="off" />
        </Field>
        <Field label="Context" unit="tokens" help="Arrow keys change it.">
          <NumberInput value={number} onValue={setNumber} min={256} max={131072} step={256} integer />
        </Field>
        <Field label="Disabled">
          <NumberInput value={null} onValue={() => {}} disabled placeholder="engine’s own" />
        </Field>
        <Field label="Engine">
          <Select value={engine} onValue={setEngine} options={ENGINES} />
        </Field>
        <Field label="Model">
          <Combobox value={model} onValue={setModel} options={MODELS} placeholder="Type a name" />
        </Field>
        <Field label="Chat template">
          <TextArea
            value={"{% for m in messages %}\n{{ m.content }}\n{% endfor %}"}
            onValue={() => {}}
            mono
          />
        </Field>
      </div>
    </Shown>
  );
}

function Choices() {
  const [on, setOn] = useState(true);
  const [kind, setKind] = useState("simple");
  const [share, setShare] = useState(0.9);
  const options = [
    { value: "simple", label: "Simple", help: "What most people change." },
    { value: "all", label: "All", help: "Every setting of the engine." },
    { value: "none", label: "None", disabled: true },
  ];
  return (
    <Shown title="Checkbox, Switch, RadioGroup, Segmented, Slider">
      <div className="flex flex-col gap-2">
        <Checkbox checked={on} onChecked={setOn} label="Checkbox" help="With help." />
        <Checkbox checked={false} mixed onChecked={() => {}} label="Mixed" />
        <Checkbox checked disabled onChecked={() => {}} label="Disabled" />
      </div>
      <div className="flex flex-col gap-2">
        <Switch checked={on} onChecked={setOn} label="Switch" />
        <Switch checked={!on} onChecked={(to) => setOn(!to)} label="The opposite" />
        <Switch checked disabled onChecked={() => {}} label="Disabled" />
      </div>
      <RadioGroup label="Settings" value={kind} onValue={setKind} options={options} />
      <Segmented
        label="View"
        value={kind}
        onValue={setKind}
        options={options.map(({ help: _, ...it }) => it)}
      />
      <div className="w-64">
        <Slider label="Share of the memory" value={share} onValue={setShare} min={0.1} max={1} step={0.05} />
      </div>
    </Shown>
  );
}

export function ControlsShown() {
  return (
    <Gallery>
      <Buttons />
      <Fields />
      <Choices />
      <Shown title="SearchInput, FilterChips, DateRangePicker">
        <SearchInput label="Search models" />
        <FilterChips
          label="State"
          chips={[
            { value: "running", label: "Running", count: 12 },
            { value: "failed", label: "Failed", count: 1 },
            { value: "stopped", label: "Stopped", count: 1234 },
          ]}
        />
        <DateRangePicker />
      </Shown>
    </Gallery>
  );
}
