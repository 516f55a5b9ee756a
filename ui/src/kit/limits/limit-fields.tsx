import { useFormat } from "@/i18n";
import { Field } from "../field";
import { FormPart } from "../form-drawer";
import { NumberInput } from "../inputs";
import { LIMITS, type Limits, MOST } from "./limits";
import { useT } from "./t";

type LimitFieldsProps = {
  value: Limits;
  onValue: (to: Limits) => void;
  errorOf: (field: string) => string | undefined;
  /** The limits in force, where they are tighter than those that were given. */
  effective?: Limits;
};

/** All limits and budgets of a key, a user or an organisation. */
export function LimitFields({ value, onValue, errorOf, effective }: LimitFieldsProps) {
  const t = useT();
  const format = useFormat();
  return (
    <FormPart title={t.title} help={t.help}>
      <div className="grid gap-4 sm:grid-cols-2">
        {LIMITS.map((name) => {
          const inForce = effective?.[name] ?? null;
          return (
            <Field
              key={name}
              label={t.names[name]}
              error={errorOf(name)}
              help={
                inForce !== null && inForce !== value[name]
                  ? t.effective(format.integer(inForce))
                  : value[name] !== null && value[name] >= 10_000 && format.compact(value[name])
              }
            >
              <NumberInput
                integer
                min={1}
                max={MOST[name]}
                value={value[name]}
                onValue={(to) => onValue({ ...value, [name]: to })}
              />
            </Field>
          );
        })}
      </div>
    </FormPart>
  );
}
