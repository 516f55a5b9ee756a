import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { useT } from "@/i18n";
import { Button, IconButton } from "./button";

/** Puts a text on the clipboard; also where the page is not served over TLS and the browser withholds its interface for that. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  // In a dialog only what is inside of it can have the focus.
  (document.activeElement?.closest("[role=dialog]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

type CopyButtonProps = {
  text: string /** What is copied, for its name: "Copy the base URL". */;
  label?: string;
  look?: "icon" | "button";
  size?: "sm" | "md";
};

/** Copies `text`, and says "Copied" for two seconds. */
export function CopyButton({ text, label, look = "icon", size = "sm" }: CopyButtonProps) {
  const t = useT();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => void copyText(text).then(() => setCopied(true));
  const name = copied ? t.do.copied : (label ?? t.do.copy);
  return (
    <>
      {look === "icon" ? (
        <IconButton
          icon={copied ? Check : Copy}
          label={name}
          size={size}
          onClick={copy}
          className={copied ? "text-ok" : undefined}
        />
      ) : (
        <Button icon={copied ? Check : Copy} size={size} onClick={copy}>
          {name}
        </Button>
      )}
      <span aria-live="polite" className="sr-only">
        {copied ? t.do.copied : ""}
      </span>
    </>
  );
}
