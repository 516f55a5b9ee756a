import { useMe } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Facts } from "@/kit/facts";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { OwnLimits } from "./own-limits";
import { PasswordForm } from "./password-form";
import { useT } from "./t";
import { Tokens } from "./tokens";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  const me = useMe();
  return (
    <>
      <PageHeader title={c.page.profile} />
      <PageBody narrow>
        <Panel title={t.account}>
          {me && (
            <Facts
              facts={[
                [c.word.userName, me.username],
                [t.role, c.role[me.role]],
                [t.organisation, String(me.org_id)],
              ]}
            />
          )}
        </Panel>
        <OwnLimits />
        <Panel title={t.passwordTitle}>
          <PasswordForm />
        </Panel>
        <Tokens />
      </PageBody>
    </>
  );
}
