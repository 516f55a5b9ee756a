import { useState } from "react";
import { Button } from "@/kit/button";
import { ChangedNote } from "@/kit/changed-note";
import { Field } from "@/kit/field";
import { FormDrawer, FormPart } from "@/kit/form-drawer";
import { TextInput } from "@/kit/inputs";
import { LimitFields } from "@/kit/limits/limit-fields";
import { LimitMeters, LimitsInShort } from "@/kit/limits/limit-meters";
import { type Limits, NO_LIMITS } from "@/kit/limits/limits";
import { Pager, usePage } from "@/kit/pager";
import { toast } from "@/kit/toast";
import { WordsInput } from "@/kit/words-input";
import { Gallery, Shown } from "./shown";

const LIMITS: Limits = { ...NO_LIMITS, rpm_limit: 60, budget_tokens_day: 1000, budget_tokens_month: 20_000 };
const BUDGET = {
  day: { limit: 1000, used: 1120, pct: 112, warning: true },
  month: { limit: 20_000, used: null, pct: null, warning: false },
};

/** What forms of records are made of. */
export function FormsShown() {
  const [words, setWords] = useState(["qwen", "not a name"]);
  const [limits, setLimits] = useState(LIMITS);
  const [open, setOpen] = useState(false);
  const [name, setName] = useState("");
  const at = usePage("");
  return (
    <Gallery>
      <Shown title="WordsInput, with an entry that is wrong">
        <Field label="Models" className="w-80">
          <WordsInput
            value={words}
            onValue={setWords}
            suggestions={["qwen", "bge", "llama"]}
            check={(word) => (word.includes(" ") ? `“${word}” has a blank.` : undefined)}
          />
        </Field>
      </Shown>
      <Shown title="ChangedNote">
        <ChangedNote theirs={[{ label: "Requests a minute", value: "600" }]} onTake={() => {}} />
      </Shown>
      <Shown title="Limits: as fields, as meters, in a table">
        <div className="w-full max-w-xl">
          <LimitFields
            value={limits}
            onValue={setLimits}
            errorOf={(field) => (field === "max_streams" ? "Write a whole number." : undefined)}
            effective={{ ...LIMITS, rpm_limit: 30 }}
          />
        </div>
        <div className="w-80">
          <LimitMeters limits={LIMITS} budget={BUDGET} />
        </div>
        <LimitsInShort limits={LIMITS} budget={BUDGET} />
        <LimitsInShort limits={LIMITS} budget={null} />
        <LimitsInShort limits={NO_LIMITS} budget={null} />
      </Shown>
      <Shown title="Pager">
        <div className="w-full">
          <Pager at={at} total={1234} />
        </div>
      </Shown>
      <Shown title="FormDrawer: closing it with something typed asks first">
        <Button onClick={() => setOpen(true)}>Open</Button>
      </Shown>
      {open && (
        <FormDrawer
          title="Create a thing"
          action="Create"
          busy={false}
          dirty={name !== ""}
          onClose={() => setOpen(false)}
          onSubmit={() => toast("Created.")}
        >
          <FormPart title="A part" help="What it is for.">
            <Field label="Name">
              <TextInput value={name} onValue={setName} />
            </Field>
          </FormPart>
        </FormDrawer>
      )}
    </Gallery>
  );
}
