import { Gate } from "@/app/gate";
import { useT as useCommonT } from "@/i18n";
import { Segmented } from "@/kit/choices";
import { PageBody, PageHeader } from "@/kit/page-header";
import { useUrlState } from "@/kit/url-state";
import ChatPage from "./chat/chat-page";
import { useT } from "./t";
import { Embedding } from "./vectors/embedding";
import { Rerank } from "./vectors/rerank";

/** Tries models: chats, vectors, reranking. */
export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listChats" title={c.page.playground}>
      <Playground />
    </Gate>
  );
}

/** Fills what the window has below the bars of the shell, so that only its parts scroll. */
function Playground() {
  const t = useT();
  const c = useCommonT();
  const [tab, setTab] = useUrlState("tab", "chat");
  return (
    <div className="absolute inset-0 flex flex-col">
      <PageHeader
        title={c.page.playground}
        note={
          <Segmented
            label={t.tabs.label}
            value={tab}
            onValue={setTab}
            options={[
              { value: "chat", label: t.tabs.chat },
              { value: "embedding", label: t.tabs.embedding },
              { value: "rerank", label: t.tabs.rerank },
            ]}
          />
        }
      />
      {tab === "embedding" || tab === "rerank" ? (
        <div className="min-h-0 flex-1 overflow-y-auto">
          <PageBody>{tab === "embedding" ? <Embedding /> : <Rerank />}</PageBody>
        </div>
      ) : (
        <ChatPage />
      )}
    </div>
  );
}
