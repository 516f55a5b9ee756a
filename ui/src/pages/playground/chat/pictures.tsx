import { X } from "lucide-react";
import { useEffect, useState } from "react";
import { IconButton } from "@/kit/button";
import { useT } from "../t";
import { picturesOf } from "./kept";

const LONGEST_SIDE = 1280;

/** Reads a picture file, made small enough to be sent: a JPEG of at most 1280 px as a `data:` address. */
export async function readPicture(file: Blob): Promise<string> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  if (!context) throw new Error("no canvas");
  // What is transparent becomes white: a JPEG has no transparency.
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.toDataURL("image/jpeg", 0.88);
}

/** Small pictures in a row; with `onRemove` each can be taken away. */
export function Thumbs({ pictures, onRemove }: { pictures: string[]; onRemove?: (at: number) => void }) {
  const t = useT();
  if (pictures.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-2">
      {pictures.map((url, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same picture may be there twice
        <li key={at} className="relative">
          <img
            src={url}
            alt={t.composer.picture(at + 1)}
            className="size-16 rounded-md border border-line object-cover"
          />
          {onRemove && (
            <IconButton
              icon={X}
              look="plain"
              label={t.composer.removePicture(at + 1)}
              size="sm"
              className="-top-2 -right-2 absolute size-6 rounded-full"
              onClick={() => onRemove(at)}
            />
          )}
        </li>
      ))}
    </ul>
  );
}

/** The pictures of a question that was sent. They are in the browser that sent them, and nowhere else. */
export function SentPictures({
  session,
  message,
  count,
}: {
  session: string;
  message: number;
  count: number;
}) {
  const t = useT();
  const [pictures, setPictures] = useState<string[]>();
  useEffect(() => {
    let current = true;
    void picturesOf(session, message).then((found) => current && setPictures(found));
    return () => {
      current = false;
    };
  }, [session, message]);
  if (!pictures) return <div className="h-16" />;
  if (pictures.length === 0) return <p className="text-ink-3 text-sm">{t.turn.picturesElsewhere(count)}</p>;
  return <Thumbs pictures={pictures} />;
}
