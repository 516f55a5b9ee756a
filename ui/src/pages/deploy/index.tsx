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
        {from ? (
          <CopyOf id={Number(from)} />
        ) : pick ? (
          <Local path={pick} />
        ) : repo ? (
          <Hub repo={repo} />
        ) : (
          <SourcePanel />
        )}
      </PageBody>
    </Gate>
  );
}
