import { type ReactNode, useLayoutEffect, useRef } from "react";
import { Gate } from "@/app/gate";
import { useT as useCommonT } from "@/i18n";
import { Link } from "@/kit/link";
import { PageBody, PageHeader } from "@/kit/page-header";
import { useUrl } from "@/kit/url-state";
import { CopyOf } from "./copy-of";
import { Hub } from "./hub";
import { Local } from "./local";
import { SourcePanel } from "./source-panel";

export default function Page() {
  const c = useCommonT();
  const { pick, repo, from } = useUrl();
  return (
    <Gate needs="createModel" title={c.page.deploy}>
      <PageHeader
        title={c.page.deploy}
        crumbs={[
          <Link key="models" to="/models">
            {c.page.models}
          </Link>,
        ]}
      />
      <PageBody>
        <Step of={JSON.stringify([from, pick, repo])}>
          {from ? (
            <CopyOf id={Number(from)} />
          ) : pick ? (
            <Local path={pick} />
          ) : repo ? (
            <Hub repo={repo} />
          ) : (
            <SourcePanel />
          )}
        </Step>
      </PageBody>
    </Gate>
  );
}

/** What is shown after a choice. The button that made it is gone: the keyboard goes on where its place was. */
function Step({ of, children }: { of: string; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const before = useRef(of);
  useLayoutEffect(() => {
    if (before.current === of) return;
    before.current = of;
    const { activeElement } = document;
    if (!activeElement || activeElement === document.body) place.current?.focus({ preventScroll: true });
  }, [of]);
  return (
    <div ref={place} tabIndex={-1} className="flex min-w-0 flex-col gap-4 outline-none">
      {children}
    </div>
  );
}
