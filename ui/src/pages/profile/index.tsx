import { useOrganisationLookup } from "@/data/orgs";
import { useMay, useMe } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Facts } from "@/kit/facts";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { OwnLimits } from "./own-limits";
import { PasswordForm } from "./password-form";
import { Sessions } from "./sessions";
import { useT } from "./t";
import { Tokens } from "./tokens";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  const me = useMe();
  const orgs = useOrganisationLookup("", { enabled: useMay()("lookUpOrganisations") });
  const org = orgs.data?.find((it) => it.id === me?.org_id)?.name;
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
                ...(org ? [[t.organisation, org] satisfies [string, string]] : []),
              ]}
            />
          )}
        </Panel>
        <OwnLimits />
        <Panel title={t.passwordTitle}>
          <PasswordForm />
        </Panel>
        <Sessions />
        <Tokens />
      </PageBody>
    </>
  );
}
