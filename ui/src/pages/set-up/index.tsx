import { useQuery } from "@tanstack/react-query";
import { useLocation } from "@tanstack/react-router";
import { useAskedAgain } from "@/app/asked-again";
import { GatewayCard } from "@/app/gateway-card";
import { setupQuery } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { Command } from "@/kit/code-block";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink } from "@/kit/link";
import { Skeleton } from "@/kit/skeleton";
import { OwnerForm } from "./owner-form";
import { useT } from "./t";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  // The link may be opened in a tab that is here already: only what stands behind `#` changes then.
  const { hash } = useLocation();
  const token = /^setup=([0-9a-f]+)$/.exec(hash)?.[1] ?? "";
  const { data, error, refetch, isFetching } = useQuery(setupQuery);
  useAskedAgain(error, () => void refetch());
  return (
    <GatewayCard title={c.page.setUp}>
      {error && !data ? (
        <ErrorState error={error} onRetry={refetch} />
      ) : !data ? (
        <Skeleton className="h-64" />
      ) : data.has_owner ? (
        <>
          <p className="text-ink-2">{t.used}</p>
          <ButtonLink to="/login" look="primary" size="lg">
            {t.signInNow}
          </ButtonLink>
        </>
      ) : data.needs_setup_token && !token ? (
        <NoOwner onLook={() => void refetch()} looking={isFetching} />
      ) : (
        <OwnerForm key={token} token={token} />
      )}
    </GatewayCard>
  );
}

function NoOwner({ onLook, looking }: { onLook: () => void; looking: boolean }) {
  const t = useT();
  return (
    <div className="flex flex-col gap-4">
      <p className="text-ink-2">{t.noOwner}</p>
      <ul className="flex list-disc flex-col gap-3 pl-5">
        <li className="pl-1">
          {t.openLink}
          <div className="mt-2 flex flex-col gap-1">
            <Command code="journalctl -u gantry" />
            <Command code="docker compose logs" />
          </div>
        </li>
        <li className="pl-1">
          {t.orCommand}
          <div className="mt-2">
            <Command code="gantry owner create NAME" />
          </div>
        </li>
      </ul>
      <Button onClick={onLook} busy={looking} size="lg">
        {t.lookAgain}
      </Button>
    </div>
  );
}
