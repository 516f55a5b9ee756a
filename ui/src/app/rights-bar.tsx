import { UserCog } from "lucide-react";
import { useState } from "react";
import { useMe } from "@/data/session";
import { useT } from "@/i18n";
import { Button } from "@/kit/button";

/** Says that pages are open with other rights than they were opened with: somebody changed the role, or signed in elsewhere. */
export function RightsBar() {
  const t = useT();
  const me = useMe();
  const [seen, setSeen] = useState(me);
  if (!me || (me.id === seen?.id && me.role === seen.role)) return null;
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-warn-solid border-b bg-warn-soft px-4 py-1.5 text-sm md:px-6">
      <UserCog aria-hidden className="size-4 text-warn" />
      <span role="status">{t.rights.changed(me.username, t.role[me.role])}</span>
      <span className="text-ink-2">{t.rights.kept}</span>
      <Button size="sm" className="ml-auto" onClick={() => setSeen(me)}>
        {t.do.dismiss}
      </Button>
    </div>
  );
}
