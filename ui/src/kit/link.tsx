import { createLink } from "@tanstack/react-router";
import { ExternalLink } from "lucide-react";
import type { ComponentProps } from "react";
import { type ButtonLook, buttonStyle } from "./button";
import { cn } from "./cn";

const plain = "rounded-sm text-accent-text underline-offset-2 hover:underline";

function Anchor({ className, ...props }: ComponentProps<"a">) {
  return <a className={cn(plain, className)} {...props} />;
}

/** A link to a page of this interface: `to`, `params` and `search` are checked against the routes. */
export const Link = createLink(Anchor);

function ButtonAnchor({ look, size, className, ...props }: ComponentProps<"a"> & ButtonLook) {
  return <a className={cn(buttonStyle({ look, size }), className)} {...props} />;
}

/** A link that looks like a button, for an action that is another page. */
export const ButtonLink = createLink(ButtonAnchor);

/** A link out of this interface, in a tab of its own. */
export function OutLink({ children, className, ...props }: ComponentProps<"a">) {
  return (
    <a
      className={cn(plain, "inline-flex items-center gap-1", className)}
      target="_blank"
      rel="noopener noreferrer"
      {...props}
    >
      {children}
      <ExternalLink aria-hidden className="size-3" />
    </a>
  );
}
