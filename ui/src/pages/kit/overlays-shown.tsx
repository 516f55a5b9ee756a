import { EllipsisVertical, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { ApiError } from "@/api/errors";
import { Button, IconButton } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { Dialog } from "@/kit/dialog";
import { Drawer } from "@/kit/drawer";
import { Menu } from "@/kit/menu";
import { toast, toastError } from "@/kit/toast";
import { Tooltip } from "@/kit/tooltip";
import { Gallery, Shown } from "./shown";

const ERROR = new ApiError(409, {
  code: "invalid_state",
  message: "the model is being stopped",
  requestId: "01900000-0000-7000-8000-000000000003",
});

export function OverlaysShown() {
  const [open, setOpen] = useState<"dialog" | "confirm" | "typed" | "drawer" | null>(null);
  const [theme, setTheme] = useState("light");
  const close = () => setOpen(null);
  return (
    <Gallery>
      <Shown title="Dialog, ConfirmDialog, Drawer">
        <Button onClick={() => setOpen("dialog")}>Dialog</Button>
        <Button onClick={() => setOpen("confirm")}>Confirm, and fail</Button>
        <Button onClick={() => setOpen("typed")}>Confirm by typing</Button>
        <Button onClick={() => setOpen("drawer")}>Drawer</Button>
      </Shown>
      <Shown title="Menu, Tooltip, Toast">
        <Menu
          trigger={<IconButton icon={EllipsisVertical} label="More" />}
          items={[
            { label: "Edit", icon: Pencil, onSelect: () => toast("Edited."), keys: "e" },
            { label: "Not now", onSelect: () => {}, disabled: true },
            { kind: "line" },
            {
              kind: "choice",
              label: "Theme",
              value: theme,
              options: [
                { value: "light", label: "Light" },
                { value: "dark", label: "Dark" },
              ],
              onChoose: setTheme,
            },
            { kind: "line" },
            { label: "Delete", icon: Trash2, onSelect: () => toastError(ERROR), danger: true },
          ]}
        />
        <Tooltip text="It says more.">
          <Button>Tooltip</Button>
        </Tooltip>
        <Button onClick={() => toast("qwen is starting.")}>Toast</Button>
        <Button onClick={() => toastError(ERROR, "qwen could not be started.")}>Toast of an error</Button>
      </Shown>
      <Dialog
        open={open === "dialog"}
        onClose={close}
        title="A dialog"
        description="The page behind it is out of reach until it is closed."
        footer={
          <>
            <Button onClick={close}>Cancel</Button>
            <Button look="primary" onClick={close}>
              Create
            </Button>
          </>
        }
      />
      <ConfirmDialog
        open={open === "confirm"}
        onClose={close}
        title="Stop qwen?"
        consequence="Requests in flight end with an error."
        action="Stop"
        onConfirm={() => Promise.reject(ERROR)}
      />
      <ConfirmDialog
        open={open === "typed"}
        onClose={close}
        title="Delete qwen?"
        consequence="The record and its history are deleted. Files in the models folder stay."
        action="Delete"
        typed="qwen"
        onConfirm={async () => toast("Deleted.")}
      />
      <Drawer open={open === "drawer"} onClose={close} title="Request 01900000">
        Details of one thing of a list.
      </Drawer>
    </Gallery>
  );
}
