import { setTheme, type Theme, useTheme } from "@/app/theme";
import { Segmented } from "@/kit/choices";
import { PageBody, PageHeader } from "@/kit/page-header";
import { type Tab, Tabs } from "@/kit/tabs";
import { ChartsShown } from "./charts-shown";
import { ControlsShown } from "./controls-shown";
import { DataShown } from "./data-shown";
import { FormsShown } from "./forms-shown";
import { OverlaysShown } from "./overlays-shown";

const THEMES: Theme[] = ["system", "light", "dark"];

/** Every component in every state, for who builds pages and for the tests. It is not in the build, so it is English only. */
export default function Page() {
  const theme = useTheme();
  const tabs: Tab[] = [
    { id: "controls", label: "Controls", content: <ControlsShown /> },
    { id: "data", label: "Data and states", content: <DataShown /> },
    { id: "overlays", label: "Dialogs and menus", content: <OverlaysShown /> },
    { id: "forms", label: "Forms of records", content: <FormsShown /> },
    { id: "charts", label: "Charts", content: <ChartsShown /> },
  ];
  return (
    <main>
      <PageHeader
        title="Components"
        actions={
          <Segmented
            label="Theme"
            value={theme}
            onValue={setTheme}
            options={THEMES.map((value) => ({ value, label: value }))}
          />
        }
      />
      <PageBody>
        <Tabs label="Kinds of components" tabs={tabs} />
      </PageBody>
    </main>
  );
}
