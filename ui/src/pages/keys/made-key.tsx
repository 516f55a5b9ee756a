import type { Schema } from "@/api/types";
import { Button } from "@/kit/button";
import { Command } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { useT } from "./t";
import { TestKey } from "./test-key";
import { UseIt } from "./use-it";

/** Shows the token of a new key, this once, and how to use it. It stays until somebody says that they have saved it. */
export function MadeKey({ made, onClose }: { made: Schema<"NewKey">; onClose: () => void }) {
  const t = useT();
  return (
    <Dialog
      open
      stays
      size="lg"
      onClose={onClose}
      title={t.made.title}
      description={t.made.once}
      footer={
        <Button look="primary" onClick={onClose}>
          {t.made.saved}
        </Button>
      }
    >
      <Command code={made.token} label={t.made.copy} />
      <TestKey models={made.models} prefix={made.prefix} token={made.token} />
      <UseIt models={made.models} token={made.token} />
    </Dialog>
  );
}
